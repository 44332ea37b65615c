"""Bounds of rounding errors: intervals and norms for values, the standard model for errors.

The exact network computes with real numbers, the compiled one with rounded ones. For each element
this module keeps an interval of the exact value, for all inputs in the declared ranges, and a bound
of the distance between computed and exact value. A sum of n terms adds gamma(n) times the sum of
the magnitudes: that holds for any order of the terms, with and without fused multiply-add.
``FOLDED`` more roundings cover constants that the compiler folds into weights. 3x3 convolutions are
bounded for Winograd tiles, too.

An interval forgets that elements depend on each other, so that each layer multiplies it by the sum
of the weights' magnitudes. The norms of a whole tensor and of its errors grow by the largest
singular value only, which is what bounds deep networks. The smaller of both bounds counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from itertools import product
from math import ceil, cos, inf, pi, prod, sqrt
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.graph import OPS, Graph, Node, Trait, Value, transform_matrices

UNIT = {"float32": 2.0**-24, "float64": 2.0**-53}  # half the distance of 1 to the next number
SMALL = 2.0**-126  # results below may be flushed to 0
LIBRARY_UNITS = 8  # error of exp, tanh and the like, in units of the result
FOLDED = 8  # roundings of weights into which constants are folded
TILES = (2, 4)  # sizes of Winograd tiles
GRID = 6  # frequencies at which the gain of a convolution is computed, for each of its weights
MAYBE_ZERO = "an operand may be 0, infinite or outside of the function's domain"


@dataclass
class Tensor:
    """``low``, ``high``: of exact values; ``error``: of computed ones. ``reason``: of infinity.

    ``norm``, ``gap``: Euclidean norms of all exact values, and of all errors.
    """

    low: np.ndarray
    high: np.ndarray
    error: np.ndarray
    reason: str = ""
    norm: float = inf
    gap: float = inf

    @property
    def exact(self) -> np.ndarray:
        """Greatest magnitude of exact values."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def size(self) -> np.ndarray:
        """Greatest magnitude of computed values."""
        return self.exact + self.error

    def widened(self) -> Tensor:
        """Return the range of computed values, as exact ones."""
        low, high = self.low - self.error, self.high + self.error
        return Tensor(low, high, np.zeros_like(self.error), "", self.norm + self.gap, 0.0)

    def tighten(self) -> None:
        """Bound elements by norms, and norms by elements."""
        slack = 1 + 1e-9  # of the arithmetic of this module
        self.norm = float(np.fmin(self.norm, np.linalg.norm(self.exact))) * slack
        self.gap = float(np.fmin(self.gap, np.linalg.norm(self.error))) * slack
        self.low, self.high = np.fmax(self.low, -self.norm), np.fmin(self.high, self.norm)
        self.error = np.fmin(self.error, self.gap)


def error_bounds(graph: Graph, input_ranges: Mapping[str, Any]) -> dict[str, Any]:
    """Return bounds of the rounding errors of an imported network of fixed sizes.

    ``input_ranges``: (least, greatest) of each input by name, numbers or arrays of its shape.
    ``outputs`` of the result, by name: ``error`` for all elements, ``low`` and ``high`` of the
    exact results; an ``error`` of infinity has a ``reason``. ``nodes``: ``error`` of each node, and
    ``own``, the part of it that arises in the node itself. Raises ValueError if the ends of
    a range are not finite and in order.
    """
    tensors = {value: _input(value, input_ranges) for value in graph.inputs}
    rows, outputs = [], {}
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            row = {"node": node.name, "operator": node.op, "own": _add_node(node, tensors)}
            rows.append(row | _summary([tensors[v] for v in node.outputs]))
    for name, value in zip(graph.output_names, graph.outputs):
        tensor = _of(value, tensors)
        least, most = (float(n) for n in (tensor.low.min(), tensor.high.max()))
        ends = {"low": -inf if np.isnan(least) else least, "high": inf if np.isnan(most) else most}
        outputs[name] = _summary([tensor]) | ends
    return {"outputs": outputs, "nodes": rows}


def _summary(results: list[Tensor]) -> dict[str, Any]:
    error = max(_most(t.error) for t in results)
    reason = next((t.reason for t in results if t.reason), MAYBE_ZERO)
    return {"error": error} | ({"reason": reason} if error == inf else {})


