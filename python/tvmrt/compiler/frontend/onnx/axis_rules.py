"""Axis uses of operators that move and rename axes, for ``axis_uses.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from .axis_extents import extent_of, inferred_axis, merge_axes
from .axis_uses import (
    FIXED,
    Axis,
    AxisUses,
    Element,
    axes_list,
    constant,
    operand,
    rule,
    set_axes,
    union,
)

MAX_RANK = 64  # maximum rank that a constant shape is tracked for


@rule("")
def _same_axes(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    """Rule for unknown operators: an operand of the result's rank passes its axes on."""
    name = operand(node, 0)
    rank = state.inferred.get(node.output[0]) if node.output else None
    axes = state.axes_of(name)
    if axes is None or (rank is not None and len(rank) != len(axes)):
        return
    if rank is None and node.domain not in ("", "ai.onnx", "com.microsoft"):
        return
    known = rank or (None,) * len(axes)
    kept = [
        axis if not isinstance(n, int) else constant(n) for axis, n in zip(axes, known)
    ]  # fmt: skip
    set_axes(state, node, tuple(kept))


_UNARY = (
    "Identity", "Cast", "CastLike", "Dropout", "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Not",
    "Floor", "Ceil", "Round", "DequantizeLinear", "QuantizeLinear", "Clip", "Trilu", "Gelu",
)  # fmt: skip


