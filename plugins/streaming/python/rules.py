"""Which elements of an operator's result are new in each run, by its traits and attributes.

A rule returns the moving result, or None: then the operator is computed over whole windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from tvmrt.compiler.sdk.graph import POINTWISE, REDUCE, Node, Trait, Value
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .moving import Moving, Network, divided, name_of

Rule = Callable[[Network, Node], "Moving | None"]
_RULES: dict[str, Rule] = {}


def rule(*operators: str) -> Callable[[Rule], Rule]:
    """Decorate the rule of operators that have no trait that says how elements move."""

    def add(function: Rule) -> Rule:
        _RULES.update(dict.fromkeys(operators, function))
        return function

    return add


def rule_of(node: Node) -> Rule | None:
    """Return the rule of a node; None if it mixes elements in a way that is not known."""
    if node.op in _RULES:
        return _RULES[node.op]
    for trait, function in _BY_TRAIT:
        if node.has(trait):
            return function
    return _reduced if node.operator.kind == REDUCE else None


def _same_place(net: Network, node: Node) -> Moving | None:
    """Elementwise operators: all operands have their newest part at the same place."""
    xs = [net.moving[v] for v in node.inputs if v in net.moving]
    rank = len(node.output.shape)
    from_end = {x.axis - len(x.value.shape) for x in xs}
    if len(from_end) > 1 or any((x.extent, x.hop) != (xs[0].extent, xs[0].hop) for x in xs):
        return None
    axis = from_end.pop()
    if node.output.shape[axis] != xs[0].extent:
        return None
    for value in node.inputs:
        if value is None or value in net.moving:
            continue
        if not value.is_constant:
            return None  # it differs from run to run
        if _has_axis(node, value, axis) and not _is_even(value, axis):
            return None
    edge = max(xs, key=lambda x: x.edge)
    parts = [_part(net, v) for v in node.inputs]
    for i, value in enumerate(node.inputs):
        if value is not None and value.is_constant and _has_axis(node, value, axis):
            parts[i] = net.part(value, axis + len(value.shape), 0, 1, 1)
    (new,) = net.emit(node, parts)
    return Moving(new, axis + rank, xs[0].extent, xs[0].hop, edge.edge, edge.layer)


def _has_axis(node: Node, constant: Value, axis: int) -> bool:
    """Return whether a constant has the axis of the result, which counts from the end."""
    shape, result = constant.shape, node.output.shape
    if len(shape) < -axis or shape[axis] == 1:
        return False
    if node.operator.kind == POINTWISE:
        return True
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(result)))


def _part(net: Network, value: Value | None) -> Value | None:
    """Return the newest part of an operand, or an operand that does not move."""
    if value in net.moving:
        return net.moving[value].value
    return None if value is None else net.fixed.get(value, value)


def _on_part(net: Network, node: Node, axis: int, **changes: object) -> Moving | None:
    """Compute on the newest part of the first operand, the only one that moves."""
    x = net.moving.get(node.inputs[0])
    if x is None or len(node.outputs) != 1:
        return None
    if not all(v is None or v.is_constant for v in node.inputs[1:]):
        return None
    (new,) = net.emit(node, [_part(net, v) for v in node.inputs], **changes)
    return replace(x, value=new, axis=axis)


def _product(net: Network, node: Node) -> Moving | None:
    """Matrix products: rows and batches are independent."""
    x = net.moving.get(node.inputs[0])
    if x is None:
        return None
    rank, from_end = len(x.value.shape), x.axis - len(x.value.shape)
    weights = node.inputs[1]
    others = node.inputs[2:] if from_end == -2 else node.inputs[1:]
    if from_end == -1 or len(weights.shape) > rank or len(node.output.shape) != rank:
        return None
    if any(v is not None and len(v.shape) >= -from_end and v.shape[from_end] != 1 for v in others):
        return None
    return _on_part(net, node, x.axis)


def _window(net: Network, node: Node) -> Moving | None:
    """Convolutions and pools: the newest results read the newest windows."""
    x = net.moving.get(node.inputs[0])
    if x is None or x.axis == 0:
        return None if x is None else _on_part(net, node, 0)
    if x.axis == 1 or len(node.outputs) != 1:
        return None
    d, pool = x.axis - 2, node.has(Trait.POOL)
    taps = node.attrs["kernel"][d] if pool else node.inputs[1].shape[x.axis]
    stride, before = node.attrs["strides"][d], node.attrs["pads_before"][d]
    reach = (taps - 1) * node.attrs["dilations"][d] + 1
    extent = node.output.shape[x.axis]
    if extent == 1:
        return None
    hop = divided(x.hop, stride, node)
    beyond = (extent - 1) * stride - before + reach - x.extent  # the last window's end
    if beyond > 0:
        _refuse_end(net, node, before, beyond)
    edge = 0 if net.causal else -(-(x.edge + before) // stride)
    if hop > extent or edge > extent - hop:
        return None
    count = reach + (hop - 1) * stride + max(-beyond, 0)
    fill = _fill(node, pool, before or beyond > 0) if net.causal else 0
    if x.fill not in (None, fill) and (before or beyond > 0):
        raise UnsupportedError(
            f"{name_of(node)} pads a stream that is padded by another number, which has no causal "
            f"form; pad once"
        )
    newest = net.newest(node.inputs[0], count, fill)
    changes = {key: _at(node.attrs[key], d, 0) for key in ("pads_before", "pads_after")}
    if pool:
        changes["out_spatial"] = _at(node.attrs["out_spatial"], d, hop)
    (new,) = net.emit(node, [newest, *node.inputs[1:]], **changes)
    layer = name_of(node) if before else x.layer
    return Moving(new, x.axis, extent, hop, edge, layer)


def check_fill(net: Network, node: Node) -> None:
    """Raise UnsupportedError for a causal stream that is padded before an operator that would
    have to compute on the padding."""
    if node.has(Trait.CONVOLUTION, Trait.POOL, Trait.MOVES_ELEMENTS) or rule_of(node) is _pad:
        return
    for value in node.inputs:
        if value in net.moving and net.moving[value].fill is not None:
            raise UnsupportedError(
                f"{name_of(node)} reads a padded stream, which has no causal form; pad directly "
                f"in front of a convolution or pool"
            )


def _at(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    return tuple(value if i == index else each for i, each in enumerate(values))


def _refuse_end(net: Network, node: Node, before: int, after: int) -> None:
    """Raise UnsupportedError for padding at the end of the window, unless it may be moved."""
    if not net.causal:
        raise UnsupportedError(
            f"{name_of(node)} pads the streamed axis by {after} at its end, where new elements "
            f'enter; pad the start only, or add ",causal" to {option("stream")}: the nearest '
            f"causal form of the layer pads the start of the stream by {before + after} and the "
            f"end by 0, and its results lag by {after}"
        )


def _fill(node: Node, pool: bool, padded: bool) -> float:
    """Return the value of a window's padding, which precedes a causal stream."""
    if not padded:
        return 0
    x = node.inputs[0]
    if pool and node.has(Trait.EXTREMUM):
        return -np.inf if x.dtype.is_float else int(np.iinfo(x.dtype.numpy).min)
    if pool and not node.attrs.get("count_pads", True):
        raise UnsupportedError(
            f"{name_of(node)} is a mean that does not count padding, which has no causal form; "
            f"set count_include_pad"
        )
    return node.attrs.get("x_zero", 0)


