"""Layers in the form of CMSIS-NN's functions: NHWC extents, constants in its order, multipliers as
in TensorFlow Lite. Unsupported layers raise UnsupportedError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

import numpy as np

from tvmrt.compiler.sdk.arithmetic import multipliers
from tvmrt.compiler.sdk.graph import Node, Trait, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.cmsis_nn.matching import other_operand

INT8_MIN, INT8_MAX = -128, 127
SUM_BITS = 20  # left shift of the operands of an add


@dataclass(frozen=True)
class Requantization:
    """Requantisation of int32 sums to int8: multipliers and shifts per channel or tensor, then the
    zero point and the bounds of the result."""

    multiplier: np.ndarray
    shift: np.ndarray
    zero: int
    low: int
    high: int

    @property
    def is_per_tensor(self) -> bool:
        first = self.multiplier[:1], self.shift[:1]
        return bool(np.all(self.multiplier == first[0]) and np.all(self.shift == first[1]))


@dataclass(frozen=True)
class Window:
    """Extents [batch, height, width, channels] of input and output, and the window's parameters
    (height, width)."""

    source: tuple[int, int, int, int]
    result: tuple[int, int, int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int]
    dilations: tuple[int, int]


@dataclass(frozen=True)
class Convolution:
    """Convolution with ``weights`` [OC H W C], or depthwise with [1 H W OC] and ``depth`` results
    per input channel; ``depth`` is 0 if it is not depthwise."""

    x: Value
    window: Window
    weights: np.ndarray
    bias: np.ndarray
    x_zero: int
    finish: Requantization
    depth: int


@dataclass(frozen=True)
class MatMul:
    """Matmul of ``rows`` rows of x and ``weights`` [results, terms]."""

    x: Value
    rows: int
    weights: np.ndarray
    bias: np.ndarray
    x_zero: int
    finish: Requantization


@dataclass(frozen=True)
class Operand:
    """Operand of an add: (q - zero) times the multiplier."""

    value: Value
    zero: int
    multiplier: int = 0
    shift: int = 0


@dataclass(frozen=True)
class ElementwisePair:
    """Sum of two tensors of equal shape, first shifted left by ``bits``, or their product."""

    a: Operand
    b: Operand
    size: int
    is_sum: bool
    bits: int
    finish: Requantization


Layer = Union[Convolution, MatMul, ElementwisePair]


def layer_of(nodes: Sequence[Node]) -> Layer:
    """Return the layer that the nodes form. Raises UnsupportedError with what CMSIS-NN lacks."""
    first, last = nodes[0], nodes[-1]
    if first.operator.is_integer_product:
        _check_bytes(first.inputs[0], last.output)
        build = _convolution if first.has(Trait.CONVOLUTION) else _product
        return build(first, nodes[1:])
    _check_bytes(*first.inputs, first.output)
    return _pair(first) if first.operator.integer_of else _fixed_pair(first)


def _check_bytes(*values: Value | None) -> None:
    for value in values:
        if value is not None and value.dtype.name != "int8":
            raise UnsupportedError(f"CMSIS-NN needs int8 tensors, not {value.dtype}")


def _constant_data(value: Value | None, what: str) -> np.ndarray:
    if value is None or value.data is None:
        raise UnsupportedError(f"{what} are computed at run time")
    return value.data


def _weights(node: Node) -> np.ndarray:
    kernel = _constant_data(node.inputs[1], "its weights")
    zero = node.inputs[4] if len(node.inputs) > 4 else None
    if kernel.dtype != np.int8:
        raise UnsupportedError(f"CMSIS-NN needs int8 weights, not {kernel.dtype}")
    if zero is not None and np.any(_constant_data(zero, "zero points of weights")):
        raise UnsupportedError("CMSIS-NN needs weights with zero point 0")
    return kernel


def _bias(node: Node, count: int) -> np.ndarray:
    value = node.inputs[3] if len(node.inputs) > 3 else None
    if value is None:
        return np.zeros(count, np.int32)
    return _broadcast(_constant_data(value, "its biases").astype(np.int32), count)


def _broadcast(numbers: np.ndarray, count: int) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(numbers.reshape(-1), (count,)))


def _requantization(
    reals: np.ndarray, count: int, zero: int, low: int, high: int
) -> Requantization:
    try:
        m, e = multipliers(reals.reshape(-1))
    except ValueError as problem:
        raise UnsupportedError(str(problem)) from problem
    return Requantization(_broadcast(m, count), _broadcast(e, count), zero, low, high)


def _finish(node: Node, steps: Sequence[Node], count: int) -> Requantization:
    """Return the requantisation, from the node's own attributes or from the nodes after it."""
    if node.attrs["to"] == "int8":
        at = node.attrs
        reals = _constant_data(node.inputs[2], "its scales").astype(np.float64)
        return _requantization(reals, count, at["y_zero"], at["low"], at["high"])
    if not steps:
        raise UnsupportedError("CMSIS-NN returns int8 results, not int32 accumulators")
    scale, offsets = steps[0], {"add": 0, "max": INT8_MIN, "min": INT8_MAX}
    value = scale.output
    for step in steps[1:-1]:
        number = other_operand(step, value)
        if number.data is None or number.type.size != 1:
            raise UnsupportedError("its zero point and bounds differ between channels")
        offsets[step.op], value = int(number.data.reshape(-1)[0]), step.output
    zero, low, high = offsets["add"], max(offsets["max"], INT8_MIN), min(offsets["min"], INT8_MAX)
    parts = [_constant_data(v, "its scales") for v in scale.inputs[1:]]
    _check_channels(node, parts, count)
    if scale.op == "float_scale":
        return _requantization(parts[0].astype(np.float64), count, zero, low, high)
    m, e = (_broadcast(part.astype(np.int32), count) for part in parts)
    return Requantization(m, e, zero, low, high)


