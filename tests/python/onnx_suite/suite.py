"""The onnx package's tests through ``support/onnx_backend.py``, compiled in batches.

    python tests/python/onnx_suite/suite.py                    # all kinds, counted
    python tests/python/onnx_suite/suite.py --kind node --only 'test_reduce_.*' --show
    python tests/python/onnx_suite/suite.py --body loop        # node cases with the nodes in loops
    python tests/python/onnx_suite/suite.py --shrink           # what passes leaves the list

A network that needs the value of an input when it is compiled gets the value that the case has, as
the error says (option ``values``); the summary counts these cases.

``not_passing.json`` lists the expected failures with reasons; entries are only removed. The reason
of a "wrong" case begins with the row of the table of intentional differences
(``tests/python/support/differences``) that applies to its network. The exit code is 1 if a listed
case passes or an unlisted one fails.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import re
import sys
import tempfile
import unittest
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))  # if it is run as a program
import onnx_backend
from batched import compile_alone, load_together, stands_alone, with_needed_values
from bodies import BODIES, UnfitError
from onnx.backend.test import loader
from onnx.backend.test.case import node
from onnx.backend.test.runner import Runner

from tvmrt.error import UnsupportedError

LIST = Path(__file__).with_name("not_passing.json")
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
BATCH = 64  # networks in a library
LONGEST = 100  # characters of a reason
UNFIT = "not in this body: "  # begins the reason of a case that is left out

Results = dict[str, str]  # by case: "" if it passes, otherwise the reason
STATED = "with a stated value"  # result of a case that passes so
halved: list[int] = []  # sizes of the batches that had to be split


class _Recorded(Exception):
    """Raised after recording the model of a case, with its inputs."""


class _Recorder:
    """Records the inputs that a case gives to its model."""

    def __init__(self, model: onnx.ModelProto, more_inputs: Sequence[np.ndarray]) -> None:
        self._model, self._more_inputs = model, more_inputs

    def run(self, inputs, **_options):
        raise _Recorded(self._model, [*inputs, *self._more_inputs])


class Suite(onnx_backend.Backend):
    """The backend, with networks that were compiled in advance."""

    is_recording = False
    stated: ClassVar[set[bytes]] = set()  # models that need the value of an input
    ready: ClassVar[dict[bytes, onnx_backend.CompiledModel | Exception]] = {}
    body = ""  # the body of BODIES that the nodes are moved into

    @classmethod
    def prepare(cls, model, device="CPU", **options):
        more_inputs: tuple[np.ndarray, ...] = ()
        if cls.body:
            try:
                wrapped = BODIES[cls.body](model)
            except UnfitError as problem:
                raise unittest.SkipTest(f"{UNFIT}{problem}") from None
            model, more_inputs = wrapped.model, wrapped.more_inputs
        if cls.is_recording:
            return _Recorder(model, more_inputs)
        found = cls.ready.get(model.SerializeToString(deterministic=True))
        if isinstance(found, Exception):
            raise found
        prepared = found or _CompiledInRun(
            model, partial(super().prepare, model, device, **options)
        )
        return _WithInputs(prepared, more_inputs) if more_inputs else prepared


class _CompiledInRun:
    """A model of open sizes, which is compiled for the inputs of its run."""

    def __init__(self, model: onnx.ModelProto, prepare: Callable) -> None:
        self._model, self._prepare = model, prepare

    def run(self, inputs, **options):
        def run_with(values):
            return self._prepare(values=values).run(inputs, **options)

        return _with_needed_values(run_with, self._model, inputs)


class _WithInputs:
    """A compiled model that is given the values of further inputs in each run."""

    def __init__(self, prepared, more_inputs: Sequence[np.ndarray]) -> None:
        self._prepared, self._more_inputs = prepared, more_inputs

    def run(self, inputs, **options):
        return self._prepared.run([*inputs, *self._more_inputs], **options)


class _Runner(Runner):
    """Runner that compares lists element by element. The runner of onnx takes scalars for lists,
    and checks neither types nor lengths."""

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, *args, **options):
        compare = super().assert_similar_outputs
        for right, found in zip(ref_outputs, outputs):
            if isinstance(found, list):
                assert isinstance(right, list) and len(right) == len(found), (right, found)
                compare(right, found, *args, **options)
        compare(*([v for v in each if not isinstance(v, list)] for each in (ref_outputs, outputs)),
                *args, **options)  # fmt: skip


def cases_of(kinds: Sequence[str] = KINDS, operators: Sequence[str] = ()) -> dict[str, Callable]:
    """Return cases by name, each a function that raises on failure.

    ``operators``: only the node cases of these modules, read without the others.
    """

    def chosen(kind: str) -> list:
        if kind not in kinds:
            return []
        found = _of_operators(operators) if operators else loader.load_model_tests(kind=kind)
        for case in found:
            if case.name.startswith("test_cast"):
                case.data_sets = [_with_wrapped_results(*arrays) for arrays in case.data_sets]
        return found

    with warnings.catch_warnings(), mock.patch("onnx.backend.test.runner.load_model_tests", chosen):
        warnings.simplefilter("ignore")
        tests = _Runner(Suite).test_cases
    found = {}
    for test in tests.values():
        for name in vars(test):
            if name.endswith("_cpu"):
                found[name[: -len("_cpu")]] = getattr(test(name), name)
    return found


def _with_wrapped_results(inputs: Sequence, outputs: Sequence) -> tuple[Sequence, Sequence]:
    """Return the arrays of a conversion, floats beyond integers of 4 and 2 bits modulo 16 and 4.

    ONNX leaves open what they become; versions of ml_dtypes, which make onnx's results, differ.
    """
    value, found = map(_as_array, (inputs[0], outputs[0]))
    bits = re.fullmatch(r"u?int([24])", found.dtype.name)
    if not bits or re.fullmatch(r"u?int\d+", value.dtype.name):
        return inputs, outputs
    whole = np.trunc(value.astype(np.float64)).astype(np.int64)
    wrapped = whole.astype(found.dtype)
    in_range = wrapped.astype(np.int64) == whole
    np.testing.assert_array_equal(found[in_range], wrapped[in_range])
    return inputs, [wrapped]


def _as_array(value: np.ndarray | onnx.TensorProto) -> np.ndarray:
    return value if isinstance(value, np.ndarray) else onnx.numpy_helper.to_array(value)


def _of_operators(modules: Sequence[str]) -> list:
    """Return the node cases of some of onnx's modules, one module per operator."""
    for module in modules:
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    return list(node._NodeTestCases)