def _input(value: Value, ranges: Mapping[str, Any]) -> Tensor:
    ends = [np.asarray(n, np.float64) for n in ranges[value.name]]
    if not (np.isfinite(ends[0] - ends[1]).all() and (ends[0] <= ends[1]).all()):
        raise ValueError(
            f"the range of input {value.name} does not go from a finite number to one that is not "
            "smaller; declare two such numbers"
        )
    return Tensor(*(np.broadcast_to(n, value.shape) for n in ends), np.zeros(value.shape))


def _most(array: np.ndarray) -> float:
    """Return the greatest element; infinity if one is not a number."""
    most = float(np.max(array, initial=0.0))
    return inf if np.isnan(most) else most


def _of(value: Value, tensors: dict[Value, Tensor]) -> Tensor:
    if value.is_constant:
        data = value.data.astype(np.float64)
        return Tensor(data, data, np.zeros(data.shape), "", float(np.linalg.norm(data)), 0.0)
    return tensors[value]


def _unknown(node: Node, reason: str) -> list[Tensor]:
    wide = [np.broadcast_to(np.float64(inf), v.shape) for v in node.outputs]
    return [Tensor(-each, each, each, f"{node.op} of node {node.name}: {reason}") for each in wide]


def _add_node(node: Node, tensors: dict[Value, Tensor]) -> float:
    """Add the node's results, and return the error that arises in the node."""
    operands = [None if v is None else _of(v, tensors) for v in node.inputs]
    reason = next((t.reason for t in operands if t is not None and t.reason), "")
    rule = _RULES.get(node.op) or (_moved if node.has(Trait.MOVES_ELEMENTS) else None)
    if rule is None or node.guard is not None:
        results = _unknown(node, "no bound is known for the operator, or it has a condition")
        own = inf
    else:
        results = rule(node, *operands)
        wide = rule(node, *(t and t.widened() for t in operands))
        own = max(_most(t.error) for t in wide)
        if (gain := _gain(node)) is not None:
            read = [(gain * _repeats(node, v), tensors[v]) for v in node.operands()
                    if not v.is_constant]  # fmt: skip
            results[0].norm = sum(n * t.norm for n, t in read) + _at_zero(node)
            results[0].gap = sum(n * t.gap for n, t in read) + float(np.linalg.norm(wide[0].error))
    for value, result in zip(node.outputs, results):
        result.error = np.where(np.isnan(result.error), inf, result.error)
        result.tighten()
        if _most(result.error) == inf and not result.reason:
            result.reason = reason or f"{node.op} of node {node.name}: {MAYBE_ZERO}"
        tensors[value] = result
    return own


def _repeats(node: Node, value: Value) -> float:
    """Return by how much broadcasting multiplies the norm of an operand at most."""
    if node.op not in _CONTRACTIONS and not value.is_constant:
        return 1.0
    return sqrt(max(node.output.type.size / max(value.type.size, 1), 1))


def _at_zero(node: Node) -> float:
    """Return a bound of the norm of a node's result if all operands but constants are zeros."""
    if node.op in ("sigmoid", "softmax"):
        return inf
    first = 2 if node.op in ("conv", "matmul") else 0  # the bias
    found = [] if node.op in ("mul", "div") else node.inputs[first:]
    return sum(float(np.linalg.norm(v.data.astype(np.float64))) * _repeats(node, v)
               for v in found if v is not None and v.is_constant and v.dtype.is_float)  # fmt: skip


# Operators that do not increase differences, element by element; operands broadcast.
_CONTRACTIONS = {"add", "sub", "min", "max", "relu", "neg", "abs", "sigmoid", "tanh", "mul", "div"}


