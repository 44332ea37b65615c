"""Quantised tensors: conversion from and to floating point, and int8 matmul-like operators.

A quantised tensor holds integers q that stand for the numbers (q - zero) * scale. Conversions are
pointwise and fuse into loops; matmul-like operators are kernels that accumulate in int32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .contract import Contract, Rule, holds, let
from .dtype import DTYPES, DType, to_integers
from .graph import Graph, Node, Value, constant
from .nn import CONV_EXAMPLE, CONV_RULES, WINDOW, AvgPool, Conv, MatMul, MaxPool, pool
from .op import POINTWISE, VIEW, Expression, Op, broadcast, get_op, register
from .requantization import requantize
from .tensor_type import PerTensor
from .traits import SumOrder, Trait

INT8_TYPES = ("int8", "uint8")

QUANT = "scalar/quant.h"  # the header in kernels/ of conversions


def quantize_array(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Return saturate(round(x / scale) + zero), ties to even; NaN becomes the minimum."""
    info = np.iinfo(zero.dtype)
    shift = zero.astype(np.float32)
    with np.errstate(all="ignore"):
        quotient = (x / scale).astype(np.float32)
    low, high = np.float32(info.min) - shift, np.float32(info.max) - shift
    bounded = np.where(quotient > low, np.minimum(quotient, high), low)
    return to_integers(np.rint(bounded) + shift, zero.dtype)


def add_quantization(graph: Graph) -> None:
    """Record how inputs and outputs are quantised: inputs that are only dequantised, outputs that
    are quantised, both with one constant scale. Transposed and reshaped tensors keep theirs."""
    consumers = graph.consumers()
    for value in graph.inputs:
        quantizations = _read_as(value, consumers)
        read = quantizations.pop() if len(quantizations) == 1 else None
        if read is not None:
            graph.input_quantization.setdefault(value.name, read)
    for value, name in zip(graph.outputs, graph.output_names):
        node = value.producer
        while node is not None and node.op in _MOVES:
            node = node.inputs[0].producer
        written = _per_tensor(node) if node is not None and node.op == "quantize" else None
        if written is not None:
            graph.output_quantization.setdefault(name, written)


def _read_as(value: Value, consumers: dict[Value, list[Node]]) -> set[PerTensor | None]:
    """Return how the readers of a value dequantise it; None if one of them does not."""
    quantizations: set[PerTensor | None] = set()
    for node in consumers.get(value, ()):
        if node.op in _MOVES and node.inputs[0] is value:
            quantizations |= _read_as(node.output, consumers)
        else:
            is_read = node.op == "dequantize" and node.inputs[0] is value
            quantizations.add(_per_tensor(node) if is_read else None)
    return quantizations


_MOVES = ("reshape", "transpose")


def _per_tensor(node: Node) -> PerTensor | None:
    scale, zero = (value.data for value in node.inputs[1:])
    if scale is None or zero is None or scale.size != 1 or zero.size != 1:
        return None
    return PerTensor(float(scale.flat[0]), int(zero.flat[0]))