def _concatenated(net: Network, node: Node) -> Moving | None:
    """Concatenations: along other axes part by part; along the axis, constants at the start."""
    xs = [net.moving[v] for v in node.inputs if v in net.moving]
    axis = node.attrs["axis"]
    if any((x.axis, x.extent, x.hop) != (xs[0].axis, xs[0].extent, xs[0].hop) for x in xs):
        return None
    if axis == xs[0].axis:
        return _padded_by_constants(net, node)
    if any(v not in net.moving and not _is_even(v, xs[0].axis) for v in node.inputs):
        return None
    parts = [
        _part(net, v) if v in net.moving else net.part(v, xs[0].axis, 0, 1, xs[0].hop)
        for v in node.inputs
    ]
    (new,) = net.emit(node, parts)
    return replace(max(xs, key=lambda x: x.edge), value=new)


def _is_even(value: Value, axis: int) -> bool:
    """Return whether the elements of a constant are equal along an axis."""
    return value.is_constant and bool((value.data == np.take(value.data, [0], axis)).all())


def _padded_by_constants(net: Network, node: Node) -> Moving | None:
    *first, last = node.inputs
    if last not in net.moving or not all(v.is_constant for v in first):
        return None
    count = sum(v.shape[node.attrs["axis"]] for v in first)
    numbers = {n.item() for v in first for n in np.unique(v.data)}
    if net.causal and len(numbers) > 1:
        return None
    padded = _after_padding(net, node, last, count)
    return replace(padded, fill=numbers.pop()) if net.causal and numbers else padded