def run_batch(cases: Mapping[str, Callable]) -> Results:
    """Compile the networks of some cases, in one library if possible, and run them all."""
    results, models, inputs = {}, {}, {}
    Suite.is_recording = True
    for name, case in cases.items():
        try:
            case()
        except _Recorded as found:
            models[name], inputs[name] = found.args
        except Exception as problem:
            results[name] = _reported("", problem)
    Suite.is_recording = False
    _compile(models, inputs)
    for name, model in models.items():
        try:
            cases[name]()
            key = model.SerializeToString(deterministic=True)
            results[name] = STATED if key in Suite.stated else ""
        except (Exception, unittest.SkipTest) as problem:
            refused = Suite.ready.get(model.SerializeToString(deterministic=True)) is problem
            refused |= isinstance(problem, UnsupportedError)
            refused |= bool(Suite.body) and not isinstance(problem, AssertionError)
            results[name] = _reported("" if refused else "wrong: ", problem)
    Suite.ready.clear()
    Suite.stated.clear()
    return results


def _compile(models: Mapping[str, onnx.ModelProto], inputs: Mapping[str, Sequence]) -> None:
    together = {}
    for name, model in models.items():
        key = model.SerializeToString(deterministic=True)
        if onnx_backend.is_dynamic(model):
            continue  # compiled for the device that it runs on
        try:
            make = partial(compile_alone, model, re.sub(r"\W", "_", name))
            library = _with_needed_values(make, model, inputs[name])
        except Exception as problem:
            Suite.ready[key] = problem
            continue
        if not stands_alone(library):
            together[key] = (model, library)
    executors = load_together([library for _, library in together.values()])
    for (key, (model, library)), executor in zip(together.items(), executors):
        Suite.ready[key] = onnx_backend.CompiledModel(model, executor, library)


def _with_needed_values(make: Callable, model: onnx.ModelProto, inputs: Sequence) -> Any:
    """Return ``make(values)`` with the values of the inputs that the compiler asks for."""
    by_name = {info.name: value for info, value in zip(model.graph.input, inputs)}
    found, values = with_needed_values(make, by_name)
    if values:
        Suite.stated.add(model.SerializeToString(deterministic=True))
    return found