def dequantize_array(q: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """Return (q - zero) * scale in the type of the scale."""
    return (q.astype(np.int64) - zero.astype(np.int64)).astype(scale.dtype) * scale


@register("quantize")
class Quantize(Op):
    """saturate(round(x / scale) + zero), ties to even; all three broadcast."""

    kind = POINTWISE
    traits = frozenset({Trait.EXACT})

    contract = Contract(
        "x: float32[*X], scale: float32[*S], zero: Q=int8|uint8|int16|uint16[*Z] -> q: Q[*Y]",
        rules=[let("*Y", "X, S and Z broadcast", broadcast, "X S Z")],
    )

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [quantize_array(*arrays)]

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        text = f"tvmrt_quantize_{node.output.dtype.name}({', '.join(args)})"
        return Expression(text, QUANT)


@register("dequantize")
class Dequantize(Op):
    """(q - zero) * scale; all three broadcast. Folded results keep a link to their integers, see
    ``link_integer_sources``.
    """

    traits = frozenset({Trait.EXACT})
    kind = POINTWISE

    contract = Contract(
        "q: Q=int8|uint8|int16|uint16|int32|uint32[*X], scale: F=float[*S], zero: Q[*Z] -> "
        "x: F[*Y]",
        rules=[let("*Y", "X, S and Z broadcast", broadcast, "X S Z")],
    )

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [dequantize_array(*arrays)]

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        q, scale, zero = args
        steps = q if zero == "0" else f"{q} - {zero}"
        if zero.startswith("-"):  # a negative number
            steps = f"{q} + {zero[1:]}"
        if node.inputs[0].dtype.bits == 32 and zero != "0":
            steps = f"(int32_t)((uint32_t){q} - (uint32_t){zero})"
        if node.output.dtype.bits == 32:
            return Expression(f"tvmrt_dequantize({steps}, {scale})", QUANT)
        return Expression(f"(double)({steps}) * {scale}")


_PRODUCT = (
    "scale: constant float32|float64[*], bias?: constant int32[*], w_zero?: constant int32[*]"
)
BOUNDS = "y_zero?: int of to, low?: int of to, high?: int of to"
_RESULT = f"to: dtype int8|uint8|int32|float32, {BOUNDS}"
_ROUNDED = f"{_RESULT}, rounding?: even|twice|once"


def _bounds_match_type(to: str, y_zero, low, high) -> bool:
    is_present = [n is not None for n in (y_zero, low, high)]
    return all(is_present) and low <= high if to in INT8_TYPES else not any(is_present)


_BOUNDED = holds(
    "y_zero, low and high, not below low, are given if to is int8 or uint8 and only then",
    _bounds_match_type,
)
_SCALED = holds(
    "scale is float64 if rounding is twice or once, which need to int8 or uint8, else float32",
    lambda scale, to, rounding: (
        scale.dtype.name == "float32"
        if rounding in (None, "even")
        else scale.dtype.name == "float64" and to in INT8_TYPES
    ),
)
_PER_CHANNEL = "scale, bias and w_zero have one number, or one for each output channel"


def _has_channel_count(channels: int, *operands) -> bool:
    return all(t is None or t.size in (1, channels) for t in operands)


class _Product(Op):
    """Integer matmul or convolution.

    ``to``: the element type of the result. The accumulator acc is the exact sum of
    (x - x_zero) * (w - w_zero), plus bias:

    - ``to`` int32 or int64: acc
    - ``to`` float32: acc * scale
    - ``to`` int8, uint8 or int16: clamp(round(acc * scale) + ``y_zero``, ``low``, ``high``)

    ``rounding``: "even", the default, multiplies in float32 and rounds ties to even. The others
    are for these types, with a scale in float64 that is exactly m * 2 ** (-n - 31), m from
    2 ** 30 to 2 ** 31 - 1, n from 0 to 31, for accumulators below 2 ** 30, see
    ``requantization.py``. Without ``w_zero`` the zero point of the weights is 0.
    """

    def evaluate(self, arrays: Sequence[np.ndarray | None], attrs: dict[str, Any]) -> list:
        x, w, scale, bias, w_zero = [*arrays, None, None][:5]
        zero = _along(w_zero, w.ndim, self.weights.output_axis)
        acc = _accumulators(self.integer_of, x, attrs["x_zero"], w, zero, attrs)
        bias, scale = (_along(row, acc.ndim, self.channel_axis) for row in (bias, scale))
        return [_requantized(acc + bias, scale, attrs)]


def _along(row: np.ndarray | None, rank: int, axis: int) -> np.ndarray:
    """Return one number, or one for each index along an axis, to broadcast; None: 0."""
    array = np.asarray(0 if row is None else row)
    return array.reshape([-1 if d == axis % rank else 1 for d in range(rank)])


def _accumulators(op: str, x: np.ndarray, x_zero: Any, w: np.ndarray, w_zero: Any, attrs: dict):
    """Return the exact sums of products; in float64, as sums below 2 ** 53 are exact."""
    operands = [x.astype(np.float64) - x_zero, w.astype(np.float64) - w_zero]
    return get_op(op).evaluate(operands, attrs)[0].astype(np.int64)


def _requantized(acc: np.ndarray, scale: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """Return the result of a product from its accumulators."""
    if attrs["to"] == "float32":
        return acc.astype(np.float32) * scale.astype(np.float32)
    if attrs.get("low") is None:
        return acc.astype(attrs["to"])
    return _clamped(requantize(acc, scale, attrs.get("rounding") or "even"), attrs["y_zero"], attrs)


def _clamped(steps: np.ndarray, zero: int, attrs: dict[str, Any]) -> np.ndarray:
    """Return steps, rounded to integers, plus a zero point, clamped to ``low`` and ``high``."""
    whole = to_integers(np.rint(steps), np.int64).clip(-(1 << 40), 1 << 40) + zero
    return whole.clip(attrs["low"], attrs["high"]).astype(DTYPES[attrs["to"]].numpy)


def conv_contract(x: str, attributes: str, *rules: Rule) -> Contract:
    """Return the contract of a convolution of x of a type."""
    per_channel = holds(_PER_CHANNEL, _has_channel_count, "OC scale bias w_zero")
    return Contract(
        f"x: {x}[N C *S{{1..3}}], w: constant byte[OC C/groups *K{{S}}], {_PRODUCT} -> "
        "y: to[N OC *Y]",
        f"groups: int 1.., {WINDOW}, x_zero: int of x, {attributes}",
        rules=[*CONV_RULES, *rules, per_channel],
        example={**CONV_EXAMPLE, "to": "int32"},
    )


def matmul_contract(x: str, attributes: str, *rules: Rule) -> Contract:
    """Return the contract of a matrix product of x of a type."""
    return Contract(
        f"x: {x}[*B M K], w: constant byte[K N], {_PRODUCT} -> y: to[*B M N]",
        f"x_zero: int of x, {attributes}",
        rules=[*rules, holds(_PER_CHANNEL, _has_channel_count, "N scale bias w_zero")],
        example={"to": "int32"},
    )


@register("qconv")
class QConv(_Product):
    """Convolution, see ``conv``. Padding has the value ``x_zero``."""

    integer_of = "conv"
    traits = frozenset({Trait.CONVOLUTION, Trait.CHANNELS_INNERMOST})
    weights, channel_axis = Conv.weights, Conv.channel_axis
    contract = conv_contract("byte", _ROUNDED, _BOUNDED, _SCALED)


@register("qmatmul")
class QMatMul(_Product):
    """Integer matrix product with constant weights."""

    integer_of = "matmul"
    traits = frozenset({Trait.MATRIX_PRODUCT})
    weights, channel_axis = MatMul.weights, MatMul.channel_axis
    contract = matmul_contract("byte", _ROUNDED, _BOUNDED, _SCALED)


@register("qmatmul_computed")
class QMatMulComputed(Op):
    """Integer matrix product of two computed tensors; batch axes broadcast.

    ``x_zero``, ``w_zero``: zero points of a and b; the result is requantised as in ``qmatmul``.
    """

    integer_of = "matmul"
    traits = frozenset({Trait.MATRIX_PRODUCT})
    channel_axis = -1

    contract = Contract(
        "a: byte[*A M K], b: byte[*B K N], scale: constant float32|float64[*] -> y: to[*Y M N]",
        f"x_zero: int of a, w_zero: int of b, {_ROUNDED}",
        rules=[
            _BOUNDED,
            _SCALED,
            holds("scale is one number", lambda scale: scale.size == 1),
            let("*Y", "A and B broadcast", broadcast, "A B"),
        ],
        example={"to": "int32"},
    )

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        a, b, scale = arrays
        acc = _accumulators("matmul", a, attrs["x_zero"], b, attrs["w_zero"], attrs)
        return [_requantized(acc, scale.reshape(()), attrs)]


def dequantize_of(value: Value) -> Node | None:
    """Return the node that dequantises integers to this value; None if it is not dequantised."""
    node = value.producer
    return node if node is not None and node.op == "dequantize" else None


def is_per_tensor(node: Node) -> bool:
    """Return whether a quantize or dequantize node has a constant scalar scale and zero point."""
    return all(v.is_constant and v.type.size == 1 for v in node.inputs[1:])


def same_parameters(a: Node, b: Node) -> bool:
    """Return whether two quantize or dequantize nodes, per tensor, have equal parameters."""
    if not (is_per_tensor(a) and is_per_tensor(b)) or a.inputs[2].dtype != b.inputs[2].dtype:
        return False
    return all(v.data.reshape(()) == w.data.reshape(()) for v, w in zip(a.inputs[1:], b.inputs[1:]))


def storage_range(dtype: DType) -> tuple[int, int]:
    """Return the minimum and maximum of an integer type."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def link_integer_sources(
    op: str, inputs: Sequence[Value | None], attrs: dict[str, Any], values: Sequence[Value]
) -> None:
    """Link folded constants to the integers that they stand for.

    A constant made by dequantising, or a view of one, gets a dequantize node as its producer that
    is in no graph. Integer matmuls find their weights by it; ``unlink_integer_sources`` removes it.
    """
    if op == "dequantize":
        parts = list(inputs)
    elif get_op(op).kind == VIEW and inputs[0].producer is not None:
        parts = [_view_of_parameter(op, attrs, v, inputs[0]) for v in inputs[0].producer.inputs]
    else:
        return
    node = Node("dequantize", parts, {}, values[0].name)
    node.set_outputs(values[:1])


def _view_of_parameter(op: str, attrs: dict[str, Any], part: Value, whole: Value) -> Value:
    """Apply a view of the dequantised tensor to its integers or to one of their parameters."""
    if part.type.size == 1:
        return constant(part.data.reshape(()), part.name)
    full = np.broadcast_to(part.data, whole.shape)
    return constant(get_op(op).evaluate([full], attrs)[0], part.name)


def unlink_integer_sources(values: Iterable[Value]) -> None:
    """Remove the producers of dequantised constants."""
    for value in values:
        if value.is_constant:
            value.producer = None


@register("table")
class Table(Op):
    """Unary function between 8-bit tensors by a lookup table, indexed by the bits of x, with the
    bits of the results of element type ``to``.
    """

    traits = frozenset({Trait.ELEMENTWISE, Trait.EXACT})

    contract = Contract("x: byte[*S], table: constant uint8[256] -> y: to[*S]", "to: dtype byte")

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        x, table = arrays
        return [table[x.view(np.uint8)].view(DTYPES[attrs["to"]].numpy)]


_BYTES = "to: dtype byte, y_scale: float 0.., y_zero: int of to, low: int of to, high: int of to"
_ORDERED: Rule = holds("low is not above high", lambda low, high: low <= high)


class _Pair(Op):
    """Elementwise operation on two 8-bit tensors of one shape, computed in floating point.

    clamp(round(f / ``y_scale``) + ``y_zero``, ``low``, ``high``) as ``to``, where f is the sum or
    the product of (a - ``a_zero``) * ``a_scale`` and (b - ``b_zero``) * ``b_scale``.
    """

    contract = Contract(
        "a: byte[*S], b: byte[*S] -> y: to[*S]",
        f"a_scale: float, a_zero: int of a, b_scale: float, b_zero: int of b, {_BYTES}",
        rules=[_ORDERED],
    )

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        sides = [
            (q.astype(np.int32) - attrs[f"{side}_zero"]).astype(np.float32)
            * np.float32(attrs[f"{side}_scale"])
            for q, side in zip(arrays, "ab")
        ]
        (result,) = get_op(self.integer_of).evaluate(sides, {})
        return [_clamped(result / np.float32(attrs["y_scale"]), attrs["y_zero"], attrs)]


@register("qadd")
class QAdd(_Pair):
    """Sum of two 8-bit tensors."""

    integer_of, symbol = "add", "+"
    traits = frozenset({Trait.ELEMENTWISE})


@register("qmul")
class QMul(_Pair):
    """Product of two 8-bit tensors."""

    integer_of, symbol = "mul", "*"
    traits = frozenset({Trait.ELEMENTWISE})


@register("qmax_pool")
class QMaxPool(Op):
    """``max_pool`` of 8-bit tensors with channels innermost."""

    integer_of = "max_pool"
    traits, channel_axis = MaxPool.traits, MaxPool.channel_axis

    contract = pool("byte", "y: E[N C *out_spatial]")

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return get_op("max_pool").evaluate(arrays, attrs)


@register("qavg_pool")
class QAvgPool(Op):
    """``avg_pool`` between 8-bit tensors.

    clamp(round(mean / y_scale) + y_zero, ``low``, ``high``) as ``to``.
    """

    integer_of = "avg_pool"
    traits, channel_axis = AvgPool.traits, AvgPool.channel_axis

    contract = pool(
        "byte",
        "y: to[N C *out_spatial]",
        f"count_pads: bool, x_scale: float 0.., x_zero: int of x, {_BYTES}",
        rules=[_ORDERED],
    )

    def _steps(self, x: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
        (mean,) = get_op("avg_pool").evaluate([x.astype(np.float64) - attrs["x_zero"]], attrs)
        return mean * attrs["x_scale"] / attrs["y_scale"]

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [_clamped(self._steps(arrays[0], attrs), attrs["y_zero"], attrs)]


@register("qavg_pool_zero_first")
class QAvgPoolZeroFirst(QAvgPool):
    """``qavg_pool`` that adds the zero point before rounding, so ties round differently.

    clamp(round(mean / y_scale + y_zero), ``low``, ``high``) as ``to``, as onnxruntime's
    QLinearAveragePool.
    """

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [_clamped(self._steps(arrays[0], attrs) + attrs["y_zero"], 0, attrs)]


@register("matmul_blocks")
class MatMulBlocks(Op):
    """Product of rows of x and block-quantised weights: (number - point) * scale.

    Each block of ``block`` weights has its scale and zero point; without ``points`` that is
    ``2 ** (bits - 1)``. Byte i of a block has numbers i, i + B, i + 2 B, ..., from the lowest bits.
    In reduced precision only x is rounded, for 128 elements or more with a common unit: to 16 bits
    for the largest in bfloat16, to 8 bits in int8.
    """

    variant_of = "matmul"
    sum_order = SumOrder.BLOCKS
    traits = frozenset({Trait.BFLOAT16, Trait.INT8_ACTIVATIONS})

    contract = Contract(
        "x: float32[M K], w: constant uint8[N G B], scales: constant float32[N G], "
        "points?: constant float32[N G] -> y: float32[M N]",
        "bits: int 2..8, block: int 16..256",
        rules=[
            holds("bits are 2, 4 or 8", lambda bits: bits in (2, 4, 8)),
            holds("blocks are whole sixteens", lambda block: block % 16 == 0),
            holds("B bytes are a block", lambda B, bits, block: B * 8 == bits * block),
            holds("G blocks are a row", lambda K, G, block: (G - 1) * block < K <= G * block),
        ],
        example={"K": 40, "G": 2, "B": 16, "bits": 4, "block": 32},
    )


PANEL_ROWS = 16  # from which hosts widen a panel of weights once for all rows: TVMRT_PANEL_ROWS


def has_int8_weights(node: Node) -> bool:
    """Return whether all numbers minus their zero points are integers of 8 bits."""
    points, bits = node.inputs[3:] and node.inputs[3], node.attrs["bits"]
    if not points:
        return True
    numbers = points.data
    return bits < 8 and bool((numbers == np.rint(np.clip(numbers, 0, 2**bits - 1))).all())


def pack_interleaved(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Pack numbers [N, G, block] into bytes [N, G, B]: byte i of a block has numbers i, i + B, ...,
    the order in which kernels widen them."""
    each = 8 // bits
    parts = numbers.reshape(*numbers.shape[:2], each, -1)
    shifts = (np.arange(each, dtype=np.uint8) * np.uint8(bits))[:, None]
    return np.bitwise_or.reduce(parts << shifts, axis=2).astype(np.uint8)
