"""Form integer matmul-like kernels from operators on dequantised tensors.

Three traversals form the operator with a float result, absorb an added constant as its int32 bias,
and absorb the quantisation of its result with the bounds before it. The remaining pointwise work
fuses into the kernel's epilogue.

Contract: results differ from the literal computation (dequantise, multiply in floating point,
quantise) by at most one step, and only where the floating-point sum is near a tie.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.extent import symbols_of
from tvmrt.compiler.ir.float_to_int import to_integers
from tvmrt.compiler.ir.quantized import is_per_tensor, quantize_array, storage_range
from tvmrt.compiler.ir.readers import Readers
from tvmrt.compiler.ir.small import unpacked

from .channel_constants import wide_row
from .quant_moves import dequantizing
from .rewrite import rewrite

PRODUCTS = {"conv": "qconv", "matmul": "qmatmul"}
# Axis of the output channels in the weights and in the result.
WEIGHTS_AXIS = {"qconv": 0, "qmatmul": 1}
RESULT_AXIS = {"qconv": 1, "qmatmul": -1}
COMPUTED = "qmatmul_computed"  # both operands are computed at run time

BYTES = ("int8", "uint8")
EXACT_BIAS = 0.01  # maximum error of an int32 bias, in units of the accumulator
FREE_BITS = 20  # of the bias of a channel without weights
STEP_SHARE = 1 / 256  # maximum error of an int32 bias for quantised results, in their steps


def form_products(graph: Graph) -> None:
    rewrite(graph, _product)
    for absorb in (_bias, _result):
        readers = Readers(graph)
        rewrite(graph, lambda b, node, absorb=absorb, readers=readers: absorb(b, node, readers))


def _product(b: Builder, node: Node) -> Value | None:
    if node.op not in PRODUCTS:
        return None
    op = PRODUCTS[node.op]
    x = dequantizing(node.inputs[0], node)
    w = dequantizing(node.inputs[1], node)
    if x is None or w is None or not is_per_tensor(x) or x.inputs[0].shape != x.output.shape:
        return None
    q, weights = x.inputs[0], unpacked(b, w.inputs[0])  # integer kernels read bytes
    if op == "qmatmul" and not weights.is_constant and not node.inputs[2:]:
        return _computed_product(b, node, x, w)
    if q.is_constant or q.dtype.name not in BYTES or weights.dtype.name not in BYTES:
        return None
    if not weights.is_constant or (op == "qmatmul" and weights.type.rank != 2):
        return None
    rows = [_channels(p, weights, WEIGHTS_AXIS[op]) for p in w.inputs[1:]]
    if any(r is None for r in rows) or w.inputs[1].dtype.name != "float32":
        return None
    scale = _rescaled(x.inputs[1].data, rows[0])
    if scale is None:
        return None
    x_zero = int(x.inputs[2].data.reshape(()))
    w_zero = rows[1].astype(np.int32)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is not None:
        row = _row(bias, node.output, RESULT_AXIS[op])
        scale = _with_free_scales(scale, _is_zero(weights.data, w_zero, WEIGHTS_AXIS[op]), row)
    whole = None if bias is None else _whole_bias(bias, scale, RESULT_AXIS[op], node.output)
    if not _sums_fit(weights.data, w_zero, WEIGHTS_AXIS[op], q, x_zero, whole):
        return None
    inputs = [
        q,
        weights,
        b.const(scale, f"{node.name}_scale"),
        None if whole is None else b.const(whole, f"{node.name}_bias"),
        b.const(w_zero, f"{node.name}_weights_zero") if w_zero.any() else None,
    ]
    b.sources = tuple(dict.fromkeys((*x.sources, *w.sources, *node.sources)))
    out = b.emit(op, inputs, node.name, **node.attrs, x_zero=x_zero, to="float32")
    if bias is None or whole is not None:
        return out
    if op == "qconv":
        shape = (out.shape[1], *[1] * (out.type.rank - 2))
        bias = b.emit("reshape", [bias], shape=shape)
    return b.emit("add", [out, bias], node.name)


def _computed_product(b: Builder, node: Node, x: Node, w: Node) -> Value | None:
    """Form a matmul of two computed tensors. It stays in floating point if the second has dynamic
    dimensions, which the layout of int8 kernels depends on."""
    q, r = x.inputs[0], w.inputs[0]
    if symbols_of(*r.shape[-2:]):
        return None
    if not is_per_tensor(w) or r.shape != w.output.shape or q.is_constant:
        return None
    if q.dtype.name not in BYTES or r.dtype.name not in BYTES:
        return None
    scale = _rescaled(x.inputs[1].data, w.inputs[1].data)
    if scale is None or q.shape[-1] * 255 * 255 >= 2**31:
        return None
    zeros = [int(n.inputs[2].data.reshape(())) for n in (x, w)]
    b.sources = tuple(dict.fromkeys((*x.sources, *w.sources, *node.sources)))
    inputs = [q, r, b.const(scale, f"{node.name}_scale")]
    return b.emit(COMPUTED, inputs, node.name, x_zero=zeros[0], w_zero=zeros[1], to="float32")


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


def _rescaled(*factors: np.ndarray) -> np.ndarray | None:
    """Return the float32 product of scales, as ONNX defines it; None if not finite and positive."""
    product = np.float32(1)
    with np.errstate(all="ignore"):
        for factor in factors:
            product = product * factor.reshape(-1).astype(np.float32)
    product = np.atleast_1d(product).astype(np.float32)
    return product if np.isfinite(product).all() and (product > 0).all() else None


def _is_zero(w: np.ndarray, w_zero: np.ndarray, axis: int) -> np.ndarray:
    """Return the output channels whose weights are all zero."""
    rows = np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1)
    return (rows == w_zero.reshape(-1, 1)).all(axis=1)


def _with_free_scales(scale: np.ndarray, free: np.ndarray, row: np.ndarray | None) -> np.ndarray:
    """Return scales in which channels without weights have one that makes the bias an integer.

    Files give them tiny scales, so that the bias exceeds int32 in units of the scale.
    """
    if row is None:
        return scale
    free = free & (np.abs(row) > 1e-30) & np.isfinite(row)
    if not free.any():
        return scale
    return np.where(free, np.ldexp(np.abs(row), -FREE_BITS), scale).astype(np.float32)


def _sums_fit(w, w_zero, axis: int, x: Value, x_zero: int, bias) -> bool:
    """Return whether the accumulator fits int32 for any input."""
    rows = np.moveaxis(w.astype(np.int64), axis, 0).reshape(w.shape[axis], -1)
    low, high = storage_range(x.dtype)
    reach = max(high - x_zero, x_zero - low)
    largest = np.abs(rows - w_zero.reshape(-1, 1)).sum(axis=1) * reach
    if bias is not None:
        largest = largest + np.abs(bias.astype(np.int64))
    return bool((largest < 2**31).all())


def _row(value: Value, result: Value, axis: int) -> np.ndarray | None:
    """Return a constant that broadcasts to the result as one float64 per output channel."""
    data = value.data
    if data is not None and data.ndim == 1 and axis == 1 and data.size == result.shape[1]:
        return data.astype(np.float64)
    return wide_row(result, data, axis)


def _whole_bias(bias: Value, scale: np.ndarray, axis: int, result: Value):
    """Return a bias in units of the accumulator as int32; None if rounding would change it."""
    if axis == 1 and bias.type.rank != 1:
        return None
    return _as_sums(_row(bias, result, axis), scale)


def _as_sums(
    row: np.ndarray | None, scale: np.ndarray, error: float = EXACT_BIAS
) -> np.ndarray | None:
    """Convert to accumulator units in int32; None if rounding changes it by more than ``error``."""
    if row is None:
        return None
    units = row / scale.astype(np.float64)
    whole = np.rint(units)
    if (np.abs(whole - units) > error).any() or (np.abs(whole) >= 2.0**30).any():
        return None
    return to_integers(whole, np.int32)


def _integer_product(value: Value, reader: Node) -> Node | None:
    """Return the integer matmul-like node with a float result that computes ``value``."""
    node = value.producer
    if node is None or node.attrs.get("to") != "float32":
        return None
    if node.op not in WEIGHTS_AXIS and node.op != COMPUTED:
        return None
    return node if node.guard == reader.guard else None


def _with_bias(product: Node, row: np.ndarray, error: float = EXACT_BIAS) -> np.ndarray | None:
    """Return the int32 bias with ``row`` (floating-point) added; None if it does not fit."""
    scale = product.inputs[2].data
    whole = _as_sums(row, scale, error)
    if whole is None:
        return None
    old = product.inputs[3]
    if old is not None:
        whole = (whole.astype(np.int64) + old.data).astype(np.int32)
    w_zero = np.zeros(1, np.int32) if product.inputs[4] is None else product.inputs[4].data
    fits = _sums_fit(
        product.inputs[1].data,
        w_zero,
        WEIGHTS_AXIS[product.op],
        product.inputs[0],
        product.attrs["x_zero"],
        whole,
    )
    return whole if fits else None


def _bias(b: Builder, node: Node, readers: Readers) -> Value | None:
    """Absorb a constant added to the result, if it is an integer number of units."""
    if node.op != "add":
        return None
    for i in (0, 1):
        value, other = node.inputs[i], node.inputs[1 - i]
        product = _integer_product(value, node)
        if product is None or value.shape != node.output.shape or readers.are_several(value):
            continue
        if product.op == COMPUTED:
            return None
        row = wide_row(product.output, other.data, RESULT_AXIS[product.op])
        whole = None if row is None else _with_bias(product, row)
        if whole is not None:
            b.sources = tuple(dict.fromkeys((*product.sources, *node.sources)))
            inputs = [*product.inputs[:3], b.const(whole, f"{product.name}_bias")]
            return b.emit(product.op, [*inputs, product.inputs[4]], product.name, **product.attrs)
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
        """Apply a relu, or max or min with a scalar, of ``value``; return whether it is one."""
        if node.op == "relu":
            return self._at_least(0.0)
        if node.op not in ("max", "min") or len(node.inputs) != 2:
            return False
        (other,) = [v for v in node.inputs if v is not value] or [None]
        if other is None or other.data is None or other.type.size != 1:
            return False
        number = float(other.data.reshape(()))
        if np.isnan(number):
            return False
        return self._at_least(number) if node.op == "max" else self._at_most(number)

    def _step(self, number: float) -> int:
        scale, zero = self.scale.data.reshape(()), self.zero.data.reshape(())
        return int(quantize_array(np.float32(number), scale, zero))

    # Bounds are visited from last to first: later ones take precedence.

    def _at_least(self, number: float) -> bool:
        self.low = min(max(self.low, self._step(number)), self.high)
        return True

    def _at_most(self, number: float) -> bool:
        self.high = max(min(self.high, self._step(number)), self.low)
        return True


def _result(b: Builder, node: Node, readers: Readers) -> Value | None:
    """Form one kernel for quantize(bounds(result + constant))."""
    if node.op != "quantize" or not is_per_tensor(node) or node.output.dtype.name not in BYTES:
        return None
    y_scale = node.inputs[1].data.reshape(-1)
    if not (y_scale > 0).all() or node.output.shape != node.inputs[0].shape:
        return None
    bounds = Bounds(node)
    found = _behind(node, bounds, readers)
    if found is None:
        return None
    product, row, sources = found
    with np.errstate(all="ignore"):
        scale = (product.inputs[2].data / y_scale).astype(np.float32)
    if not np.isfinite(scale).all():
        return None
    rest = list(product.inputs[3:])
    if row is not None:
        whole = _with_bias(product, row, float(STEP_SHARE / max(scale.max(), 1e-30)))
        if whole is None:
            return None
        rest[0] = b.const(whole, f"{product.name}_bias")
    b.sources = tuple(dict.fromkeys((*product.sources, *sources)))
    attrs = {**product.attrs, **bounds.attrs()}
    inputs = [*product.inputs[:2], b.const(scale, f"{product.name}_scale"), *rest]
    return b.emit(product.op, inputs, product.name, **attrs)


def _behind(node: Node, bounds: Bounds, readers: Readers):
    """Return (matmul-like node, row added per channel or None, source names) before a quantize.

    ``bounds`` takes the bounds between them. None if there are other nodes.
    """
    value, row, sources = node.inputs[0], None, list(node.sources)
    while True:
        if readers.are_several(value) or value.shape != node.output.shape:
            return None
        product = _integer_product(value, node)
        if product is not None:
            return product, row, sources
        step = value.producer
        if step is None or step.guard != node.guard or row is not None:
            return None
        sources = [*step.sources, *sources]
        operands = [v for v in step.operands() if v.shape == value.shape and not v.is_constant]
        if len(operands) != 1:
            return None
        value = operands[0]
        if step.op == "add":
            row = _added(step, value)
            if row is None:
                return None
        elif not bounds.take(step, value):
            return None


def _added(node: Node, value: Value) -> np.ndarray | None:
    """Return the row that a node adds to a result per channel, if it can become a bias."""
    product = _integer_product(value, node)
    others = [v for v in node.inputs if v is not value]
    if product is None or product.op == COMPUTED or not others:
        return None
    return wide_row(product.output, others[0].data, RESULT_AXIS[product.op])