def _gain(node: Node) -> float | None:
    """Return by how much a node multiplies the norm of a difference of its operands at most, before
    they broadcast; None if that is not known."""
    attrs, shape = node.attrs, node.inputs[0].shape
    if node.op in ("mul", "div", "conv", "matmul"):
        if not node.inputs[1].is_constant:
            return None
        w = node.inputs[1].data.astype(np.float64)
        if node.op == "conv":
            return max(map(_conv_gain, np.split(w, attrs["groups"])))
        if node.op == "matmul":
            return float(np.linalg.norm(w, 2)) if w.ndim == 2 else None
        return float(np.abs(w if node.op == "mul" else 1 / w).max(initial=0.0))
    if node.op in ("max_pool", "avg_pool"):  # windows with an element
        rows = zip(attrs["kernel"], attrs["strides"], attrs["dilations"], node.output.shape[2:])
        return sqrt(prod(min(ceil(k / s) if d == 1 else k, out) for k, s, d, out in rows))
    if node.op in ("reduce_mean", "reduce_sum"):
        root = sqrt(max(prod(shape[d] for d in attrs["axes"]), 1))
        return root if node.op == "reduce_sum" else 1 / root
    moves = node.has(Trait.REARRANGES) or node.op in ("slice", "concat")
    moves = moves or (node.op == "pad" and attrs["mode"] == "constant")
    return 1.0 if moves or node.op == "softmax" or node.op in _CONTRACTIONS else None


