"""Compare random networks with open axes with onnxruntime at six sizes, some of them invalid.

    open_graphs.py --first 0 --count 2000       these networks
    open_graphs.py --first 7 --count 1          what a finding prints
    open_graphs.py --first 0 --seconds 600      as many as the time allows
    open_graphs.py FILE.onnx                    a finding, with its FILE.npz

Each network is loaded with ``tvmrt.load`` without bounds, in a process with limits of time and
memory, and called at each size. A network is

- ``right`` if all outputs are those of onnxruntime without its optimiser, by the rules of
  ``comparison.py``, and each size at which onnxruntime fails is an error;
- ``refused`` if the load, or a call at a size that onnxruntime runs, is an error;
- ``wrong`` if outputs differ, if there are outputs where onnxruntime fails, or if the process ends.

Where onnxruntime fails or differs, and the reference evaluator gives the outputs of tvmrt, the size
is skipped; the reasons are counted. The last line is ``N graphs: R right, F refused, W wrong``.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TVMRT_CFLAGS", "-O1")
os.environ.setdefault("TVMRT_TARGET", "native")

import comparison
import families
import families_found
import families_moves
import families_nn
import families_open
import numpy as np
import onnx
import open_generator
import references
from findings import Findings

import tvmrt

FAMILIES = (families, families_moves, families_nn, families_open, families_found)
SECONDS = 120  # of one network
MAX_BYTES = 8 << 30
Runs = Sequence[tuple[dict[str, int], dict[str, np.ndarray]]]


def judged(model: onnx.ModelProto, runs: Runs) -> list[tuple[str, str]]:
    """Return for each run ``right``, ``refused``, ``wrong`` or ``skipped``, and a text."""
    expected = [_expected(model, feeds) for _, feeds in runs]
    try:
        network = tvmrt.load(model, cache=False)
    except Exception as problem:
        text = f"load: {type(problem).__name__}: {problem}"
        return [("right", "") if each is None else ("refused", text) for each in expected]
    results = []
    for (sizes, feeds), right in zip(runs, expected):
        kind, text = _judged_run(model, network, feeds, right)
        results.append((kind, f"at {sizes}: {text}" if text else ""))
    return results


def _expected(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """Return the outputs of onnxruntime, or None if it fails."""
    try:
        references.by_onnxruntime(model, feeds)
        return references.right_outputs(model, feeds)
    except Exception:  # its exceptions share no base class
        return None


def _judged_run(
    model: onnx.ModelProto, network: Any, feeds: dict[str, np.ndarray],
    right: list[np.ndarray] | None,
) -> tuple[str, str]:  # fmt: skip
    try:
        found = [np.asarray(each) for each in network(feeds).values()]
    except Exception as problem:
        text = f"{type(problem).__name__}: {problem}"
        if right is not None and _differs_from_standard(model, feeds, right):
            return "skipped", "onnxruntime differs from the standard, and tvmrt refuses"
        return ("right", "") if right is None else ("refused", text)
    if right is None:
        return _judged_by_standard(model, feeds, found)
    wrong = comparison.compared(model, found, right, [])
    if wrong:
        wrong = comparison.compared(model, found, right, _shaken(model, feeds))
    if wrong and _is_of_the_standard(model, feeds, found, right):
        return "skipped", "onnxruntime differs from the standard"
    return ("wrong", "; ".join(wrong)) if wrong else ("right", "")


def _is_of_the_standard(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], found: list[np.ndarray],
    right: list[np.ndarray],
) -> bool:  # fmt: skip
    """Return True if each output is that of the reference evaluator or of onnxruntime, each of
    which deviates at some operators."""
    for judge in (references.by_standard, references.with_standard_indices):
        try:
            standard = judge(model, feeds)
        except Exception:  # its exceptions share no base class
            continue
        mixed = list(right)
        for text in comparison.compared(model, found, right, []):
            number = int(re.findall(r"\d+", text)[0])
            mixed[number] = standard[number]
        if not comparison.compared(model, found, mixed, []):
            return True
    return False


def _differs_from_standard(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], right: list[np.ndarray]
) -> bool:
    """Return True if the reference evaluator gives other shapes than onnxruntime, which rounds
    sizes of windows that do not fit up to one, or if inference refuses a node that it runs."""
    try:
        found = references.by_standard(model, feeds)
        if [each.shape for each in found] != [each.shape for each in right]:
            return True
    except Exception:  # its exceptions share no base class
        pass
    return references.leaves_the_standard(model, feeds)


def _judged_by_standard(
    model: onnx.ModelProto, feeds: dict[str, np.ndarray], found: list[np.ndarray]
) -> tuple[str, str]:
    """Judge outputs at a size that onnxruntime refuses."""
    text = _refusal(model, feeds)
    if not text:
        return "skipped", "only onnxruntime runs it"
    plain = with_plain_zeros(model)
    filled = with_filled_picture(model, text)
    judges = [("the standard where onnxruntime fails", references.by_parts, model),
              ("the standard", references.by_standard, model),
              ("onnxruntime with a picture of zeros", references.by_parts, filled)]  # fmt: skip
    undetermined = any(_is_undetermined(each, feeds, _refusal(each, feeds))
                       for each in (model, plain))  # fmt: skip
    if not undetermined:
        judges += [
            ("onnxruntime with plain zeros", references.by_onnxruntime, plain),
            ("the standard with plain zeros", references.by_parts, plain),
        ]
    for name, judge, each in judges:
        try:
            right = judge(each, feeds)
        except Exception:
            continue
        wrong = comparison.compared(model, found, right, [])
        if wrong and not _is_of_the_standard(model, feeds, found, right):
            return "wrong", f"onnxruntime fails, and {name} differs: {'; '.join(wrong)}"
        return "skipped", f"onnxruntime fails, {name} agrees"
    if undetermined:
        return "skipped", "a Reshape of an empty tensor has an undetermined -1"
    at = text.find("Name:")
    return "wrong", f"outputs where onnxruntime fails: {text[max(at, 0) :][:300]}"


def _refusal(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> str:
    """Return the error of onnxruntime, or nothing if it runs the network."""
    try:
        references.by_onnxruntime(model, feeds)
    except Exception as problem:  # its exceptions share no base class
        return " ".join(str(problem).split())
    return ""


def with_plain_zeros(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the network with ``allowzero=1`` in each Reshape. Where the standard refuses a run
    because a computed 0 copies an extent that does not fit, tvmrt keeps the 0."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for node in found.graph.node:
        if node.op_type == "Reshape" and not any(a.name == "allowzero" for a in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("allowzero", 1))
    return found


def with_filled_picture(model: onnx.ModelProto, text: str) -> onnx.ModelProto:
    """Return the network with a zero at the end of the picture of the GridSample that fails: the
    samples of an empty picture are those of zeros."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    name = re.search(r"Name:'([^']*)'", text)
    for place, node in enumerate(model.graph.node):
        if name and node.name == name[1] and node.op_type == "GridSample":
            pads = onnx.numpy_helper.from_array(np.array([0] * 6 + [1, 1]), "one_zero")
            found.graph.initializer.append(pads)
            pad = onnx.helper.make_node("Pad", [node.input[0], "one_zero"], ["filled"])
            found.graph.node[place].input[0] = "filled"
            found.graph.node.insert(place, pad)
    return found