def _after_padding(net: Network, node: Node, value: Value, before: int) -> Moving:
    x = net.moving[value]
    edge = 0 if net.causal else x.edge + before
    return replace(x, extent=node.output.shape[x.axis], edge=edge, layer=name_of(node))


@rule("pad")
def _pad(net: Network, node: Node) -> Moving | None:
    x = net.moving.get(node.inputs[0])
    if x is None:
        return None
    before, after = node.attrs["before"], node.attrs["after"]
    if after[x.axis]:
        _refuse_end(net, node, before[x.axis], after[x.axis])
    number = _constant_padding(node) if net.causal and (before[x.axis] or after[x.axis]) else None
    value = x.value
    if any(n for d, n in enumerate([*before, *after]) if d % len(before) != x.axis):
        changes = {"before": _at(before, x.axis, 0), "after": _at(after, x.axis, 0)}
        (value,) = net.emit(node, [value, *node.inputs[1:]], **changes)
    padded = _after_padding(net, node, node.inputs[0], before[x.axis])
    return replace(padded, value=value, fill=x.fill if number is None else number)


def _constant_padding(node: Node) -> float:
    """Return the number that pads a causal stream. Raise UnsupportedError for other padding."""
    fill = node.inputs[1] if len(node.inputs) > 1 else None
    if node.attrs["mode"] != "constant" or not (fill is None or fill.is_constant):
        raise UnsupportedError(
            f"{name_of(node)} pads the streamed axis by its own elements, which has no causal "
            f"form; pad with a constant"
        )
    return 0 if fill is None else fill.data.reshape(()).item()


@rule("transpose")
def _transpose(net: Network, node: Node) -> Moving | None:
    x = net.moving[node.inputs[0]]
    return _on_part(net, node, list(node.attrs["perm"]).index(x.axis))