def _check_channels(node: Node, parts: Sequence[np.ndarray], count: int) -> None:
    """Check that scales differ only along the axis of the results."""
    rank = node.output.type.rank
    axis = (node.operator.channel_axis or 0) % rank
    for part in parts:
        full = (1,) * (rank - part.ndim) + part.shape
        if part.size not in (1, count) or full[axis] != part.size:
            raise UnsupportedError("its scales vary along an axis other than channels")


def _window(node: Node, kernel: Sequence[int]) -> Window:
    """Return the window of images, or of rows as images of height 1, with the node's attributes."""
    x, y, at = node.inputs[0], node.output, node.attrs
    assert x is not None
    flat = x.type.rank - 2
    if flat not in (1, 2):
        raise UnsupportedError(f"CMSIS-NN has no windows over {flat} spatial dimensions")
    if min(*at["pads_before"], *at["pads_after"]) < 0:
        raise UnsupportedError("its padding is negative")
    more = (1,) * (2 - flat)

    def pair(numbers: Sequence[int], filler: int = 1) -> tuple[int, int]:
        height, width = (*(filler,) * (2 - flat), *numbers)
        return height, width

    def extents(value: Value) -> tuple[int, int, int, int]:
        batch, channels, *rest = value.shape
        height, width = (*more, *rest)
        return batch, height, width, channels

    return Window(
        extents(x), extents(y), pair(kernel), pair(at["strides"]), pair(at["pads_before"], 0),
        pair(at["dilations"]),
    )  # fmt: skip


def _convolution(node: Node, steps: Sequence[Node]) -> Convolution:
    weights, groups = _weights(node), node.attrs["groups"]
    window = _window(node, weights.shape[2:])
    if weights.ndim == 3:
        weights = weights[:, :, None]
    channels, count = window.source[3], weights.shape[0]
    depthwise = groups == channels > 1
    if groups != 1 and not depthwise:
        raise UnsupportedError(f"CMSIS-NN does not support {groups} groups here")
    order = (1, 2, 3, 0) if depthwise else (0, 2, 3, 1)
    assert node.inputs[0] is not None
    return Convolution(
        node.inputs[0], window, np.ascontiguousarray(weights.transpose(order)),
        _bias(node, count), node.attrs["x_zero"], _finish(node, steps, count),
        count // channels if depthwise else 0,
    )  # fmt: skip


def _product(node: Node, steps: Sequence[Node]) -> MatMul:
    weights, x = _weights(node), node.inputs[0]
    assert x is not None
    terms, count = weights.shape
    transposed = np.ascontiguousarray(weights.T)
    return MatMul(
        x, x.type.size // terms, transposed, _bias(node, count), node.attrs["x_zero"],
        _finish(node, steps, count),
    )  # fmt: skip


def _check_shapes(node: Node) -> tuple[Value, Value]:
    a, b = node.inputs
    assert a is not None
    assert b is not None
    if not a.shape == b.shape == node.output.shape:
        raise UnsupportedError("CMSIS-NN needs operands of equal shape")
    return a, b


def _pair(node: Node) -> ElementwisePair:
    """Return an add or multiply, with the integers of ``requantize`` ``fixed-point``."""
    (a, b), at = _check_shapes(node), node.attrs
    scales = [float(at[f"{side}_scale"]) for side in "ab"]
    if min(*scales, at["y_scale"]) <= 0:
        raise UnsupportedError("a scale is not above 0")
    parts, real = [0.0, 0.0], scales[0] * scales[1] / at["y_scale"]
    is_sum = node.operator.symbol == "+"
    if is_sum:
        twice = 2 * max(scales)
        parts, real = [s / twice for s in scales], twice / (at["y_scale"] * (1 << SUM_BITS))
    last = _requantization(np.array([real]), 1, at["y_zero"], at["low"], at["high"])
    (a_m, b_m), (a_e, b_e) = multipliers(parts)
    sides = (
        Operand(a, at["a_zero"], int(a_m), int(a_e)),
        Operand(b, at["b_zero"], int(b_m), int(b_e)),
    )
    return ElementwisePair(*sides, node.output.type.size, is_sum, SUM_BITS, last)


def _fixed_pair(node: Node) -> ElementwisePair:
    (a, b), at = _check_shapes(node), node.attrs
    last = Requantization(
        np.array([at["m"]]), np.array([at["e"]]), at["y_zero"],
        max(at["low"], INT8_MIN), min(at["high"], INT8_MAX),
    )  # fmt: skip
    sides = (
        Operand(v, at[f"{s}_zero"], at[f"{s}_m"], at[f"{s}_e"]) for v, s in ((a, "a"), (b, "b"))
    )
    return ElementwisePair(
        *sides, node.output.type.size, node.operator.symbol == "+", at["bits"], last
    )
