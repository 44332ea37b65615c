"""Plain evaluation of a network: by the onnx package, and by the operators' own definitions.

Neither uses kernels, generated code or onnxruntime. The onnx package's evaluator does not use the
compiler's import either.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.cli.tolerance import Verdict
from tvmrt.compiler.sdk.graph import Node, Value

OPSET = 21  # for the evaluator, which lacks some operators in older versions
Arrays = Mapping[str, np.ndarray]


class OnnxNetwork:
    """An ONNX network in the evaluator of the onnx package. ``nodes``: the names of its nodes, as
    the compiler gives them, and the tensors that they compute.

    Raises ValueError if the evaluator cannot run the network.
    """

    def __init__(self, data: bytes) -> None:
        import onnx
        from onnx.reference import ReferenceEvaluator
        from onnx.version_converter import convert_version

        model = onnx.load_from_string(data)
        for node in model.graph.node:
            node.name = node.name or f"{node.op_type}_{node.output[0]}"
        self.nodes = [(node.name, list(node.output)) for node in model.graph.node]
        try:
            if any(each.version < OPSET for each in model.opset_import if each.domain == ""):
                model = convert_version(model, OPSET)
            self._evaluator = ReferenceEvaluator(model)
        except Exception as error:  # the package raises whatever its parts raise
            raise ValueError(_first_line(error)) from error

    def run(self, feeds: Arrays, replace: Callable = lambda name, array: array) -> Arrays:
        """Return all tensors by name. ``replace`` is given each, and returns what is read of it."""
        found: dict[str, Any] = {"": None, **self._evaluator.rt_inits_, **feeds}
        for node in self._evaluator.rt_nodes_:
            more = {"context": found} if node.need_context() else {}
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    results = node.run(*(found[name] for name in node.input), **more)
            except Exception as error:  # the package raises whatever its parts raise
                raise ValueError(_first_line(error)) from error
            for name, result in zip(node.output, results):
                found[name] = replace(name, result) if isinstance(result, np.ndarray) else result
        return {name: each for name, each in found.items() if isinstance(each, np.ndarray)}


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:120]


def _wide(array: np.ndarray) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _evaluate(node: Node, operands: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    if node.op == "quantize":  # rounds a quotient of its operands' type
        operands = [np.asarray(a, v.dtype.numpy) for a, v in zip(operands, node.inputs)]
    with np.errstate(all="ignore"):
        results = node.operator.evaluate(operands, node.attrs)
    if results is None:
        raise ValueError(f"operator {node.op} of node {node.name} has no plain evaluation")
    return list(map(_wide, results))


class PlainEvaluation:
    """Tensors of a graph, evaluated when they are requested; floats are computed in float64.

    ``feeds``: arrays by name of the graph's inputs.
    """

    def __init__(self, feeds: Arrays) -> None:
        self._values: dict[Value, np.ndarray] = {}
        self._exact: set[Value] = set()
        self._feeds = feeds

    def array(self, value: Value) -> np.ndarray:
        """Return a tensor. Raises ValueError if an operator has no plain evaluation."""
        for node in _producers(value, self._values):
            operands = [None if v is None else self._known(v) for v in node.inputs]
            self._values.update(zip(node.outputs, _evaluate(node, operands)))
            read = [v for v in node.operands() if not v.is_constant]
            whole = all(v.dtype.numpy.kind in "iub" for v in (*node.outputs, *read))
            whole = whole or (node.op == "quantize" and node.inputs[0] in read)
            if whole and all(v in self._exact or v.producer is None for v in read):
                self._exact.update(node.outputs)
        return self._known(value).astype(value.dtype.numpy, copy=False)

    def _known(self, value: Value) -> np.ndarray:
        if value.is_constant:
            return np.asarray(value.data)
        if value not in self._values:
            self._values[value] = _wide(self._feeds[value.name])
        return self._values[value]

    def is_exact(self, value: Value) -> bool:
        """Return whether integers alone decide about a tensor that was evaluated, so that all
        processors agree."""
        given = value.producer is None and value.dtype.numpy.kind in "iub"
        return given or value in self._exact


def _producers(value: Value, known: Mapping[Value, Any]) -> Iterator[Node]:
    """Yield the nodes that a tensor needs in order, those with known results left out."""
    stack, done = [value], set(known)
    while stack:
        node = stack[-1].producer
        if stack[-1] in done or node is None:
            stack.pop()
            continue
        missing = [
            v for v in node.operands() if not (v in done or v.is_constant or v.producer is None)
        ]
        if missing:
            stack += missing
            continue
        done.update(node.outputs)
        yield node


STEPS = 2.0  # that an integer may differ by, where the network rounds floats
MAX_SHARE = 0.02  # of the integers of a tensor that may differ
ROUNDING = 2.0**-17  # of the largest element: sums of float32 in another order


def largest(array: np.ndarray) -> float:
    """Return the largest finite magnitude of an array."""
    wide = np.abs(array.astype(np.float64))
    return float(wide[np.isfinite(wide)].max(initial=0.0))


def part_of(
    array: np.ndarray, shape: Sequence[int], strides: Sequence[int], offset: int
) -> np.ndarray:
    """Return the elements of an output that an operator writes, at these places in memory."""
    start = np.ascontiguousarray(array).reshape(-1)[offset:]
    steps = [stride * array.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(start, shape, steps, writeable=False)


def compare(actual: np.ndarray, right: np.ndarray, allowed: float | None = None) -> Verdict:
    """Compare a tensor with its expected elements; if axes are permuted, both in sorted order.

    ``allowed``: the largest difference. None: that of one operator, in few elements of integers.
    """
    if actual.shape != right.shape:
        actual, right = np.sort(actual, axis=None), np.sort(right, axis=None)
    a, b = (each.ravel().astype(np.float64) for each in (actual, right))
    equal = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(equal, 0.0, np.abs(a - b))
    error = float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))
    problem = ""
    if allowed is None and right.dtype.kind in "iub":
        allowed, share = STEPS, float(np.mean(apart > 0)) if apart.size else 0.0
        problem = f"differs in {share:.1%} of the elements" if share > MAX_SHARE else ""
    elif allowed is None:
        allowed = ROUNDING * largest(right) + 1e-30
    problem = "differs" if error > allowed else problem
    return Verdict(error, allowed, error / allowed if allowed else 0.0, problem)