def _reported(before: str, problem: BaseException) -> str:
    text = " ".join(f"{before}{problem}".split()) or type(problem).__name__
    text = re.sub(r"^\d+ nodes? of the network cannot be compiled: ", "", text)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def run_guarded(cases: Mapping[str, Callable]) -> Results:
    """Run a batch in a separate process, to find cases with invalid C code or crashes."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_send, args=(sender, cases))
    child.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        found = None
    child.join()
    if isinstance(found, dict):
        return found
    if len(cases) == 1:
        return dict.fromkeys(cases, found or f"the process ended with {child.exitcode}")
    halved.append(len(cases))
    names, half = list(cases), len(cases) // 2
    parts = ({n: cases[n] for n in some} for some in (names[:half], names[half:]))
    return {name: why for part in parts for name, why in run_guarded(part).items()}


def _send(sender, cases: Mapping[str, Callable]) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="tvmrt-onnx-") as home:
        os.environ["ONNX_HOME"] = home
        try:
            sender.send(run_batch(cases))
        except Exception as problem:
            sender.send(_reported("", problem))
    sender.close()
    os._exit(0)


def run_all(cases: Mapping[str, Callable], workers: int | None = None) -> Results:
    """Run all cases; light models have separate libraries because they are large."""
    # adjacent cases are similar and take similar time
    count = max(1, -(-len(cases) // BATCH))
    names = list(cases)
    batches = [{n: cases[n] for n in names[i::count]} for i in range(count)]
    with ThreadPoolExecutor(workers or os.cpu_count()) as pool:
        found = {k: v for part in pool.map(run_guarded, batches) for k, v in part.items()}
    return {name: found[name] for name in names}


def listed() -> dict[str, str]:
    """Return the expected failures by name, with reasons."""
    return json.loads(LIST.read_text())


def surprises(results: Results, known: Mapping[str, str]) -> list[str]:
    """Return unexpected failures, and expected failures that pass."""
    found = [f"{n} does not pass: {why}" for n, why in results.items() if why and n not in known]
    passing = [n for n, why in results.items() if not why and n in known]
    return found + [f"{n} passes; take it from the list by suite.py --shrink" for n in passing]


def _is_fault(line: str) -> bool:
    """Return whether a case in a body has wrong results, or failed in another way than refused."""
    faults = "does not pass: wrong", "it cannot be read", "the process ended"
    return any(text in line for text in faults)


def counted(results: Results, kinds: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Return a summary line per kind."""
    for kind, names in kinds.items():
        ran = [results[n] for n in names if n in results]
        if ran:
            wrong = sum(why.startswith("wrong") for why in ran)
            stated = ran.count(STATED)
            right = ran.count("") + stated
            refused = len(ran) - right - wrong
            yield f"{kind}: {right} of {len(ran)} pass, {refused} refused, {wrong} wrong"
            yield f"{kind}: {stated} of those that pass need the value of an input"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", action="append", choices=KINDS, help="all but real: light models")
    parser.add_argument("--operators", nargs="*", default=[], help="onnx's modules of node cases")
    parser.add_argument("--only", default="", help="a regular expression of names")
    parser.add_argument("--body", choices=BODIES, default="", help="node cases in such a body")
    parser.add_argument("--part", default="0/1", help="K/N: each Nth case from the Kth on")
    parser.add_argument("--show", action="store_true", help="what does not pass, with the reason")
    parser.add_argument("--causes", action="store_true", help="how often which reason")
    parser.add_argument("--shrink", action="store_true", help="take from the list what passes")
    return parser.parse_args()


def main() -> int:
    args = _arguments()
    kinds, results = {}, {}
    Suite.body = args.body
    first, step = map(int, args.part.split("/"))
    for kind in args.kind or (["node"] if args.operators or args.body else KINDS[:-1]):
        found = cases_of([kind], args.operators)
        kinds[kind] = list(found)
        names = [name for name in found if re.search(args.only, name)][first::step]
        results.update(run_all({name: found[name] for name in names}))
    stated = [name for name, why in results.items() if why == STATED]
    summary = list(counted(results, kinds))
    results.update(dict.fromkeys(stated, ""))
    known = listed()
    if args.body:
        results = {name: why for name, why in results.items() if not why.startswith(UNFIT)}
    if args.show:
        print(*(f"{name}: {why}" for name, why in results.items() if why), sep="\n")
    if args.causes:
        why = Counter(re.sub(r"^\S+ ", "", text) for text in results.values() if text)
        print(*(f"{count:5} {text}" for text, count in why.most_common()), sep="\n")
    print(*summary, sep="\n")
    print(f"batches run in halves: {len(halved)}")
    if args.shrink:
        known = {n: why for n, why in known.items() if results.get(n, why)}
        LIST.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    unexpected = surprises(results, known)
    if args.body:
        # Operands may be values of iterations in bodies: what is refused in a sentence is counted
        # only.
        unexpected = [line for line in unexpected if _is_fault(line)]
    for line in unexpected:
        print(line)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
