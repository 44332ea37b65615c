"""Move conversions through data movement, next to the operators that compute.

Dequantising moves after operators that move or select elements, quantising before them, and a pair
that cancels is removed. Contract: every element is bit-equal. Only per-tensor conversions and those
of constants move.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.quantized import (
    dequantize_array,
    is_per_tensor,
    quantize_array,
    same_parameters,
)
from tvmrt.compiler.ir.value_users import ValueUsers

from .dead_code import remove_dead_code
from .rewrite import rewrite

MAX_ITERATIONS = 24

# Operators whose results are elements of their first input, unchanged.
SELECTING = frozenset(("reshape", "transpose", "slice", "expand", "gather", "tile", "gather_nd"))
# Operators that return the maximum or minimum of some; a positive scale keeps the order.
ORDERING = frozenset(("max_pool", "reduce_max", "reduce_min"))
# Operators that return an index and depend only on the order of elements.
CHOOSING = frozenset(("argmax", "argmin"))
# Operators that keep a number or replace it by a constant.
BOUNDS = frozenset(("relu", "max", "min"))
# Operators that quantising moves before, because their input is not much larger.
RAISED = frozenset(("reshape", "transpose", "expand", "max_pool", "tile"))


def move_conversions(graph: Graph) -> None:
    for _ in range(MAX_ITERATIONS):
        mover = _Mover(graph)
        if not rewrite(graph, mover.visit):
            return
        remove_dead_code(graph)  # moved nodes must not count as readers


class _Mover:
    """One iteration over a graph."""

    def __init__(self, graph: Graph) -> None:
        self.readers = ValueUsers(graph)

    def visit(self, b: Builder, node: Node) -> Value | None:
        if len(node.outputs) != 1:
            return None
        if node.op == "quantize":
            return self._cancel(node) or self._hoist_quantize(b, node)
        if node.op in SELECTING or node.op in ORDERING:
            return _sink_dequantize(b, node)
        if node.op in CHOOSING:
            return _integer_argmax(b, node)
        if node.op == "resample":
            return _repeat(b, node)
        if node.op in BOUNDS:
            return _sink_bound(b, node)
        if node.op == "concat":
            return _sink_concat(b, node)
        if node.op == "pad":
            return _sink_pad(b, node)
        return None

    def _cancel(self, node: Node) -> Value | None:
        """Remove quantising after dequantising with the same parameters."""
        first = dequantizing(node.inputs[0], node)
        if first is None or not same_parameters(first, node):
            return None
        return first.inputs[0] if first.inputs[0].type == node.output.type else None

    def _hoist_quantize(self, b: Builder, node: Node) -> Value | None:
        """Replace (move, quantize) by (quantize, move)."""
        x = node.inputs[0]
        move = x.producer
        if move is None or move.guard != node.guard or not is_per_tensor(node):
            return None
        if self.readers.only(x) is None or x.shape != node.output.shape:
            return None
        scale, zero = node.inputs[1:]
        b.sources = tuple(dict.fromkeys((*move.sources, *node.sources)))

        def quantized(v: Value) -> Value:
            return b.emit("quantize", [v, scale, zero], node.name)

        if move.op == "concat":
            parts = [quantized(v) for v in move.inputs]
            return b.emit("concat", parts, move.name, **move.attrs)
        if move.op == "pad" and move.attrs["mode"] == "constant":
            fill = pad_value(move)
            if fill is None:
                return None
            scalar = quantize_array(fill, scale.data.reshape(()), zero.data.reshape(()))
            inputs = [quantized(move.inputs[0]), b.const(scalar)]
            return b.emit("pad", inputs, move.name, **move.attrs)
        if move.op in RAISED and (move.op != "max_pool" or scale.data.reshape(()) > 0):
            inputs = [quantized(move.inputs[0]), *move.inputs[1:]]
            return b.emit(move.op, inputs, move.name, **move.attrs)
        return None


def dequantizing(value: Value, reader: Node) -> Node | None:
    """Return the dequantize node of ``value``, if it runs whenever its reader does."""
    node = value.producer
    if node is None or node.op != "dequantize" or node.guard not in (None, reader.guard):
        return None
    return node


def _sink_dequantize(b: Builder, node: Node) -> Value | None:
    """Replace (dequantize, move) by (move, dequantize)."""
    first = dequantizing(node.inputs[0], node)
    if first is None:
        return None
    q, scale, zero = first.inputs
    if node.op in ORDERING and not (is_per_tensor(first) and scale.data.reshape(()) > 0):
        return None
    parameters = [_move_parameter(b, node, p, q) for p in (scale, zero)]
    if any(p is None for p in parameters) or q.shape != node.inputs[0].shape:
        return None
    moved = b.emit(node.op, [q, *node.inputs[1:]], node.name, **node.attrs)
    return b.emit("dequantize", [moved, *parameters], node.name)


def _move_parameter(b: Builder, node: Node, p: Value, q: Value) -> Value | None:
    """Return a parameter after the move of its tensor; None if it cannot be moved."""
    if p.is_constant and p.type.size == 1:
        return b.const(p.data.reshape(()), p.name)
    if not p.is_constant or len(node.inputs) != 1:
        return None
    if node.op == "transpose":
        full = p.data.reshape((1,) * (q.type.rank - p.type.rank) + p.shape)
        return b.const(np.transpose(full, node.attrs["perm"]), p.name)
    if not q.is_constant:
        return None
    full = b.const(np.broadcast_to(p.data, q.shape), p.name)
    return b.emit(node.op, [full], node.name, **node.attrs)


def _integer_argmax(b: Builder, node: Node) -> Value | None:
    """Return the index of an extremum from the integers."""
    first = dequantizing(node.inputs[0], node)
    if first is None or not is_per_tensor(first) or not first.inputs[1].data.reshape(()) > 0:
        return None
    if first.inputs[0].shape != node.inputs[0].shape:
        return None
    return b.emit(node.op, [first.inputs[0], *node.inputs[1:]], node.name, **node.attrs)


def _repeat(b: Builder, node: Node) -> Value | None:
    """Replace resampling along an axis of one element by repetition."""
    x, _, weights = node.inputs
    if x.shape[node.attrs["axis"]] != 1 or weights.data is None:
        return None
    if not np.allclose(weights.data.sum(axis=1), 1.0, atol=1e-6):
        return None
    return b.emit("expand", [x], node.name, shape=node.output.shape)


def _sink_bound(b: Builder, node: Node) -> Value | None:
    """Move a bound before dequantising, if the integer type can represent it."""
    constants = [v for v in node.inputs if v.is_constant]
    values = [v for v in node.inputs if not v.is_constant]
    if len(values) != 1 or any(v.type.size != 1 for v in constants):
        return None
    first = dequantizing(values[0], node)
    if first is None or not is_per_tensor(first) or first.inputs[0].shape != node.output.shape:
        return None
    q, scale, zero = first.inputs
    if q.dtype.bits > 16 or not scale.data.reshape(()) > 0:
        return None
    bound = np.float32(0) if node.op == "relu" else constants[0].data.reshape(())
    step = _stored(bound, first)
    if step is None:
        return None
    op = "max" if node.op == "relu" else node.op
    return b.emit("dequantize", [b.emit(op, [q, b.const(step)], node.name), scale, zero], node.name)


def _stored(scalar: np.ndarray, conversion: Node) -> np.ndarray | None:
    """Return the integer that represents a number exactly; None if there is none."""
    scale, zero = (v.data.reshape(()) for v in conversion.inputs[1:])
    step = quantize_array(scalar, scale, zero)
    return step if dequantize_array(step, scale, zero) == scalar else None


def _sink_concat(b: Builder, node: Node) -> Value | None:
    """Concatenate integers, if all parts are dequantised with the same parameters."""
    producers = [dequantizing(v, node) for v in node.inputs]
    first = producers[0]
    if any(f is None or not same_parameters(f, first) for f in producers):
        return None
    parts = [f.inputs[0] for f in producers]
    if [p.shape for p in parts] != [v.shape for v in node.inputs]:
        return None
    joined = b.emit("concat", parts, node.name, **node.attrs)
    return b.emit("dequantize", [joined, *first.inputs[1:]], node.name)


def pad_value(node: Node) -> np.ndarray | None:
    """Return the fill value of a pad node as float32; None if it is computed at run time."""
    value = node.inputs[1] if len(node.inputs) > 1 else None
    if value is None:
        return np.float32(0).reshape(())
    return None if value.data is None else value.data.reshape(()).astype(np.float32)


def _sink_pad(b: Builder, node: Node) -> Value | None:
    first = dequantizing(node.inputs[0], node)
    if first is None or not is_per_tensor(first) or first.inputs[0].shape != node.inputs[0].shape:
        return None
    q, scale, zero = first.inputs
    inputs = [q]
    if node.attrs["mode"] == "constant":
        fill = pad_value(node)
        if fill is None or q.dtype.bits > 16:
            return None
        scalar = _stored(fill, first)
        if scalar is None:
            return None
        inputs.append(b.const(scalar))
    moved = b.emit("pad", inputs, node.name, **node.attrs)
    return b.emit("dequantize", [moved, scale, zero], node.name)
