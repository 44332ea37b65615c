"""Form integer matmul-like kernels from operators on dequantised tensors.

Three traversals form the operator with a float result, absorb an added constant as its int32 bias,
and absorb the quantisation of its result with the bounds before it. The remaining pointwise work
fuses into the kernel's epilogue.

Contract: results differ from the literal computation (dequantise, multiply in floating point,
quantise) by at most one step, and only where the floating-point sum is near a tie.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Op, Trait, Value, integer_form
from tvmrt.compiler.ir.dtype import to_integers
from tvmrt.compiler.ir.low_bit_types import widen_constants
from tvmrt.compiler.ir.quantized import (
    INT8_TYPES,
    is_per_tensor,
    quantize_array,
    storage_range,
)
from tvmrt.compiler.ir.sizes import symbols_of
from tvmrt.compiler.ir.value_users import ValueUsers, clamp_of

from .channel_constants import is_float_matmul, per_channel_f64
from .move_quantize import dequantizing
from .rewrite import at, rewrite

EXACT_BIAS = 0.01  # maximum error of an int32 bias, in units of the accumulator
INTEGER_BIAS_BITS = 20  # of the bias of a channel without weights
MAX_BIAS_STEP_ERROR = 1 / 256  # maximum error of an int32 bias for quantised results, in steps


def form_quantized_matmuls(graph: Graph) -> None:
    rewrite(graph, _form_matmul)
    for absorb in (_bias, _result):
        readers = ValueUsers(graph)
        rewrite(graph, lambda b, node, absorb=absorb, readers=readers: absorb(b, node, readers))


def _form_matmul(b: Builder, node: Node) -> Value | None:
    if not is_float_matmul(node):
        return None
    form = integer_form(node.operator, weights=True)
    x = dequantizing(node.inputs[0], node)
    w = dequantizing(node.inputs[1], node)
    if x is None or w is None or not is_per_tensor(x) or x.inputs[0].shape != x.output.shape:
        return None
    q, weights = x.inputs[0], widen_constants(b, w.inputs[0])  # integer kernels read bytes
    computed = integer_form(node.operator, weights=False)
    if computed is not None and not weights.is_constant and not node.inputs[2:]:
        return _form_dynamic_matmul(b, node, computed, x, w)
    is_int8 = q.dtype.name in INT8_TYPES and weights.dtype.name in INT8_TYPES
    if form is None or q.is_constant or not is_int8:
        return None
    if not weights.is_constant or (node.has(Trait.MATRIX_PRODUCT) and weights.type.rank != 2):
        return None
    axis, result_axis = form.weights.output_axis, form.channel_axis
    rows = [_channels(p, weights, axis) for p in w.inputs[1:]]
    if any(r is None for r in rows) or w.inputs[1].dtype.name != "float32":
        return None
    scale = _combined_scale(x.inputs[1].data, rows[0])
    if scale is None:
        return None
    x_zero = int(x.inputs[2].data.reshape(()))
    w_zero = rows[1].astype(np.int32)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        row = _per_channel(bias, node.output, result_axis)
        free = _zero_weight_channels(weights.data, w_zero, axis)
        scale = _with_integer_bias_scales(scale, free, row)
    integer_bias = None if bias is None else _integer_bias(bias, scale, result_axis, node.output)
    if not _accumulator_fits(weights.data, w_zero, axis, q, x_zero, integer_bias):
        return None
    inputs = [
        q,
        weights,
        b.const(scale, f"{node.name}_scale"),
        None if integer_bias is None else b.const(integer_bias, f"{node.name}_bias"),
        b.const(w_zero, f"{node.name}_weights_zero") if w_zero.any() else None,
    ]
    b.sources = tuple(dict.fromkeys((*x.sources, *w.sources, *node.sources)))
    out = b.emit(form.name, inputs, node.name, **node.attrs, x_zero=x_zero, to="float32")
    if bias is None or integer_bias is not None:
        return out
    ones = [1] * (out.type.rank - 1 - result_axis % out.type.rank)
    if ones:
        bias = b.emit("reshape", [bias], shape=(out.shape[result_axis], *ones))
    return b.emit("add", [out, bias], node.name)


def _form_dynamic_matmul(b: Builder, node: Node, form: Op, x: Node, w: Node) -> Value | None:
    """Form a matmul of two computed tensors. It stays in floating point if the second has dynamic
    dimensions, which the layout of int8 kernels depends on."""
    q, r = x.inputs[0], w.inputs[0]
    if symbols_of(*r.shape[-2:]):
        return None
    if not is_per_tensor(w) or r.shape != w.output.shape or q.is_constant:
        return None
    if q.dtype.name not in INT8_TYPES or r.dtype.name not in INT8_TYPES:
        return None
    scale = _combined_scale(x.inputs[1].data, w.inputs[1].data)
    if scale is None or q.shape[-1] * 255 * 255 >= 2**31:
        return None
    zeros = [int(n.inputs[2].data.reshape(())) for n in (x, w)]
    b.sources = tuple(dict.fromkeys((*x.sources, *w.sources, *node.sources)))
    inputs = [q, r, b.const(scale, f"{node.name}_scale")]
    return b.emit(form.name, inputs, node.name, x_zero=zeros[0], w_zero=zeros[1], to="float32")


def _channels(p: Value, weights: Value, axis: int) -> np.ndarray | None:
    """Return a parameter of the weights per output channel; None if it varies within one."""
    if not p.is_constant:
        return None
    if p.type.size == 1:
        return np.full(weights.shape[axis], p.data.reshape(()))
    full = np.moveaxis(np.broadcast_to(p.data, weights.shape), axis, 0)
    full = full.reshape(full.shape[0], -1)
    if full.shape[1] == 0 or not (full == full[:, :1]).all():
        return None
    return full[:, 0].copy()


def _combined_scale(*factors: np.ndarray) -> np.ndarray | None:
    """Return the float32 product of scales, as ONNX defines it; None if not finite and positive."""
    matmul = np.float32(1)
    with np.errstate(all="ignore"):
        for factor in factors:
            matmul = matmul * factor.reshape(-1).astype(np.float32)
    matmul = np.atleast_1d(matmul).astype(np.float32)
    return matmul if np.isfinite(matmul).all() and (matmul > 0).all() else None


def _zero_weight_channels(w: np.ndarray, w_zero: np.ndarray, axis: int) -> np.ndarray:
    """Return the output channels whose weights are all zero."""
    rows = np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1)
    return (rows == w_zero.reshape(-1, 1)).all(axis=1)


def _with_integer_bias_scales(
    scale: np.ndarray, free: np.ndarray, row: np.ndarray | None
) -> np.ndarray:
    """Return scales in which channels without weights have one that makes the bias an integer.

    Files give them tiny scales, so that the bias exceeds int32 in units of the scale.
    """
    if row is None:
        return scale
    free = free & (np.abs(row) > 1e-30) & np.isfinite(row)
    if not free.any():
        return scale
    return np.where(free, np.ldexp(np.abs(row), -INTEGER_BIAS_BITS), scale).astype(np.float32)


def _accumulator_fits(w, w_zero, axis: int, x: Value, x_zero: int, bias) -> bool:
    """Return whether the accumulator fits int32 for any input."""
    rows = np.moveaxis(w.astype(np.int64), axis, 0).reshape(w.shape[axis], -1)
    low, high = storage_range(x.dtype)
    magnitude = max(high - x_zero, x_zero - low)
    largest = np.abs(rows - w_zero.reshape(-1, 1)).sum(axis=1) * magnitude
    if bias is not None:
        largest = largest + np.abs(bias.astype(np.int64))
    return bool((largest < 2**31).all())


def _per_channel(value: Value, result: Value, axis: int) -> np.ndarray | None:
    """Return a constant that broadcasts to the result as one float64 per output channel."""
    data = value.data
    if data is not None and data.ndim == 1 and axis == 1 and data.size == result.shape[1]:
        return data.astype(np.float64)
    return per_channel_f64(result, data, axis)


def _integer_bias(bias: Value, scale: np.ndarray, axis: int, result: Value):
    """Return a bias in units of the accumulator as int32; None if rounding would change it."""
    if axis == 1 and bias.type.rank != 1:
        return None
    return _in_accumulator_units(_per_channel(bias, result, axis), scale)


def _in_accumulator_units(
    row: np.ndarray | None, scale: np.ndarray, error: float = EXACT_BIAS
) -> np.ndarray | None:
    """Convert to accumulator units in int32; None if rounding changes it by more than ``error``."""
    if row is None:
        return None
    units = row / scale.astype(np.float64)
    integer_bias = np.rint(units)
    if (np.abs(integer_bias - units) > error).any() or (np.abs(integer_bias) >= 2.0**30).any():
        return None
    return to_integers(integer_bias, np.int32)


def _find_integer_matmul(value: Value, reader: Node) -> Node | None:
    """Return the integer matmul-like node with a float result that computes ``value``."""
    node = value.producer
    if node is None or node.attrs.get("to") != "float32":
        return None
    if not node.operator.is_integer_product or node.guard != reader.guard:
        return None
    return node


def _with_bias(matmul: Node, row: np.ndarray, error: float = EXACT_BIAS) -> np.ndarray | None:
    """Return the int32 bias with ``row`` (floating-point) added; None if it does not fit."""
    scale = matmul.inputs[2].data
    integer_bias = _in_accumulator_units(row, scale, error)
    if integer_bias is None:
        return None
    old = matmul.inputs[3]
    if old is not None:
        integer_bias = (integer_bias.astype(np.int64) + old.data).astype(np.int32)
    w_zero = np.zeros(1, np.int32) if matmul.inputs[4] is None else matmul.inputs[4].data
    (x, w, *_), axis = matmul.inputs, matmul.operator.weights.output_axis
    is_exact = _accumulator_fits(w.data, w_zero, axis, x, matmul.attrs["x_zero"], integer_bias)
    return integer_bias if is_exact else None


@at("add")
def _bias(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Absorb a constant added to the result, if it is an integer number of units."""
    for i in (0, 1):
        value, other = node.inputs[i], node.inputs[1 - i]
        matmul = _find_integer_matmul(value, node)
        if matmul is None or value.shape != node.output.shape or readers.has_many(value):
            continue
        if matmul.operator.weights is None:
            return None
        row = per_channel_f64(matmul.output, other.data, matmul.operator.channel_axis)
        integer_bias = None if row is None else _with_bias(matmul, row)
        if integer_bias is not None:
            b.sources = tuple(dict.fromkeys((*matmul.sources, *node.sources)))
            inputs = [*matmul.inputs[:3], b.const(integer_bias, f"{matmul.name}_bias")]
            return b.emit(matmul.op, [*inputs, matmul.inputs[4]], matmul.name, **matmul.attrs)
    return None