@rule("reshape")
def _reshape(net: Network, node: Node) -> Moving | None:
    """Row-major order: the axis may be split, or joined with the axes after it."""
    x = net.moving[node.inputs[0]]
    old, new = list(node.inputs[0].shape), list(node.output.shape)
    outer, inner = prod(old[: x.axis]), prod(old[x.axis :])
    for axis in range(len(new)):
        if prod(new[:axis]) != outer or new[axis] == 1 != x.extent:
            continue
        unit = inner // new[axis]  # elements for each index of the new axis
        element = prod(old[x.axis + 1 :])
        hop = divided(x.hop * element, unit, node)
        changes = [*new[:axis], hop, *new[axis + 1 :]]
        moved = _on_part(net, node, axis, shape=changes)
        edge = -(-x.edge * element // unit)
        return moved and replace(moved, extent=new[axis], hop=hop, edge=edge)
    return None


@rule("expand")
def _expand(net: Network, node: Node) -> Moving | None:
    x = net.moving[node.inputs[0]]
    axis = x.axis + len(node.output.shape) - len(x.value.shape)
    if node.output.shape[axis] != x.extent:
        return None
    return _on_part(net, node, axis, shape=_at(node.attrs["shape"], axis, x.hop))


@rule("slice")
def _slice(net: Network, node: Node) -> Moving | None:
    x = net.moving[node.inputs[0]]
    start, step, size = (node.attrs[key][x.axis] for key in ("starts", "steps", "sizes"))
    if step < 1 or not isinstance(start, int):
        return None
    if (start, size) == (0, x.extent):
        return _on_part(net, node, x.axis, sizes=_at(node.attrs["sizes"], x.axis, x.hop))
    if size <= 1:
        return _fixed_part(net, node, x, start)
    hop = divided(x.hop, step, node)
    if hop > size:
        return _fixed_part(net, node, x, start)
    count = x.extent - start - (size - hop) * step
    newest = net.newest(node.inputs[0], count)
    changes = {
        "starts": _at(node.attrs["starts"], x.axis, 0),
        "sizes": _at(node.attrs["sizes"], x.axis, hop),
    }
    (new,) = net.emit(node, [newest], **changes)
    edge = max(0, -(-(x.edge - start) // step))
    return replace(x, value=new, extent=size, hop=hop, edge=edge)


def _fixed_part(net: Network, node: Node, x: Moving, start: int) -> None:
    """Slice elements that are all computed in each run, from no more than they need."""
    newest = net.newest(node.inputs[0], x.extent - start)
    starts = _at(node.attrs["starts"], x.axis, 0)
    net.fixed[node.output] = net.emit(node, [newest], starts=starts)[0]


@rule("gather")
def _gather(net: Network, node: Node) -> Moving | None:
    x, axis, indices = net.moving.get(node.inputs[0]), node.attrs["axis"], node.inputs[1]
    if x is None or not indices.is_constant:
        return None
    if axis != x.axis:
        return _on_part(net, node, x.axis if x.axis < axis else x.axis - 1 + len(indices.shape))
    places = np.where(indices.data < 0, indices.data + x.extent, indices.data)
    if not places.size or places.min() < 0:
        return None
    start = int(places.min())
    newest = net.newest(node.inputs[0], x.extent - start)
    shifted = net.builder.const((places - start).astype(indices.data.dtype), "places")
    net.fixed[node.output] = net.emit(node, [newest, shifted])[0]
    return None


def _reduced(net: Network, node: Node) -> Moving | None:
    x, axes = net.moving[node.inputs[0]], node.attrs["axes"]
    if x.axis in axes:
        return None
    before = 0 if node.attrs["keepdims"] else sum(axis < x.axis for axis in axes)
    return _on_part(net, node, x.axis - before)


@rule("softmax", "cumulative_sum", "cumulative_product")
def _along_another_axis(net: Network, node: Node) -> Moving | None:
    x = net.moving[node.inputs[0]]
    return None if node.attrs["axis"] == x.axis else _on_part(net, node, x.axis)


@rule("argmax", "argmin")
def _index_along_another_axis(net: Network, node: Node) -> Moving | None:
    x, axis = net.moving[node.inputs[0]], node.attrs["axis"]
    if axis == x.axis:
        return None
    return _on_part(net, node, x.axis - (axis < x.axis and not node.attrs["keepdims"]))


@rule("layer_norm")
def _over_later_axes(net: Network, node: Node) -> Moving | None:
    x = net.moving.get(node.inputs[0])
    return None if x is None or node.attrs["axis"] <= x.axis else _on_part(net, node, x.axis)


def _recurrent(net: Network, node: Node) -> Moving | None:
    """Recurrent cells start with each window; a causal cell keeps its state between runs."""
    x = net.moving.get(node.inputs[0])
    if not net.causal or x is None or x.axis != 0:
        return None
    names = [each.name for each in node.operator.contract.operands]
    operands = dict(zip(names, [*node.inputs, *[None] * (len(names) - len(node.inputs))]))
    if node.attrs["reverse"] or operands.get("lengths") is not None:
        raise UnsupportedError(
            f"{name_of(node)} reads the streamed axis from its end, which has no causal form; "
            f'leave ",causal" out of {option("stream")}, so that each run computes it over the '
            "whole window"
        )
    states = [("h0", 1)] + ([("c0", 2)] if "c0" in operands else [])
    numbers = []
    for name, result in states:
        first = operands[name]
        if first is None:
            first = net.builder.const(np.zeros(node.outputs[result].shape, np.float32), node.name)
        if not first.is_constant:
            return None
        numbers.append(net.states.add(first))
        operands[name] = net.states.current_value(numbers[-1])
    inputs = [_part(net, v) for v in operands.values()]
    results = net.emit(node, inputs)
    for number, (_, result) in zip(numbers, states):
        net.states.set(number, results[result])
    net.fixed.update(zip(node.outputs[1:], results[1:]))
    return replace(x, value=results[0])


_BY_TRAIT: tuple[tuple[Trait, Rule], ...] = (
    (Trait.ELEMENTWISE, _same_place),
    (Trait.CONVOLUTION, _window),
    (Trait.POOL, _window),
    (Trait.MATRIX_PRODUCT, _product),
    (Trait.CONCATENATES, _concatenated),
    (Trait.RECURRENT, _recurrent),
)