def _is_undetermined(model: onnx.ModelProto, feeds: dict[str, np.ndarray], text: str) -> bool:
    """Return True if onnxruntime fails at a Reshape of an empty tensor whose -1 may be any number,
    such as 0 elements to [0, -1]."""
    name = re.search(r"Name:'([^']*)'", text)
    node = next((n for n in model.graph.node if name and n.name == name[1]), None)
    if node is None or node.op_type != "Reshape":
        return False
    part = onnx.ModelProto()
    part.CopyFrom(model)
    known = {each.name: each for each in (*model.graph.input, *model.graph.initializer)}
    del part.graph.output[:]
    part.graph.output.extend(onnx.ValueInfoProto(name=n) for n in node.input if n not in known)
    del part.graph.node[list(model.graph.node).index(node) :]
    computed = len(part.graph.output) > 0
    earlier = _refusal(part, feeds) if computed else ""  # fails if more outputs are computed
    if earlier:
        return _is_undetermined(part, feeds, earlier)
    found = references.by_onnxruntime(part, feeds) if computed else []
    values = dict(zip((n.name for n in part.graph.output), found))
    values |= {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer} | feeds
    x, shape = (values[n] for n in node.input)
    return x.size == 0 and {0, -1} <= set(shape.tolist())


def _shaken(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[list[np.ndarray]]:
    found = []
    for number in range(comparison.SHAKES):
        other = comparison.shaken_model(model, number)
        again = _expected(other, comparison.shaken_feeds(feeds, number))
        if again is not None:
            found.append(again)
    return found


def in_child(work: Any, *arguments: Any) -> Any:
    """Return the result of a function in a process with limits, or a text if it has none."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, work, arguments))
    process.start()
    sender.close()
    try:
        result = receiver.recv() if receiver.poll(SECONDS) else f"no end after {SECONDS} s"
    except EOFError:
        process.join()
        result = f"its process ends with {process.exitcode}"
    process.kill()
    process.join()
    return result


def _send(sender: Any, work: Any, arguments: tuple[Any, ...]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 2)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    sender.send(work(*arguments))


def made_and_judged(seed: int) -> tuple[bytes, Any, list[tuple[str, str]]]:
    """Make the network of a seed and judge it."""
    model, runs = open_generator.grown(seed)
    return model.SerializeToString(), runs, judged(model, runs)


class Totals:
    """Counts of networks and sizes, and the findings."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.graphs: Counter[str] = Counter()
        self.sizes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.firsts: dict[str, int] = {}

    def add(self, seed: int, found: Any) -> None:
        """Count the result of a network, and keep it if it is wrong."""
        if isinstance(found, str):
            self._fail(seed, found)
            return
        data, runs, results = found
        kinds = Counter(kind for kind, _ in results)
        self.sizes.update(kinds)
        self.skipped.update(text.split("}: ")[-1] for kind, text in results if kind == "skipped")
        state = next((each for each in ("wrong", "refused") if kinds[each]), "right")
        self.graphs[state] += 1
        if state == "right":
            return
        text = next(text for kind, text in results if kind == state)
        self._count(state, text, seed)
        model = onnx.load_from_string(data)
        feeds = {f"{i}:{name}": each for i, (_, run) in enumerate(runs)
                 for name, each in run.items()}  # fmt: skip
        about = f"{text}\n\n{onnx.printer.to_text(model)}"
        if state == "wrong":
            repeat = f"--first {seed} --count 1"
            self.findings.add("wrong", about, f"open-{seed}", model, feeds, repeat)
        else:
            self.findings.remark(f"refused {stem_of(text)[:60]}", about, f"open-{seed}", model)

    def _fail(self, seed: int, text: str) -> None:
        """Count a process without a result; the network is made again to see whether it is a
        judge's."""
        made = in_child(_expected_of_seed, seed)
        if isinstance(made, str):
            self.graphs["left out"] += 1
            print(f"seed {seed} is left out, since its judge fails: {made}", flush=True)
            return
        state = "refused" if text.startswith("no end") else "wrong"
        self.graphs[state] += 1
        self._count(state, text, seed)
        print(f"FOUND {state}: seed {seed}: {text}", flush=True)

    def _count(self, state: str, text: str, seed: int) -> None:
        cause = f"{state}: {stem_of(text)}"
        self.causes[cause] += 1
        self.firsts.setdefault(cause, seed)

    def lines(self) -> list[str]:
        """Return the causes with the first seed of each, and the totals."""
        found = [f"{count} times, first seed {self.firsts[cause]}: {cause}"
                 for cause, count in self.causes.most_common()]  # fmt: skip
        sizes = ", ".join(f"{self.sizes[each]} {each}"
                          for each in ("right", "refused", "wrong", "skipped"))  # fmt: skip
        found += [f"{n} sizes skipped: {why}" for why, n in self.skipped.most_common()]
        g = self.graphs
        total = g["right"] + g["refused"] + g["wrong"]
        graphs = f"{g['right']} right, {g['refused']} refused, {g['wrong']} wrong"
        return [*found, f"sizes: {sizes}", f"{total} graphs: {graphs}"]


def _expected_of_seed(seed: int) -> int:
    model, runs = open_generator.grown(seed)
    return sum(_expected(model, feeds) is not None for _, feeds in runs)


def stem_of(text: str) -> str:
    """Remove sizes, quoted names and numbers from an error."""
    text = re.sub(r"^at \{.*?\}: ", "", " ".join(text.split()))
    return re.sub(r"'[^']*'|\"[^\"]*\"|\b\w*\d[\w.+-]*|\[[^\]]*\]", "_", text)[:150]


def again(path: Path) -> int:
    """Run one finding and print the result of each size."""
    runs: dict[int, dict[str, np.ndarray]] = {}
    with np.load(path.with_suffix(".npz")) as file:
        for key in file.files:
            _, number, name = key.split(":", 2)
            runs.setdefault(int(number), {})[name] = file[key]
    rows = [({}, feeds) for _, feeds in sorted(runs.items())]
    results = in_child(judged, onnx.load(path), rows)
    print(json.dumps(results, indent=1))
    return int(isinstance(results, str) or any(kind == "wrong" for kind, _ in results))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--findings", type=Path, default=None, help="folder of findings")
    arguments = parser.parse_args()
    if arguments.file:
        return again(arguments.file)
    totals = Totals(Findings(arguments.findings, "open_graphs.py"))
    end = time.monotonic() + arguments.seconds
    for seed in range(arguments.first, arguments.first + arguments.count):
        if time.monotonic() > end:
            break
        totals.add(seed, in_child(made_and_judged, seed))
    print(*totals.lines(), sep="\n")
    if totals.findings.folder is not None:
        print(f"findings are kept in {totals.findings.folder}")
    return int(totals.graphs["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