def _conv_gain(w: np.ndarray) -> float:
    """Return a bound of the largest singular value of a convolution with weights [OC C *K].

    It is at most that of the transfer function at its worst frequency. The square of that is a
    trigonometric polynomial of degree k - 1 along each axis, so that it falls from its maximum to
    the nearest frequency of the grid by a factor of cos((k - 1) * pi / n) at most (M. Riesz).
    """
    sizes = [1 if k == 1 else GRID * k for k in w.shape[2:]]
    fall = prod(cos((k - 1) * pi / n) for k, n in zip(w.shape[2:], sizes))
    transfer = np.moveaxis(np.fft.fftn(w, sizes, range(2, w.ndim)), (0, 1), (-2, -1))
    half = transfer[: sizes[0] // 2 + 1]  # the others are their conjugates
    return float(np.linalg.norm(half, 2, (-2, -1)).max()) / sqrt(fall)


def _rounded(node: Node, low, high, error, count: float = 1, size=None) -> list[Tensor]:
    """Return a result with the error of ``count`` roundings of ``size``, by default the result."""
    unit = UNIT.get(node.outputs[0].dtype.name, 0.0)
    low, high, error = (np.broadcast_to(a, node.outputs[0].shape) for a in (low, high, error))
    slack = 2.0**-50 * count  # of the arithmetic of this module
    size = np.maximum(np.abs(low), np.abs(high)) + error if size is None else size
    if unit:
        error = (error + _gamma(count, unit) * size) * (1 + slack) + SMALL
    return [Tensor(low - slack * size, high + slack * size, error)]


def _gamma(count: float, unit: float) -> float:
    return count * unit / (1 - count * unit)


def _evaluate(node: Node, *arrays: np.ndarray | None) -> np.ndarray:
    (result,) = OPS[node.op].evaluate(arrays, node.attrs)
    return result


def _moved(node: Node, *parts: Tensor | None) -> list[Tensor]:
    """Move elements of the first operand, or of all, as a concatenation does. Elements at computed
    places have the hull of all; at places that may be wrong, any element of it is possible."""
    whole = node.op in ("concat", "pad")
    if whole or all(v is None or v.is_constant for v in node.inputs[1:]):
        rest = [] if whole else [None if v is None else v.data for v in node.inputs[1:]]
        moved = [t for t in (parts if whole else parts[:1]) if t is not None]
        ends = [[getattr(t, end) for t in moved] for end in ("low", "high", "error")]
        return [Tensor(*(_evaluate(node, *arrays, *rest) for arrays in ends))]
    read = [t for t, v in zip(parts, node.inputs) if v.dtype is node.outputs[0].dtype]
    if node.attrs.get("reduction", "none") != "none":
        return _unknown(node, "no bound is known for its reduction")
    ends = [min(t.low.min() for t in read), max(t.high.max() for t in read)]
    chosen = zip(parts[1:], node.inputs[1:])  # by integers, such as indices and lengths
    wrong = any(_most(t.error) > 0 for t, v in chosen if not v.dtype.is_float)
    ends.append(max(t.error.max() for t in read) + (ends[1] - ends[0] if wrong else 0.0))
    return [Tensor(*(np.broadcast_to(n, node.outputs[0].shape) for n in ends))]


def _ends(node: Node, *operands: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the range of an operator that rises or falls with each operand."""
    corners = product(*({id(t.low): t.low, id(t.high): t.high}.values() for t in operands))
    found = [np.nan_to_num(_evaluate(node, *c), posinf=inf, neginf=-inf) for c in corners]
    return np.minimum.reduce(found), np.maximum.reduce(found)


def _sum(node: Node, a: Tensor, b: Tensor) -> list[Tensor]:
    return _rounded(node, *_ends(node, a, b), a.error + b.error, FOLDED, a.size + b.size)


def _product(node: Node, a: Tensor, b: Tensor) -> list[Tensor]:
    low, high = _ends(node, a, b)
    low = np.maximum(low, 0) if node.inputs[0] is node.inputs[1] else low  # a square
    return _rounded(node, low, high, a.size * b.error + a.error * (b.size - b.error), FOLDED)


def _quotient(node: Node, a: Tensor, b: Tensor | None = None) -> list[Tensor]:
    """Bound a quotient or a reciprocal."""
    a, b = (a, b) if b is not None else (Tensor(*np.ones((2, 1)), np.zeros(1)), a)
    least = np.minimum(np.abs(b.low), np.abs(b.high)) - b.error
    if ((b.low <= b.error) & (b.high >= -b.error) | (least <= 0)).any():
        return _unknown(node, "the divisor may be 0")
    low, high = _ends(node, *((a, b) if node.op == "div" else (b,)))
    error = (a.error + np.maximum(np.abs(low), np.abs(high)) * b.error) / least
    return _rounded(node, low, high, error + (not node.outputs[0].dtype.is_float), FOLDED)


def _power(node: Node, x: Tensor, y: Tensor) -> list[Tensor]:
    exponent = set(np.ravel(node.inputs[1].data)) if node.inputs[1].is_constant else set()
    if exponent != {2}:
        return _unknown(node, "no bound is known for exponents other than 2")
    square = copy(node)
    square.op, square.inputs = "mul", [node.inputs[0]] * 2
    return _product(square, x, x)


def _contracted(node: Node, *operands: Tensor) -> list[Tensor]:
    """Bound an operator without rounding that does not increase differences."""
    low, high = _ends(node, *operands)
    if node.op == "abs":
        low = np.where((operands[0].low < 0) & (operands[0].high > 0), 0, low)
    return [Tensor(low, high, np.maximum.reduce([t.error + 0 * low for t in operands]))]


def _kinked(node: Node, x: Tensor, slope: Tensor) -> list[Tensor]:
    """Bound x below 0 times a slope: its extremes are at the ends and at 0."""
    low, high = _ends(node, x, slope)
    low = np.where((x.low < 0) & (x.high > 0), np.minimum(low, 0), low)
    error = np.maximum(x.error, x.size * slope.error + x.error * (slope.size - slope.error))
    return _rounded(node, low, high, error, FOLDED)


def _rising(node: Node, x: Tensor) -> list[Tensor]:
    """Bound a rising function that is steepest at an end of a range, or nearest to 0: no operands
    apart by the error have results that are further apart than those there."""
    least, most = node.operator.result_range or (-inf, inf)
    low, high = (np.where(np.isnan(n), end, n) for n, end in ((x.low, -inf), (x.high, inf)))
    half = x.error / 2 + 2.0**-51 * x.size  # with the rounding of this module
    ends = low - half, high + half
    steps = [_evaluate(node, at + half) - _evaluate(node, at - half)
             for at in (*ends, np.clip(0, *ends))]  # fmt: skip
    error = np.fmin(np.where(x.error == 0, 0, np.maximum.reduce(steps)), most - least)
    ends = _ends(node, Tensor(low, high, x.error))
    return _rounded(node, *ends, error, 1 if node.op == "sqrt" else LIBRARY_UNITS)


def _wave(node: Node, x: Tensor) -> list[Tensor]:
    """Bound a sine or cosine."""
    return _rounded(node, np.float64(-1), np.float64(1), np.fmin(x.error, 2), LIBRARY_UNITS)


def _stepped(node: Node, x: Tensor) -> list[Tensor]:
    """Bound a function that rounds, and conversions."""
    source, to = node.inputs[0].dtype, node.outputs[0].dtype
    if to.name == "bool":
        return _decided(node, x)
    if to.is_float and node.op == "cast":
        return _rounded(node, x.low, x.high, x.error, float(source.bits >= 32))
    function = getattr(np, {"round": "rint", "cast": "trunc"}.get(node.op, node.op))
    return [Tensor(function(x.low), function(x.high), np.where(x.error == 0, 0, x.error + 1))]


def _decided(node: Node, *operands: Tensor) -> list[Tensor]:
    """Bound a truth value or an index: it is exact if no operand has an error."""
    axis = node.attrs.get("axis")
    most = 1.0 if axis is None else node.inputs[0].shape[axis] - 1.0
    error = most * any(_most(t.error) > 0 for t in operands)
    return [Tensor(*(np.full(node.outputs[0].shape, n) for n in (0.0, most, error)))]


def _selected(node: Node, condition: Tensor, a: Tensor, b: Tensor) -> list[Tensor]:
    low, high = np.minimum(a.low, b.low), np.maximum(a.high, b.high)
    error = np.maximum(a.error, b.error)
    return [Tensor(low, high, np.where(condition.error > 0, high - low + error, error))]


def _linear(node: Node, function, x: Tensor, w: Tensor, count: int, bias=0.0) -> list[Tensor]:
    """Bound a sum of ``count`` products of x and w, which ``function`` computes of two arrays."""
    middles, radii = zip(*(((t.low + t.high) / 2, (t.high - t.low) / 2) for t in (x, w)))
    middle = function(*middles) + bias
    radius = function(radii[0], np.abs(middles[1]) + radii[1])
    error = function(x.error, w.size)
    if radii[1].any() or w.error.any():
        radius = radius + function(np.abs(middles[0]), radii[1])
        error = error + function(x.exact, w.error)
        return _rounded(node, middle - radius, middle + radius, error, count + FOLDED,
                        function(x.size, w.size) + np.abs(bias))  # fmt: skip
    rows = np.sqrt(function(np.ones(x.low.shape), w.low**2)) * (1 + 1e-9)  # norms of the weights
    size = np.fmin(function(x.size, w.size), rows * (x.norm + x.gap)) + np.abs(bias)
    low, high = np.fmax(middle - radius, bias - rows * x.norm), rows * x.norm + bias
    error = np.fmin(error, rows * x.gap)
    return _rounded(node, low, np.fmin(middle + radius, high), error, count + FOLDED, size)


def _conv(node: Node, x: Tensor, w: Tensor, bias: Tensor | None = None) -> list[Tensor]:
    shape = node.inputs[1].shape
    row = 0.0 if bias is None else bias.low.reshape(-1, *(1 for _ in shape[2:]))
    attrs, count = node.attrs, prod(shape[1:])
    (result,) = _linear(node, lambda a, b: _evaluate(node, a, b), x, w, count, row)
    if shape[2:] == (3, 3) and {*attrs["strides"], *attrs["dilations"], attrs["groups"]} == {1}:
        most = np.max(x.size, (0, 2, 3))
        own = np.maximum.reduce([_winograd(np.abs(w.low), most, size) for size in TILES])
        result.error = result.error + own.reshape(-1, 1, 1)
    return [result]


def _winograd(w: np.ndarray, most: np.ndarray, size: int) -> np.ndarray:
    """Return the error of Winograd tiles by channel, for inputs up to ``most`` by channel."""
    inputs, weights, results = (np.abs(each) for each in transform_matrices(size))
    spread = np.outer(inputs.sum(1), inputs.sum(1))
    products = np.einsum("pi,ocij,qj,c->opq", weights, w, weights, most, optimize=True) * spread
    tiles = np.einsum("ip,opq,jq->oij", results, products, results, optimize=True)
    return _gamma(len(most) + 8 * len(inputs) + FOLDED, UNIT["float32"]) * tiles.max((1, 2))


def _matmul(node: Node, a: Tensor, b: Tensor, bias: Tensor | None = None) -> list[Tensor]:
    if bias is not None and not node.inputs[2].is_constant:
        return _unknown(node, "its bias is computed")
    row = 0.0 if bias is None else bias.low
    return _linear(node, np.matmul, a, b, node.inputs[0].shape[-1], row)


def _resample(node: Node, x: Tensor, places: Tensor, w: Tensor) -> list[Tensor]:
    taps = node.inputs[1]
    return _linear(node, lambda a, b: _evaluate(node, a, taps.data, b), x, w, taps.shape[1])


def _pooled(node: Node, x: Tensor) -> list[Tensor]:
    """Bound a maximum, a mean or a sum of some elements."""
    low, high = (_evaluate(node, a) for a in (x.low, x.high))
    if node.has(Trait.EXTREMUM):
        maximum = Node(node.op.replace("min", "max"), [], node.attrs, node.name)
        return [Tensor(low, high, _evaluate(maximum, x.error))]
    count = prod(node.attrs.get("kernel") or [node.inputs[0].shape[d] for d in node.attrs["axes"]])
    return _rounded(
        node, low, high, _evaluate(node, x.error), count + FOLDED, _evaluate(node, x.size)
    )


def _softmax(node: Node, x: Tensor) -> list[Tensor]:
    """Bound exp(x) / sum: an error e of all operands changes it by a factor of exp(2 e) at most."""
    if node.attrs.get("log"):
        return _unknown(node, "no bound is known for its logarithm")
    axis = node.attrs["axis"]
    top = x.high.max(axis, keepdims=True)
    low, high = np.exp(x.low - top), np.exp(x.high - top)
    others = [a.sum(axis, keepdims=True) - a for a in (low, high)]
    low, high = low / (low + others[1]), high / (high + np.maximum(others[0], 0))
    high = np.where(np.isnan(high), 1, np.minimum(high * (1 + 1e-12), 1))
    factor = np.expm1(2 * x.error.max(axis, keepdims=True))
    count = node.inputs[0].shape[axis] + 3 * LIBRARY_UNITS + 2 * np.max(x.size)
    (result,) = _rounded(node, low, high, high * factor, min(count, 1e6))
    result.low, result.high = np.fmax(result.low, 0), np.fmin(result.high, 1)
    result.error = np.fmin(result.error, 1)
    return [result]


def _quantized(node: Node, x: Tensor, scale: Tensor, zero: Tensor) -> list[Tensor]:
    """Bound steps: a number that is next to a tie may be rounded to either side."""
    if not node.inputs[1].is_constant or not node.inputs[2].is_constant:
        return _unknown(node, "its scale is computed")
    arrays = [v.data for v in node.inputs[1:]]
    ends = [_evaluate(node, a, *arrays).astype(np.float64) for a in (x.low, x.high)]
    most = 2.0 ** node.outputs[0].dtype.bits - 1
    return [Tensor(*ends, np.fmin(np.floor(x.error / scale.low) + 1, most))]


def _dequantized(node: Node, q: Tensor, scale: Tensor, zero: Tensor) -> list[Tensor]:
    if not node.inputs[1].is_constant or not node.inputs[2].is_constant:
        return _unknown(node, "its scale is computed")
    steps = [(n - zero.low) * scale.low for n in (q.low, q.high)]
    return _rounded(node, *steps, q.error * scale.low)


_RULES: dict[str, Callable[..., list[Tensor]]] = {
    "add": _sum, "sub": _sum, "mul": _product, "div": _quotient, "pow": _power, "prelu": _kinked,
    "reciprocal": _quotient, "min": _contracted, "max": _contracted, "relu": _contracted,
    "neg": _contracted, "abs": _contracted, "sin": _wave, "cos": _wave, "floor": _stepped,
    "ceil": _stepped, "round": _stepped, "cast": _stepped, "where": _selected, "concat": _moved,
    "pad": _moved, "scatter_nd": _moved, "conv": _conv, "matmul": _matmul, "resample": _resample,
    "max_pool": _pooled, "avg_pool": _pooled, "reduce_sum": _pooled, "reduce_mean": _pooled,
    "reduce_max": _pooled, "reduce_min": _pooled, "softmax": _softmax, "argmax": _decided,
    "argmin": _decided, "quantize": _quantized, "dequantize": _dequantized,
    **dict.fromkeys(("exp", "log", "sqrt", "tanh", "sigmoid"), _rising),
    **dict.fromkeys(("equal", "less", "less_equal", "greater", "greater_equal"), _decided),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), _decided),
}  # fmt: skip
