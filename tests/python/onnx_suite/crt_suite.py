"""The onnx package's node tests on the crt runtime: on this machine, or on a board in QEMU.

    python tests/python/onnx_suite/crt_suite.py crt+host+aot+c+-O1+gcc
    python tests/python/onnx_suite/crt_suite.py crt+riscv32+aot+c+-O2+gcc --only 'test_conv.*'
    python tests/python/onnx_suite/crt_suite.py crt+cortex-m4+aot+c+-O2+gcc --shrink

Many networks share a program. ``not_on_crt.json`` lists what such a build does not support, for
``crt`` as a whole and by target, with reasons, in addition to not_passing.json; entries are only
removed. The exit code is 1 if a listed case passes or an unlisted one fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from batched import with_needed_values
from onnx import TensorProto
from onnx.backend.test import loader
from onnx.backend.test.runner import Runner
from onnx.numpy_helper import to_array

import tvmrt

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fuzz"))

import batch
import builds
import programs
from builds import Build

LIST = Path(__file__).with_name("not_on_crt.json")
HOST_LIST = Path(__file__).with_name("not_passing.json")
BATCH = 48  # networks in a program
PACKED = ("int2", "uint2", "int4", "uint4", "float4_e2m1fn")  # several elements per byte
LONGEST = 120  # characters of a reason

Results = dict[str, str]  # by case: "" if it passes, otherwise the reason


class NotHere(Exception):
    """The reason why a program of the crt runtime cannot run a case."""


def node_cases() -> list[Any]:
    """Return the node tests by name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(loader.load_model_tests(kind="node"), key=lambda case: case.name)


def _arrays(values: Sequence[Any]) -> list[np.ndarray]:
    """Return the operands of a case. Raise NotHere for operands that are not numeric arrays."""
    values = [to_array(each) if isinstance(each, TensorProto) else each for each in values]
    for value in values:
        if value is None or isinstance(value, (list, tuple)):
            raise NotHere("sequences and optional values have no C type in a program")
        if np.asarray(value).dtype.kind in "OUS":
            raise NotHere("strings have no C type on a board")
        if np.asarray(value).dtype.name in PACKED:
            raise NotHere(f"the program of these tests has no {np.asarray(value).dtype}")
    return [np.asarray(value) for value in values]


def _compiled(case: Any, build: Build, number: int) -> batch.Member:
    inputs, outputs = case.data_sets[0]
    inputs = _arrays(inputs)
    _arrays(outputs)
    given = {tensor.name for tensor in case.model.graph.initializer}
    names = [info.name for info in case.model.graph.input if info.name not in given]
    feeds = dict(zip(names, inputs))
    shapes = {name: array.shape for name, array in feeds.items()}
    make = partial(
        tvmrt.compile, case.model, module_name=f"n{number}", shapes=shapes, **build.options
    )
    library, _ = with_needed_values(lambda values: make(values=values), feeds)
    member = batch.Member(case.name, case.model, library, [batch.Run(feeds)])
    missing = [each.name for each in library.summary.inputs if each.name not in feeds]
    if missing:
        raise NotHere(f"the program of these tests does not give {missing[0]}")
    return member


def run_batch(cases: Sequence[Any], build: Build) -> Results:
    """Compile and run some cases in one program."""
    results: Results = {}
    members, own = [], []
    for case in cases:
        try:
            members.append(_compiled(case, build, len(members)))
            own.append(case)
        except Exception as problem:
            results[case.name] = _short(str(problem))
    outcomes = [batch.Outcome() for _ in members]
    with tempfile.TemporaryDirectory(prefix="tvmrt-suite-") as folder:
        programs.run_program(Path(folder), members, outcomes, build, lean=True)
    for case, outcome in zip(own, outcomes):
        results[case.name] = _verdict(case, outcome)
    return results


def _verdict(case: Any, outcome: batch.Outcome) -> str:
    """Return an empty string if the outputs are correct, otherwise the error."""
    if outcome.refused:
        return _short(outcome.refused)
    if outcome.kind or outcome.failures:
        text = outcome.text or next(iter(outcome.failures.values()))
        return _short(f"wrong: {outcome.kind or 'failed'}: {text}")
    wanted = _arrays(case.data_sets[0][1])
    try:
        Runner.assert_similar_outputs(wanted, outcome.outputs[0], rtol=case.rtol, atol=case.atol)
    except AssertionError as problem:
        return _short(f"wrong: {problem}")
    return ""


def _short(text: str) -> str:
    text = re.sub(r"^\d+ nodes? of the network cannot be compiled: ", "", " ".join(text.split()))
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def run_all(cases: Sequence[Any], build: Build, workers: int | None = None) -> Results:
    """Run all cases. Adjacent ones take similar time, so they go to different programs."""
    count = max(1, -(-len(cases) // BATCH))
    parts = [cases[i::count] for i in range(count)]
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        found = list(pool.map(lambda part: run_batch(part, build), parts))
    return {name: why for part in found for name, why in sorted(part.items())}


def surprises(results: Results, lists: Mapping[str, Mapping[str, str]], target: str) -> list[str]:
    """Return cases that fail and are not listed, and listed cases that pass."""
    own = {**lists["crt"], **lists.get(target, {})}
    known = {**json.loads(HOST_LIST.read_text()), **own}
    found = [f"{n} does not pass: {why}" for n, why in results.items() if why and n not in known]
    passing = [n for n, why in results.items() if not why and n in own]
    return found + [f"{n} passes; take it from the list by crt_suite.py --shrink" for n in passing]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", help="as builds.py has them")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--show", action="store_true", help="what does not pass, with the reason")
    parser.add_argument("--causes", action="store_true", help="how often which reason")
    parser.add_argument("--shrink", action="store_true", help="take from the list what passes")
    args = parser.parse_args()
    (build,) = builds.selected([args.build])
    results = run_all([c for c in node_cases() if re.search(args.only, c.name)], build)
    lists = json.loads(LIST.read_text())
    if args.shrink:
        for known in (lists["crt"], lists.get(build.target, {})):
            for name in [n for n in known if not results.get(n, "not run")]:
                del known[name]
        LIST.write_text(json.dumps(lists, indent=1, sort_keys=True) + "\n")
    wrong = surprises(results, lists, build.target)
    if args.show:
        print(*(f"{name}: {why}" for name, why in results.items() if why), sep="\n")
    if args.causes:
        reasons = Counter(re.sub(r"^\S+ ", "", why) for why in results.values() if why)
        print(*(f"{count:5} {why}" for why, count in reasons.most_common()), sep="\n")
    print(*wrong, sep="\n")
    failed = sum(why.startswith("wrong") for why in results.values())
    right = sum(not why for why in results.values())
    print(f"{build}: {right} of {len(results)} pass, {failed} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
