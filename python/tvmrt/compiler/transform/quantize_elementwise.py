"""Elementwise operators and pooling between conversions, as int8 kernels.

Sums and products of two quantised tensors, averages, maxima, and functions of one tensor, which
become tables of 256 entries. Other operators remain: dequantise, compute, quantise in one loop.

Contract: as the literal computation in floating point; averages round their mean once.
"""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value, integer_form
from tvmrt.compiler.ir.quantized import INT8_TYPES, is_per_tensor
from tvmrt.compiler.ir.value_users import ValueUsers, clamp_of

from .move_quantize import dequantizing
from .quantize_matmuls import Bounds
from .rewrite import rewrite

MAX_TABLE_NODES = 32


def form_quantized_elementwise(graph: Graph) -> None:
    for rule in (_pool, _table_of_combined, _pair, _average, _tighten_bounds, _table):
        readers = ValueUsers(graph)
        rewrite(graph, lambda b, node, rule=rule, readers=readers: rule(b, node, readers))


def _pool(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Use the channels-last int8 kernel for a maximum, which needs no requantisation."""
    form = integer_form(node.operator) if node.has(Trait.EXTREMUM) else None
    if form is None or node.inputs[0].dtype.name not in INT8_TYPES:
        return None
    return b.emit(form.name, node.inputs, node.name, **node.attrs)


def _quantizes_tensor(node: Node) -> bool:
    """Return whether a node quantises to 8 bits with one scale."""
    return node.op == "quantize" and is_per_tensor(node) and node.output.dtype.name in INT8_TYPES


def _match_bounds(node: Node, readers: ValueUsers) -> tuple[Node, Bounds, list[str]] | None:
    """Return the node before a quantize node, the bounds between, and all source names."""
    if not _quantizes_tensor(node):
        return None
    if not (node.inputs[1].data > 0).all() or node.inputs[0].shape != node.output.shape:
        return None
    bounds, sources, value = Bounds(node), list(node.sources), node.inputs[0]
    while True:
        first = value.producer
        if first is None or first.guard != node.guard or readers.has_many(value):
            return None
        sources = [*first.sources, *sources]
        operands = [v for v in first.inputs if v is not None and not v.is_constant]
        if len(operands) != 1 or operands[0].shape != value.shape:
            return first, bounds, sources
        if not bounds.take(first, operands[0]):
            return first, bounds, sources
        value = operands[0]


def _operand(value: Value, reader: Node) -> tuple[Value, float, int] | None:
    """Return (int8 tensor, scale, zero point) of a node's operand."""
    node = dequantizing(value, reader)
    if node is None or not is_per_tensor(node) or node.inputs[0].dtype.name not in INT8_TYPES:
        return None
    q, scale, zero = node.inputs
    if q.is_constant or q.shape != value.shape or scale.dtype.name != "float32":
        return None
    return q, float(scale.data.reshape(())), int(zero.data.reshape(()))


def _result_attrs(bounds: Bounds) -> dict:
    return {**bounds.attrs(), "y_scale": float(bounds.scale.data.reshape(()))}


def _pair(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    bounded = _match_bounds(node, readers)
    if bounded is None:
        return None
    first, bounds, sources = bounded
    form = integer_form(first.operator) if first.has(Trait.ELEMENTWISE) else None
    if form is None or len(first.inputs) != 2:
        return None
    operands = [_operand(v, node) for v in first.inputs]
    if any(o is None or o[0].shape != node.output.shape for o in operands):
        return None
    (a, a_scale, a_zero), (c, b_scale, b_zero) = operands
    b.sources = tuple(dict.fromkeys(sources))
    sides = {"a_scale": a_scale, "a_zero": a_zero, "b_scale": b_scale, "b_zero": b_zero}
    return b.emit(form.name, [a, c], first.name, **sides, **_result_attrs(bounds))


def _average(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    bounded = _match_bounds(node, readers)
    if bounded is None:
        return None
    first, bounds, sources = bounded
    if not first.has(Trait.MEAN):
        return None
    if first.has(Trait.POOL):
        attrs = dict(first.attrs)
    elif _over_image(first):
        attrs = _covers_image(first)
    else:
        return None
    operand = _operand(first.inputs[0], node)
    if operand is None or operand[1] <= 0:
        return None
    x, x_scale, x_zero = operand
    b.sources = tuple(dict.fromkeys(sources))
    attrs.update(_result_attrs(bounds), x_scale=x_scale, x_zero=x_zero)
    return b.emit("qavg_pool", [x], first.name, **attrs)


def _over_image(node: Node) -> bool:
    rank = node.inputs[0].type.rank
    axes = tuple(node.attrs["axes"])
    return 3 <= rank <= 5 and axes == tuple(range(2, rank)) and bool(node.attrs["keepdims"])


def _covers_image(node: Node) -> dict:
    """Return attributes of an average pool with the whole image as its only window."""
    spatial = node.inputs[0].shape[2:]
    ones, zeros = (1,) * len(spatial), (0,) * len(spatial)
    steps = {"strides": ones, "dilations": ones, "pads_before": zeros, "pads_after": zeros}
    return {"kernel": spatial, **steps, "out_spatial": ones, "count_pads": 0}


def _tighten_bounds(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Fold a clamp of int8 values into the kernel that computes them."""
    clamp = clamp_of(node)
    if clamp is None or clamp.x.dtype.name not in INT8_TYPES:
        return None
    first = clamp.x.producer
    if first is None or "low" not in first.attrs or first.guard != node.guard:
        return None
    if readers.has_many(clamp.x):
        return None
    limit, attrs = max if clamp.is_lower else min, dict(first.attrs)
    attrs |= {key: limit(attrs[key], int(clamp.limit)) for key in ("low", "high")}
    b.sources = tuple(dict.fromkeys((*first.sources, *node.sources)))
    return b.emit(first.op, first.inputs, first.name, **attrs)


def _table_of_combined(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Fold a function of several tensors that are functions of one tensor, as x * sigmoid(x)."""
    shallow = _function(node, _is_bound)
    if shallow is None or len(shallow[1]) < 2:
        return None
    return _as_table(b, node, _function(node, _is_computed))


def _table(b: Builder, node: Node, readers: ValueUsers) -> Value | None:
    """Replace a function of one 8-bit tensor by a table of its results for all values."""
    return _as_table(b, node, _function(node, _is_bound))


def _as_table(b: Builder, node: Node, function) -> Value | None:
    if function is None or len(function[1]) != 1:
        return None
    nodes, (source,) = function
    if source.shape != node.output.shape:
        return None
    entries = _entries(node, source)
    b.sources = tuple(dict.fromkeys(s for n in reversed(nodes) for s in n.sources))
    table = b.const(entries.view(np.uint8), f"{node.name}_table")
    return b.emit("table", [source, table], node.name, to=node.output.dtype.name)


def _function(node: Node, through) -> tuple[list[Node], list[Value]] | None:
    """Return the elementwise nodes that compute a quantised result, and their int8 inputs.

    ``through(value)``: whether an int8 value is not an input but computed with the rest.
    """
    if not _quantizes_tensor(node):
        return None
    nodes, starts, stack = [], [], [node]
    while stack:
        each = stack.pop()
        if each in nodes:
            continue
        if not _is_function(each):
            return None
        if each.guard not in (None, node.guard) or each.output.shape != node.output.shape:
            return None
        if len(nodes) >= MAX_TABLE_NODES:
            return None
        nodes.append(each)
        for value in each.inputs:
            if value.is_constant and (value.type.size == 1 or each.op == "table"):
                continue
            if value.dtype.name in INT8_TYPES and not through(value):
                starts.append(value)
            elif value.producer is None:
                return None
            else:
                stack.append(value.producer)
    return nodes, list(dict.fromkeys(starts))


def _is_function(node: Node) -> bool:
    """Return whether a node computes elements from elements at the same index, in any type."""
    return node.has(Trait.ELEMENTWISE) and not node.operator.integer_of


def _is_computed(value: Value) -> bool:
    """Return whether an int8 value is computed elementwise."""
    node = value.producer
    return node is not None and _is_function(node)


def _is_bound(value: Value) -> bool:
    """Return whether an int8 value is another one with a bound."""
    node = value.producer
    return node is not None and node.has(Trait.LOWER_LIMIT, Trait.UPPER_LIMIT)


def _entries(node: Node, source: Value) -> np.ndarray:
    """Return the node's results for each of the 256 values of the source."""
    tables = {source: np.arange(256, dtype=np.uint8).view(source.dtype.numpy)}

    def value_of(value: Value) -> np.ndarray:
        if value not in tables:
            tables[value] = _evaluate(value, value_of)
        return tables[value]

    with np.errstate(all="ignore"):
        return np.ascontiguousarray(value_of(node.output))


def _evaluate(value: Value, value_of) -> np.ndarray:
    if value.is_constant:
        return value.data.reshape(()) if value.type.size == 1 else value.data
    node = value.producer
    arrays = [value_of(v) for v in node.inputs]
    (result,) = node.operator.evaluate(arrays, node.attrs)
    return np.broadcast_to(result, (256,)).astype(value.dtype.numpy)