@rule(*_UNARY)
def _unary(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    name, out = node.input[0], node.output[0]
    set_axes(state, node, state.axes_of(name))
    if node.op_type in ("Identity", "Cast", "Floor", "Ceil", "Round"):
        values = state.elements(name)
        if values is not None:
            state.values[out] = list(values)
        if name in state.positions:
            state.positions[out] = state.positions[name]


_ELEMENTWISE = (
    "Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Mean", "Sum", "Mod", "Where", "Equal",
    "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor", "PRelu", "BitShift",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BiasGelu", "BiasSplitGelu", "FastGelu",
)  # fmt: skip


@rule(*_ELEMENTWISE)
def _elementwise(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    set_axes(state, node, state.broadcast(node.input))
    operands = node.input[1:] if node.op_type == "Where" else node.input
    parts = [state.elements(name) for name in operands]
    known = [part for part in parts if part]
    if known and len(known) == len(parts):
        count = max(map(len, known))
        rows = [part * count if len(part) == 1 else part for part in known]
        state.values[node.output[0]] = [
            _combine_elements(node.op_type, each) for each in zip(*rows)
        ]
    if node.op_type in ("Add", "Sub") and len(node.input) == 2:
        for name, other in (node.input, reversed(node.input)):
            added = state.read(other)
            if name in state.positions and added is not None and added.size == 1:
                axis, first = state.positions[name]
                more = int(added.reshape(-1)[0]) * (1 if node.op_type == "Add" else -1)
                state.positions[node.output[0]] = axis, first + more


def _combine_elements(op: str, numbers: Sequence[Element]) -> Element:
    """Compute an element of a shape from other elements."""
    axes = [n for n in numbers if isinstance(n, Axis)]
    if len(numbers) == 2 and all(isinstance(n, int) for n in numbers):
        a, b = (int(n) for n in numbers)  # type: ignore[arg-type]
        found = {
            "Where": b,
            "Add": a + b,
            "Sub": a - b,
            "Mul": a * b,
            "Max": max(a, b),
            "Min": min(a, b),
        }
        return a // b if op == "Div" and b else found.get(op)
    if op in ("Mul", "Div") and None not in numbers and len(numbers) == 2:
        return _product(op, [_axis_of(n) for n in numbers])
    if len(axes) == 1 and len(numbers) == 2:
        other = next(n for n in numbers if n is not axes[0])
        # an Expand keeps an axis if its shape has -1, which is not a valid extent
        if op in ("Max", "Min") or (op == "Where" and other == 1):
            return axes[0]
    return union(axes).inexact() if axes else None


def _product(op: str, pair: Sequence[Axis]) -> Axis:
    if op == "Mul":
        return merge_axes(pair)
    number, divisor = extent_of(pair[:1]), extent_of(pair[1:])
    found = number.divided_by(divisor) if number and divisor else None
    return found.axis() if found else union(pair).inexact()


@rule("QLinearAdd", "QLinearMul", "QLinearSub")
def _elementwise_quantized(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    set_axes(state, node, state.broadcast([node.input[0], node.input[3]]))


# ---- extents as elements of tensors ----


@rule("Shape")
def _shape(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is None:
        return
    chosen = axes[attributes.get("start", 0) : attributes.get("end", len(axes))]
    state.values[node.output[0]] = [_element_of(axis) for axis in chosen]
    state.axes[node.output[0]] = (constant(len(chosen)),)


@rule("Size")
def _size(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    state.axes[node.output[0]] = ()
    if axes is not None:
        state.values[node.output[0]] = [_element_of(merge_axes(axes))]


@rule("Range")
def _range(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    start, end = state.elements(node.input[0]), state.elements(node.input[1])
    last = end[0] if end else None
    if isinstance(last, Axis):
        exact = bool(start) and start == [0]
        state.axes[node.output[0]] = (replace(last, exact=last.exact and exact),)
        state.positions[node.output[0]] = last, 0
    else:
        state.axes[node.output[0]] = (FIXED,)


@rule("ConstantOfShape")
def _constant_of_shape(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    shape = state.elements(node.input[0])
    if shape is None:
        return
    set_axes(state, node, tuple(map(_axis_of, shape)))
    value = numpy_helper.to_array(attributes["value"]) if "value" in attributes else np.zeros(1)
    if len(shape) == 1 and isinstance(shape[0], int) and 0 <= shape[0] <= MAX_RANK:
        state.values[node.output[0]] = [int(value.reshape(-1)[0])] * shape[0]


def _axis_of(element: Element) -> Axis:
    return element if isinstance(element, Axis) else constant(element)


def _element_of(axis: Axis) -> Element:
    return axis if axis.dims else axis.size


@rule("Expand")
def _expand(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes, shape = state.axes_of(node.input[0]), state.elements(node.input[1])
    if axes is None or shape is None:
        return
    rank = max(len(axes), len(shape))
    ones = (constant(1),)
    old = ones * (rank - len(axes)) + axes
    new = ones * (rank - len(shape)) + tuple(map(_axis_of, shape))
    set_axes(state, node, tuple(a if a.dims else b if b.dims or b.size != 1 else a
                            for a, b in zip(old, new)))  # fmt: skip
    if node.input[0] in state.positions:
        state.positions[node.output[0]] = state.positions[node.input[0]]


# ---- moved axes ----


@rule("Transpose")
def _transpose(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is not None:
        order = attributes.get("perm") or range(len(axes) - 1, -1, -1)
        set_axes(state, node, tuple(axes[i] for i in order))
        numbers = state.integer_array(node.input[0])
        if numbers is not None:
            state.values[node.output[0]] = numbers.transpose(order).reshape(-1).tolist()


@rule("Unsqueeze")
def _unsqueeze(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    name, out = node.input[0], node.output[0]
    axes, axis_indices = state.axes_of(name), axes_list(state, node, attributes)
    if axes is not None and axis_indices is not None:
        rank = len(axes) + len(axis_indices)
        new = {axis_index % rank for axis_index in axis_indices}
        remaining = iter(axes)
        set_axes(
            state, node, tuple(constant(1) if i in new else next(remaining) for i in range(rank))
        )
    _propagate_values(state, name, out)


@rule("Squeeze")
def _squeeze(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    name, out = node.input[0], node.output[0]
    axes, axis_indices = state.axes_of(name), axes_list(state, node, attributes)
    if axes is not None and axis_indices is not None:
        removed = {p % len(axes) for p in axis_indices} if axis_indices else {
            i for i, axis in enumerate(axes) if not axis.dims and axis.size == 1
        }  # fmt: skip
        set_axes(state, node, tuple(a for i, a in enumerate(axes) if i not in removed))
    _propagate_values(state, name, out)


def _propagate_values(state: AxisUses, name: str, out: str) -> None:
    values = state.elements(name)
    if values is not None:
        state.values[out] = values
    if name in state.positions:
        state.positions[out] = state.positions[name]


@rule("Flatten")
def _flatten(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is not None:
        cut = attributes.get("axis", 1) % (len(axes) + 1)
        set_axes(state, node, (merge_axes(axes[:cut]), merge_axes(axes[cut:])))


@rule("Reshape")
def _reshape(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    name, out = node.input[0], node.output[0]
    axes = state.axes_of(name)
    shape: Sequence[Element] | None = attributes.get("shape") or state.elements(operand(node, 1))
    _propagate_values(state, name, out)
    if axes is None or shape is None:
        return
    found: list[Axis | None] = []
    copies = not attributes.get("allowzero", 0)
    for axis_index, element in enumerate(shape):
        if element == 0 and copies and axis_index < len(axes):
            found.append(axes[axis_index])
        elif isinstance(element, int) and element != -1:
            found.append(constant(element))
        else:
            found.append(element if isinstance(element, Axis) else None)
    known = [axis for axis in found if axis is not None]
    remaining = inferred_axis(axes, known)
    if len(found) - len(known) > 1:  # several unknown elements
        remaining = remaining.inexact()
    set_axes(state, node, tuple(remaining if axis is None else axis for axis in found))


@rule("Concat")
def _concat(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    out = node.output[0]
    parts = [state.elements(name) for name in node.input]
    if all(part is not None for part in parts):
        state.values[out] = [n for part in parts for n in part or ()]
    known = [axes for axes in map(state.axes_of, node.input) if axes is not None]
    if not known:
        return
    rank = len(known[0])
    at = attributes.get("axis", 1) % rank if rank else 0
    known = [axes for axes in known if len(axes) == rank]
    for name, axes in zip(node.input, map(state.axes_of, node.input)):
        if axes is not None and len(axes) == rank and name in state.inputs and len(parts) > 1:
            state.note([axes[at]], concatenated=True)
    found = []
    for axis_index in range(rank):
        column = [axes[axis_index] for axes in known]
        if axis_index != at:
            met = column[0]
            for axis in column[1:]:
                met = state.broadcast_axis(met, axis)
            found.append(met)
        elif any(axis.dims for axis in column):
            found.append(column[0] if len(node.input) == 1 else union(column).inexact())
        else:
            sizes = [axis.size or 0 for axis in column if axis.size is not None]
            found.append(constant(sum(sizes) if len(sizes) == len(node.input) else None))
    set_axes(state, node, tuple(found))


@rule("Split")
def _split(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes is None:
        return
    at, count = attributes.get("axis", 0) % len(axes), len(node.output)
    name = operand(node, 1)
    parts: Sequence[Element] | None = attributes.get("split") or state.elements(name)
    size = axes[at].size
    if not parts and not name and size is not None:
        most = -(-size // count)
        parts = [most] * (count - 1) + [size - most * (count - 1)]
    for axis_index in range(count):
        cut = axes[at].inexact()
        if not axes[at].dims and parts and len(parts) == count:
            cut = _axis_of(parts[axis_index])
        set_axes(state, node, (*axes[:at], cut, *axes[at + 1 :]), axis_index)


@rule("Slice")
def _slice(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    name, out = node.input[0], node.output[0]
    starts = attributes.get("starts") or state.elements(operand(node, 1))
    ends = attributes.get("ends") or state.elements(operand(node, 2))
    axis_indices = axes_list(state, node, attributes, 3)
    steps = state.elements(operand(node, 4)) if operand(node, 4) else None
    axes = state.axes_of(name)
    if axes is None:
        return
    if axis_indices is None:
        return set_axes(state, node, tuple(a.inexact() for a in axes))
    _slice_values(state, node, (starts, ends, steps), axis_indices)
    found = list(axes)
    for i, axis_index in enumerate(axis_indices or range(len(ends or ()))):
        end = ends[i] if ends else None
        start = starts[i] if starts else None
        step = steps[i] if steps else 1
        found[axis_index % len(axes)] = _slice_axis(
            state, axes[axis_index % len(axes)], start, end, step
        )
    set_axes(state, node, tuple(found))
    if name in state.positions:
        state.positions[out] = state.positions[name]


def _slice_axis(state: AxisUses, axis: Axis, start: Element, end: Element, step: Element) -> Axis:
    if isinstance(end, Axis) and end.dims:
        if not axis.dims and axis.size is not None:
            state.note_limit(end, axis.size)
        return end if start == 0 else end.inexact()
    if not axis.dims:
        if axis.size is None or not step:
            return constant(None)
        if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
            return constant(len(range(axis.size)[slice(start, end, step)]))
        return constant(None)
    if not isinstance(start, int) or not isinstance(end, int) or end < 1 << 30:
        return axis.inexact()
    if isinstance(step, int) and 0 <= start < step:  # every step-th element
        return axis.after_window(start + 1, step) if step > 1 else axis
    return axis.inexact()


def _slice_values(
    state: AxisUses, node: onnx.NodeProto, bounds: Sequence[Any], axis_indices: list[int] | None
) -> None:
    numbers = state.integer_array(node.input[0])
    starts, ends, steps = bounds
    if numbers is None or not starts or not ends:
        return
    chosen = [slice(None)] * numbers.ndim
    for i, axis_index in enumerate(axis_indices or range(len(ends))):
        part = starts[i], ends[i], (steps or [1] * len(ends))[i]
        if not all(isinstance(n, int) for n in part):
            return
        chosen[axis_index] = slice(*part)
    state.values[node.output[0]] = numbers[tuple(chosen)].reshape(-1).tolist()


@rule("Tile")
def _tile(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes, times = state.axes_of(node.input[0]), state.elements(operand(node, 1))
    if axes is None or times is None or len(times) != len(axes):
        return
    found = []
    for axis, count in zip(axes, times):
        if isinstance(count, Axis) and count.dims:
            found.append(count if not axis.dims and axis.size == 1 else union([axis, count]))
        elif count == 1:
            found.append(axis)
        elif isinstance(count, int) and count > 0:
            found.append(merge_axes([axis, constant(count)]))
        else:
            found.append(axis.inexact())
    set_axes(state, node, tuple(found))


@rule("Pad")
def _pad(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    pads = attributes.get("pads") or state.elements(operand(node, 1))
    if axes is None:
        return
    if pads is None or len(pads) != 2 * len(axes) or not all(isinstance(n, int) for n in pads):
        return set_axes(state, node, tuple(a.inexact() for a in axes))
    found = []
    for axis, before, after in zip(axes, pads, pads[len(axes) :]):
        more = before + after
        size = None if axis.size is None else axis.size + more
        moved = replace(axis, window=axis.window - axis.step * more, size=size)
        found.append(moved if more else axis)
    set_axes(state, node, tuple(found))
