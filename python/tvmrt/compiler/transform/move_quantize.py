"""Move conversions through data movement, next to the operators that compute.

Dequantising moves after operators that move or select elements, quantising before them, and a pair
that cancels is removed. Contract: every element is bit-equal. Only per-tensor conversions and those
of constants move.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value
from tvmrt.compiler.ir.quantized import (
    dequantize_array,
    dequantize_of,
    is_per_tensor,
    quantize_array,
    same_parameters,
    storage_range,
)
from tvmrt.compiler.ir.sizes import upper_bound
from tvmrt.compiler.ir.value_users import ValueUsers, clamp_of

from .dead_code import remove_dead_code
from .rewrite import at, first_of, rewrite

MAX_ITERATIONS = 24


def move_conversions(graph: Graph) -> None:
    for _ in range(MAX_ITERATIONS):
        readers = ValueUsers(graph)

        def move(b: Builder, node: Node, readers: ValueUsers = readers) -> Value | None:
            return _MOVE(b, node, readers) if len(node.outputs) == 1 else None

        if not rewrite(graph, move):
            return
        remove_dead_code(graph)  # moved nodes must not count as readers


@at("quantize")
def _cancel(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Remove quantising after dequantising with the same parameters."""
    first = dequantizing(node.inputs[0], node)
    if first is None or not same_parameters(first, node):
        return None
    return first.inputs[0] if first.inputs[0].type == node.output.type else None


def _is_hoistable(node: Node, move: Node, readers: ValueUsers) -> bool:
    """Return whether a quantize node may change places with the node that computes its operand."""
    x = node.inputs[0]
    if move.guard != node.guard or not is_per_tensor(node):
        return False
    return readers.only(x) is not None and x.shape == node.output.shape


def _quantized(b: Builder, node: Node, value: Value, move: Node) -> Value:
    b.sources = tuple(dict.fromkeys((*move.sources, *node.sources)))
    return b.emit("quantize", [value, *node.inputs[1:]], node.name)


@at("quantize", source="concat")
def _hoist_over_concat(b: Builder, node: Node, concat: Node, readers: ValueUsers) -> Value | None:
    if not _is_hoistable(node, concat, readers):
        return None
    parts = [_quantized(b, node, v, concat) for v in concat.inputs]
    return b.emit("concat", parts, concat.name, **concat.attrs)


@at("quantize", source="pad")
def _hoist_over_pad(b: Builder, node: Node, pad: Node, readers: ValueUsers) -> Value | None:
    if not _is_hoistable(node, pad, readers) or pad.attrs["mode"] != "constant":
        return None
    fill = pad_value(pad)
    if fill is None:
        return None
    scale, zero = (v.data.reshape(()) for v in node.inputs[1:])
    inputs = [_quantized(b, node, pad.inputs[0], pad), b.const(quantize_array(fill, scale, zero))]
    return b.emit("pad", inputs, pad.name, **pad.attrs)


@at("quantize")
def _hoist(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Replace (move, quantize) by (quantize, move), if that does not quantise more elements."""
    move = node.inputs[0].producer
    if move is None or not move.has(Trait.MOVES_ELEMENTS, Trait.EXTREMUM):
        return None
    if not _is_hoistable(node, move, readers) or len(move.outputs) != 1:
        return None
    x, *rest = move.inputs
    if not move.has(Trait.POOL) and upper_bound(x.type.size) > upper_bound(move.output.type.size):
        return None
    if move.has(Trait.EXTREMUM) and not node.inputs[1].data.reshape(()) > 0:
        return None
    return b.emit(move.op, [_quantized(b, node, x, move), *rest], move.name, **move.attrs)


def dequantizing(value: Value, reader: Node) -> Node | None:
    """Return the dequantize node of ``value``, if it runs whenever its reader does."""
    node = dequantize_of(value)
    return node if node is not None and node.guard in (None, reader.guard) else None


@at(Trait.MOVES_ELEMENTS, Trait.EXTREMUM)
def _sink_dequantize(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Replace (dequantize, move) by (move, dequantize)."""
    first = dequantizing(node.inputs[0], node)
    if first is None:
        return None
    q, scale, zero = first.inputs
    if node.has(Trait.EXTREMUM) and not (is_per_tensor(first) and scale.data.reshape(()) > 0):
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


@at("argmax", "argmin")
def _integer_argmax(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Return the index of an extremum from the integers."""
    first = dequantizing(node.inputs[0], node)
    if first is None or not is_per_tensor(first) or not first.inputs[1].data.reshape(()) > 0:
        return None
    if first.inputs[0].shape != node.inputs[0].shape:
        return None
    return b.emit(node.op, [first.inputs[0], *node.inputs[1:]], node.name, **node.attrs)


@at("resample")
def _repeat(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Replace resampling along an axis of one element by repetition."""
    x, _, weights = node.inputs
    if x.shape[node.attrs["axis"]] != 1 or weights.data is None:
        return None
    if not np.allclose(weights.data.sum(axis=1), 1.0, atol=1e-6):
        return None
    return b.emit("expand", [x], node.name, shape=node.output.shape)


def _sink_bound(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Move a bound before dequantising, if the integer type can represent it; omit one that no
    integer exceeds."""
    clamp = clamp_of(node)
    first = None if clamp is None else dequantizing(clamp.x, node)
    if first is None or not is_per_tensor(first) or first.inputs[0].shape != node.output.shape:
        return None
    q, scale, zero = first.inputs
    if q.dtype.bits > 16 or not scale.data.reshape(()) > 0:
        return None
    end = np.asarray(storage_range(q.dtype)[0 if clamp.is_lower else 1], q.dtype.numpy)
    beyond = dequantize_array(end, scale.data.reshape(()), zero.data.reshape(())) - clamp.limit
    if beyond >= 0 if clamp.is_lower else beyond <= 0:
        return clamp.x
    step = _stored(clamp.limit, first)
    if step is None:
        return None
    op = "max" if clamp.is_lower else "min"
    return b.emit("dequantize", [b.emit(op, [q, b.const(step)], node.name), scale, zero], node.name)


def _stored(scalar: np.ndarray, conversion: Node) -> np.ndarray | None:
    """Return the integer that represents a number exactly; None if there is none."""
    scale, zero = (v.data.reshape(()) for v in conversion.inputs[1:])
    step = quantize_array(scalar, scale, zero)
    return step if dequantize_array(step, scale, zero) == scalar else None


@at("concat")
def _sink_concat(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
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


@at("pad")
def _sink_pad(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
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


_MOVE = first_of(
    _cancel,
    _hoist_over_concat,
    _hoist_over_pad,
    _hoist,
    _sink_dequantize,
    _integer_argmax,
    _repeat,
    _sink_bound,
    _sink_concat,
    _sink_pad,
)
