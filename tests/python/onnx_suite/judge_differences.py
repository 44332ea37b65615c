"""Where onnxruntime and the ONNX reference evaluator differ, and with whom tvmrt agrees.

    python tests/python/onnx_suite/judge_differences.py                # all operators
    python tests/python/onnx_suite/judge_differences.py --only 'Cast|Reduce.*'

Each network of onnx's node cases runs with the inputs of the case, with random ones, with special
values, with integers near their bounds, with every other element type of its first operand, with no
rows and as scalars. Where the two judges differ, tvmrt runs too. The table has one line for each
operator, type and kind of inputs. A difference is documented if a row of
``tests/python/support/differences`` applies to the node. The exit code is 1 if one is not
documented, or tvmrt agrees with neither judge and no row applies. Networks that tvmrt refuses are
not listed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test import loader
from onnx.reference import ReferenceEvaluator

import tvmrt
from tvmrt.cli.onnxruntime_session import run_onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
from differences import differences_of

Feeds = dict[str, Any]
CASES = 6  # networks of an operator that run with made-up inputs
SECONDS = 240  # for one operator
RELATIVE = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 1e-4, "float64": 1e-7}
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, 1e30, -1e30, 1e-40, 300.0, -7.0)
BUILT = frozenset("If Loop Scan SequenceMap ImageDecoder StringSplit".split())


class Trial(NamedTuple):
    """A network, its inputs, the kind of inputs, and the element type of the first operand."""

    model: onnx.ModelProto
    feeds: Feeds
    what: str
    kind: str


@dataclass
class Line:
    """Differences of one operator for one type and kind of inputs."""

    agrees: Counter = field(default_factory=Counter)
    rows: set = field(default_factory=set)
    example: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=".*", help="regular expression of operators")
    wanted = re.compile(parser.parse_args().only)
    lines: dict[tuple[str, str, str], Line] = {}
    tried: Counter = Counter()
    for operator, cases in sorted(_cases_by_operator().items()):
        if wanted.fullmatch(operator):
            count, found = _guarded(operator, cases)
            tried[operator] = count
            lines.update(found)
            print(f"{operator}: {count} runs, {len(found)} differences", file=sys.stderr)
    print("| operator | type | inputs | tvmrt agrees with | documented by | first difference |")
    print("|---|---|---|---|---|---|")
    for (operator, kind, what), line in sorted(lines.items()):
        agrees = ", ".join(f"{who} {count}" for who, count in sorted(line.agrees.items()))
        rows = ", ".join(sorted(line.rows)) or "NOTHING"
        print(f"| {operator} | {kind} | {what} | {agrees} | {rows} | {line.example} |")
    bad = [key for key, line in lines.items() if not line.rows]
    total = sum(tried.values())
    print(f"\n{total} runs of {len(tried)} operators; {len(lines)} lines, {len(bad)} undocumented")
    return 1 if bad else 0


def _cases_by_operator() -> dict[str, list[tuple[onnx.ModelProto, Feeds]]]:
    """Return networks of one node, with the inputs of their cases, by operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = loader.load_model_tests(kind="node")
    found = defaultdict(list)
    for case in loaded:
        nodes = case.model.graph.node
        if (
            len(nodes) != 1
            or nodes[0].op_type in BUILT
            or nodes[0].domain not in ("", "ai.onnx.ml")
        ):
            continue
        for inputs, _ in case.data_sets[:1]:
            names = (each.name for each in case.model.graph.input)
            feeds = dict(zip(names, map(_array, inputs)))
            if all(
                isinstance(each, np.ndarray) and each.dtype.kind != "O" for each in feeds.values()
            ):
                found[nodes[0].op_type].append((case.model, feeds))
    return found


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def _guarded(operator: str, cases: Sequence) -> tuple[int, dict]:
    """Compare an operator in a process of its own, since a judge may crash."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=_send, args=(sender, operator, cases))
    child.start()
    sender.close()
    try:
        found = receiver.recv() if receiver.poll(SECONDS) else None
    except EOFError:
        found = None
    child.kill()
    child.join()
    crashed = Line(Counter({f"process ended with {child.exitcode}": 1}))
    return found or (0, {(operator, "-", "-"): crashed})


def _send(sender, operator: str, cases: Sequence) -> None:
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    lines: dict = defaultdict(Line)
    count = 0
    for trial in _trials(cases):
        count += 1
        _compare(operator, trial, lines)
    sender.send((count, {key: line for key, line in lines.items() if line.agrees}))


def _compare(operator: str, trial: Trial, lines: dict) -> None:
    """Run the judges on a trial; if they differ, run tvmrt, too, and note who is right."""
    theirs = _attempt(lambda: run_onnxruntime(trial.model, trial.feeds, False))
    standard = _attempt(lambda: _by_reference(trial.model, trial.feeds))
    if theirs is None or standard is None:
        return
    example = _difference(theirs, standard)
    if not example:
        return
    if sum(lines[operator, trial.kind, trial.what].agrees.values()) > 2:
        return
    ours = _attempt(lambda: _by_tvmrt(trial.model, trial.feeds))
    if ours is None:
        return
    line, who = lines[operator, trial.kind, trial.what], "nobody"
    if not _difference(ours, theirs):
        who = "onnxruntime"
    elif not _difference(ours, standard):
        who = "reference"
    line.agrees[who] += 1
    rows = (row.name for found in differences_of(trial.model).values() for row in found)
    line.rows.update(rows)
    line.example = line.example or example


def _attempt(run) -> Feeds | None:
    try:
        return run()
    except Exception:  # a refusal; judges raise exceptions of any type
        return None


def _by_reference(model: onnx.ModelProto, feeds: Feeds) -> Feeds:
    values = ReferenceEvaluator(model).run(None, feeds)
    return dict(zip([each.name for each in model.graph.output], values))


def _by_tvmrt(model: onnx.ModelProto, feeds: Feeds) -> Feeds:
    found = tvmrt.load(model, cache=False)(feeds)
    names = [each.name for each in model.graph.output]
    return found if isinstance(found, dict) else {names[0]: found}


def _difference(some: Mapping[str, Any], others: Mapping[str, Any]) -> str:
    """Return the first difference of two results as text, or ""."""
    for name, one in some.items():
        other = others.get(name)
        if not isinstance(one, (np.ndarray, np.generic)) or other is None:
            continue
        a, b = np.asarray(one), np.asarray(other)
        if a.dtype.kind in "OSU" or b.dtype.kind in "OSU":
            continue
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"{a.dtype}{list(a.shape)} / {b.dtype}{list(b.shape)}"
        wrong = ~_equal(a, b)
        if wrong.any():
            first = tuple(np.argwhere(wrong)[0]) if a.shape else ()
            return f"{a[first]} / {b[first]}"
    return ""


def _equal(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind in "iub" or a.dtype.itemsize == 1:
        wide = [each.astype(np.float32) if each.dtype.kind == "V" else each for each in (a, b)]
        return (wide[0] == wide[1]) | ((wide[0] != wide[0]) & (wide[1] != wide[1]))
    relative = RELATIVE[a.dtype.name]
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    room = relative * max(1e-3, float(np.median(finite)) if finite.size else 0.0)
    return np.isclose(a, b, rtol=relative, atol=room, equal_nan=True)


def _trials(cases: Sequence[tuple[onnx.ModelProto, Feeds]]) -> Iterator[Trial]:
    for number, (model, feeds) in enumerate(cases):
        kind = _kind(feeds)
        yield Trial(model, feeds, "of the case", kind)
        if number * CASES % max(1, len(cases)) >= CASES and len(cases) > CASES:
            continue  # a sample of the networks, evenly spread
        for what in ("random", "special", "bounds"):
            yield Trial(model, _varied(feeds, what, number), what, kind)
        yield from _of_other_types(model, feeds, number)
        yield from _of_other_shapes(model, feeds)


def _kind(feeds: Feeds) -> str:
    return next(iter(feeds.values())).dtype.name if feeds else "-"


def _varied(feeds: Feeds, what: str, number: int) -> Feeds:
    """Return inputs with other values; integers of 64 bits (sizes, indices) stay as they are."""
    rng = np.random.default_rng(number)
    found = {}
    for name, array in feeds.items():
        small = array.dtype.kind in "iu" and array.dtype != np.int64
        if _is_float(array.dtype):
            values = rng.standard_normal(array.shape) * 3
            if what == "special":
                values = np.where(
                    rng.random(array.shape) < 0.5, values, rng.choice(SPECIAL, array.shape)
                )
            found[name] = values.astype(array.dtype)
        elif small and what == "bounds":
            ends = np.iinfo(array.dtype)
            choices = np.array([ends.min, ends.max, 0, 1, ends.max - 1, 5], array.dtype)
            found[name] = rng.choice(choices, array.shape)
        else:
            found[name] = array
    return found


def _is_float(dtype: np.dtype) -> bool:
    return "float" in dtype.name


def _of_other_types(model: onnx.ModelProto, feeds: Feeds, number: int) -> Iterator[Trial]:
    """Yield the network with other types for the operands that share the first one's type."""
    node = model.graph.node[0]
    opset = {each.domain: each.version for each in model.opset_import}[node.domain]
    schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    first = schema.inputs[0].type_str if schema.inputs else ""
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    for text in allowed.get(first, ()):
        match = re.fullmatch(r"tensor\((\w+)\)", text)
        if not match or match[1] in ("string", "complex64", "complex128"):
            continue
        code = onnx.TensorProto.DataType.Value(match[1].upper())
        dtype = helper.tensor_dtype_to_np_dtype(code)
        if not feeds or dtype == next(iter(feeds.values())).dtype:
            continue
        copy, given = onnx.ModelProto(), dict(feeds)
        copy.CopyFrom(model)
        for i, name in enumerate(node.input):
            formal = schema.inputs[min(i, len(schema.inputs) - 1)]
            if name in given and formal.type_str == first:
                given[name] = given[name].astype(np.float32).astype(dtype)
        for each in copy.graph.input:
            each.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(
                given[each.name].dtype
            )
        results = [formal.type_str == first for formal in schema.outputs]
        for i, each in enumerate(copy.graph.output):
            if results[min(i, len(results) - 1)]:
                each.type.tensor_type.elem_type = code
        for what in ("random", "special", "bounds"):
            yield Trial(copy, _varied(given, what, number), what, dtype.name)


def _of_other_shapes(model: onnx.ModelProto, feeds: Feeds) -> Iterator[Trial]:
    """Yield the network with no rows, and with scalars."""
    forms = {"no rows": lambda x: x[:0] if x.ndim else x, "scalars": lambda x: x.reshape(-1)[:1]}
    for what, form in forms.items():
        changed = {n: form(x) for n, x in feeds.items() if _is_float(x.dtype) or len(feeds) == 1}
        if what == "scalars":
            changed = {n: x.reshape(()) for n, x in changed.items() if x.size}
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        given = {**feeds, **changed}
        for each in copy.graph.input:
            kind = helper.np_dtype_to_tensor_dtype(given[each.name].dtype)
            each.CopyFrom(helper.make_tensor_value_info(each.name, kind, given[each.name].shape))
        for each in copy.graph.output:
            each.type.tensor_type.ClearField("shape")
        yield Trial(copy, given, what, _kind(given))


if __name__ == "__main__":
    sys.exit(main())