class Bounds:
    """Bounds of a quantised result."""

    def __init__(self, quantize: Node) -> None:
        self.to = quantize.output.dtype
        _, self.scale, self.zero = quantize.inputs
        self.low, self.high = storage_range(self.to)

    def attrs(self) -> dict:
        """Return the attributes of a kernel with this result, except for the scale."""
        zero = int(self.zero.data.reshape(()))
        return {"to": self.to.name, "y_zero": zero, "low": self.low, "high": self.high}

    def take(self, node: Node, value: Value) -> bool:
        """Apply a clamp of ``value``; return whether the node is one."""
        clamp = clamp_of(node)
        if clamp is None or clamp.x is not value:
            return False
        scale, zero = self.scale.data.reshape(()), self.zero.data.reshape(())
        step = int(quantize_array(np.float32(clamp.limit), scale, zero))
        # clamps are visited from last to first: later ones take precedence
        if clamp.is_lower:
            self.low = min(max(self.low, step), self.high)
        else:
            self.high = max(min(self.high, step), self.low)
        return True


@at("quantize")
def _result(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Form one kernel for quantize(bounds(result + constant))."""
    if not is_per_tensor(node) or node.output.dtype.name not in INT8_TYPES:
        return None
    y_scale = node.inputs[1].data.reshape(-1)
    if not (y_scale > 0).all() or node.output.shape != node.inputs[0].shape:
        return None
    bounds = Bounds(node)
    match = _find_matmul(node, bounds, readers)
    if match is None:
        return None
    matmul, row, sources = match
    with np.errstate(all="ignore"):
        scale = (matmul.inputs[2].data / y_scale).astype(np.float32)
    if not np.isfinite(scale).all():
        return None
    bias_and_zero = list(matmul.inputs[3:])
    if row is not None:
        integer_bias = _with_bias(matmul, row, float(MAX_BIAS_STEP_ERROR / max(scale.max(), 1e-30)))
        if integer_bias is None:
            return None
        bias_and_zero[0] = b.const(integer_bias, f"{matmul.name}_bias")
    b.sources = tuple(dict.fromkeys((*matmul.sources, *sources)))
    attrs = {**matmul.attrs, **bounds.attrs()}
    inputs = [*matmul.inputs[:2], b.const(scale, f"{matmul.name}_scale"), *bias_and_zero]
    return b.emit(matmul.op, inputs, matmul.name, **attrs)


def _find_matmul(node: Node, bounds: Bounds, readers: ValueUsers):
    """Return (matmul-like node, row added per channel or None, source names) before a quantize.

    ``bounds`` takes the bounds between them. None if there are other nodes.
    """
    value, row, sources = node.inputs[0], None, list(node.sources)
    while True:
        if readers.has_many(value) or value.shape != node.output.shape:
            return None
        matmul = _find_integer_matmul(value, node)
        if matmul is not None:
            return matmul, row, sources
        step = value.producer
        if step is None or step.guard != node.guard or row is not None:
            return None
        sources = [*step.sources, *sources]
        operands = [v for v in step.operands() if v.shape == value.shape and not v.is_constant]
        if len(operands) != 1:
            return None
        value = operands[0]
        if step.op == "add":
            row = _added_constant(step, value)
            if row is None:
                return None
        elif not bounds.take(step, value):
            return None


def _added_constant(node: Node, value: Value) -> np.ndarray | None:
    """Return the row that a node adds to a result per channel, if it can become a bias."""
    matmul = _find_integer_matmul(value, node)
    others = [v for v in node.inputs if v is not value]
    if matmul is None or matmul.operator.weights is None or not others:
        return None
    return per_channel_f64(matmul.output, others[0].data, matmul.operator.channel_axis)
