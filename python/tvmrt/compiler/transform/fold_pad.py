"""Fold a pad before a convolution or a pool into its own padding.

Contract: bit-equal. The pad has the value of the window's padding: zero, or the zero point of
quantised tensors; before a maximum a value that is never the maximum. Every window keeps an element
that is not padding.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value
from tvmrt.compiler.ir.nn import may_have_pads
from tvmrt.compiler.ir.quantized import quantize_array
from tvmrt.compiler.ir.sizes import symbols_of

from .rewrite import at, rewrite

MAX_DEPTH = 8  # of a chain of operators that is searched for a minimum


def fold_pad(graph: Graph) -> None:
    rewrite(graph, _fold)


@at(Trait.CONVOLUTION, Trait.POOL, source="pad")
def _fold(b: Builder, node: Node, pad: Node) -> Value | None:
    x = pad.inputs[0]
    if not _pads_pixels(node, pad):
        return None
    if not _padding_has_value(node, x, pad.inputs[1] if len(pad.inputs) > 1 else None):
        return None
    return _fold_into(b, node, pad, x)


def _pads_pixels(node: Node, pad: Node) -> bool:
    """Return whether the pad adds constant numbers of equal pixels, as padding of kernels does."""
    before, after = pad.attrs["before"], pad.attrs["after"]
    if pad.attrs["mode"] != "constant" or pad.guard != node.guard or symbols_of(*before, *after):
        return False
    return not any((*before[:2], *after[:2])) and min((*before, *after)) >= 0


def _fold_into(b: Builder, node: Node, pad: Node, x: Value) -> Value | None:
    """Return the window over x, the input without the pad; None if it cannot have its padding."""
    before, after = pad.attrs["before"], pad.attrs["after"]
    attrs = dict(node.attrs)
    if node.has(Trait.MEAN):
        if not attrs["count_pads"] and may_have_pads(attrs):
            return None
        attrs["count_pads"] = True
    attrs["pads_before"] = tuple(p + q for p, q in zip(attrs["pads_before"], before[2:]))
    attrs["pads_after"] = tuple(p + q for p, q in zip(attrs["pads_after"], after[2:]))
    if node.has(Trait.POOL) and not _windows_overlap_input(x, attrs):
        return None
    b.sources = tuple(dict.fromkeys((*node.sources, *pad.sources)))
    return b.emit(node.op, [x, *node.inputs[1:]], node.name, **attrs)


def _padding_has_value(node: Node, x: Value, value: Value | None) -> bool:
    """Return whether the window's own padding equals elements of that value."""
    if value is not None and (value.data is None or value.type.size != 1):
        return False
    pad_value = 0 if value is None else value.data.reshape(())
    if not node.has(Trait.EXTREMUM):
        return bool(pad_value == node.attrs.get("x_zero", 0))
    lowest = _lower_bound(x)
    return lowest is not None and bool(pad_value <= lowest)


def _lower_bound(value: Value, depth: int = 0):
    """Return a lower bound of all elements, from the preceding operators; None if there is
    none."""
    node, dtype = value.producer, value.dtype
    type_minimum = None
    if dtype.is_float:
        type_minimum = np.float32(-np.inf)
    elif dtype.is_int and dtype.bits in (8, 16, 32, 64):
        type_minimum = np.iinfo(dtype.numpy).min
    if type_minimum is None or node is None or len(node.outputs) != 1 or depth > MAX_DEPTH:
        return type_minimum
    if not dtype.is_float and node.attrs.get("low") is not None:
        return node.attrs["low"]
    if node.operator.result_range is not None:
        return node.operator.result_range[0]
    if node.has(Trait.MOVES_ELEMENTS, Trait.EXTREMUM):
        return _lower_bound(node.inputs[0], depth + 1)
    parts = [_lower_bound_of_operand(v, depth + 1) for v in node.inputs if v is not None]
    if node.has(Trait.LOWER_LIMIT, Trait.UPPER_LIMIT) and None not in parts:
        return max(parts) if node.has(Trait.LOWER_LIMIT) else min(parts)
    if node.op == "quantize" and all(v.is_constant and v.type.size == 1 for v in node.inputs[1:]):
        scale, zero = (v.data.reshape(()) for v in node.inputs[1:])
        if parts[0] is not None and scale > 0:
            return int(quantize_array(np.float32(parts[0]), scale, zero))
    return type_minimum


def _lower_bound_of_operand(value: Value, depth: int):
    if not value.is_constant:
        return _lower_bound(value, depth)
    return value.data.min() if value.type.size and not np.isnan(value.data).any() else None


def _windows_overlap_input(x: Value, attrs: dict) -> bool:
    """Return whether each window has an element that is not padding."""
    names = ("kernel", "strides", "dilations", "pads_before", "pads_after", "out_spatial")
    for n, *window in zip(x.shape[2:], *(attrs[name] for name in names)):
        k, stride, dilation, before, after, out = window
        if max(before, after) > (k - 1) * dilation or not n >= dilation:
            return False
        if not (out - 1) * stride < n + before:
            return False
    return True
