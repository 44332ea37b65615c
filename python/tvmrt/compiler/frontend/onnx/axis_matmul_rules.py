"""Axis uses of matmul-like operators, reductions and selections, for ``axis_uses.py``."""

from __future__ import annotations

from typing import Any

import onnx

from .axis_extents import merge_axes
from .axis_uses import FIXED, Axes, Axis, AxisUses, axes_list, constant, operand, rule, set_axes


@rule("Gather")
def _gather(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    data, index = node.input[0], node.input[1]
    values, chosen = state.elements(data), state.elements(index)
    axes, index_axes = state.axes_of(data), state.axes_of(index)
    one_axis = axes is None or len(axes) < 2
    if values is not None and one_axis and chosen and all(isinstance(n, int) for n in chosen):
        state.values[node.output[0]] = [values[int(n)] for n in chosen]  # type: ignore[arg-type]
    if axes is None or index_axes is None:
        return
    at = attributes.get("axis", 0) % max(len(axes), 1)
    table = axes[at]
    if table.dims:
        _note_choice(state, (table,), index_axes)
    elif table.size is not None and index in state.positions:
        axis, first = state.positions[index]
        state.note_limit(axis, table.size - first)
    if not table.dims and len(index_axes) > 1:
        state.note(_lookup_axes(state, index_axes), sequence=True)
    set_axes(state, node, axes[:at] + index_axes + axes[at + 1 :])


def _lookup_axes(state: AxisUses, index_axes: Axes) -> Axes:
    """Return the axes along which words are looked up: those after the batch, which is the first
    axis unless the indices have been transposed."""
    later = tuple(axis for axis in index_axes if not any(state.uses[n].leading for n in axis.dims))
    return later if index_axes[0].dims and index_axes[0] in later else index_axes[1:]


def _note_choice(state: AxisUses, table: Axes, indices: Axes) -> None:
    """Note that elements along some axes are selected by indices. A mask of rows and columns is
    read by indices with an axis for each of the two; this mixes neither."""
    dims = frozenset[str]().union(*(axis.dims for axis in table))
    own = frozenset[str]().union(*(axis.dims for axis in indices if len(axis.dims) == 1))
    if len(dims) < 2 or not dims <= own:
        state.note([*table, *indices], mixed=True)


@rule("GatherElements", "GatherND", "ScatterElements", "ScatterND", "Scatter")
def _gather_elements(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes, index_axes = state.axes_of(node.input[0]), state.axes_of(node.input[1])
    if axes is None or index_axes is None:
        return
    by_axis = not node.op_type.endswith("ND")
    at = attributes.get("axis", 0) % max(len(axes), 1) if by_axis else 0
    indices = index_axes[at : at + 1] if by_axis else index_axes[:-1]
    if axes and axes[at].dims:
        count = 1 if by_axis or not index_axes else index_axes[-1].size or 1
        _note_choice(state, axes[at : at + count], indices)
    if node.op_type.startswith("Scatter"):
        set_axes(state, node, axes)
    elif by_axis:
        set_axes(state, node, index_axes)


@rule("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
       "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare")  # fmt: skip
def _reduce(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes, index_axes = state.axes_of(node.input[0]), axes_list(state, node, attributes)
    if axes is None or index_axes is None:
        return
    numbers = state.elements(node.input[0])
    if node.op_type == "ReduceProd" and numbers and len(axes) == 1 and None not in numbers:
        each = [n if isinstance(n, Axis) else constant(n) for n in numbers]
        whole = merge_axes(each)  # number of elements of a tensor of this shape
        state.values[node.output[0]] = [whole if whole.dims else whole.size]
    removed = {place % len(axes) for place in index_axes}
    if not index_axes and not attributes.get("noop_with_empty_axes", 0):
        removed = set(range(len(axes)))
    state.note([axes[i] for i in removed], mixed=True)
    kept = attributes.get("keepdims", 1)
    found = [
        constant(1) if i in removed else a for i, a in enumerate(axes) if kept or i not in removed
    ]
    set_axes(state, node, tuple(found))


@rule("ArgMax", "ArgMin")
def _arg(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    _reduce(state, node, {"keepdims": 1, **attributes, "axes": [attributes.get("axis", 0)]})


@rule("Softmax", "LogSoftmax", "Hardmax")
def _softmax(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes:
        state.note([axes[attributes.get("axis", -1) % len(axes)]], sequence=True)
    set_axes(state, node, axes)


@rule("CumSum")
def _cumsum(state: AxisUses, node: onnx.NodeProto, _: dict[str, Any]) -> None:
    axes, at = state.axes_of(node.input[0]), state.elements(operand(node, 1))
    if axes and at and isinstance(at[0], int):
        state.note([axes[at[0] % len(axes)]], sequence=True)
    set_axes(state, node, axes)


@rule("TopK")
def _topk(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    if axes:
        at = attributes.get("axis", -1) % len(axes)
        state.note([axes[at]], mixed=True)
        found = tuple(FIXED if i == at else a for i, a in enumerate(axes))
        set_axes(state, node, found)
        set_axes(state, node, found, 1)


def _note_sum(state: AxisUses, a: Axis, b: Axis, **use: bool) -> None:
    """Note a sum of products along two axes. If one axis is fixed, only an exactly known axis of a
    symbolic dimension can be the other one."""
    fixed = any(not axis.dims and (axis.size or 0) > 1 for axis in (a, b))
    state.note([axis for axis in (a, b) if axis.exact or not fixed], **use)
    if a.dims or b.dims:
        state.broadcast_axis(a, b)


@rule("MatMul", "MatMulInteger", "FusedMatMul", "QLinearMatMul", "DynamicQuantizeMatMul")
def _matmul(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    second = 3 if node.op_type == "QLinearMatMul" else 1
    a, b = state.axes_of(node.input[0]), state.axes_of(node.input[second])
    if not a or not b:
        return
    if attributes.get("transA"):
        a = (*a[:-2], a[-1], a[-2])
    if attributes.get("transB"):
        b = (*b[:-2], b[-1], b[-2])
    _note_sum(state, a[-1], b[-2] if len(b) > 1 else b[0], sequence=True)
    rank = max(len(a), len(b))
    rows = (a[-2],) if len(a) > 1 else ()
    columns = (b[-1],) if len(b) > 1 else ()
    batches = []
    for place in range(rank, 2, -1):
        pair = [axes[-place] if len(axes) >= place else constant(1) for axes in (a, b)]
        batches.append(state.broadcast_axis(*pair))
    set_axes(state, node, (*batches, *rows, *columns))


@rule("MatMulNBits", "MatMulBnb4")
def _matmul_packed(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axes = state.axes_of(node.input[0])
    set_axes(state, node, axes and (*axes[:-1], constant(attributes.get("N"))))


@rule("Gemm")
def _gemm(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    a, b = state.axes_of(node.input[0]), state.axes_of(node.input[1])
    if a and b and len(a) == len(b) == 2:
        rows, inner = a[::-1] if attributes.get("transA") else a
        other, columns = b[::-1] if attributes.get("transB") else b
        _note_sum(state, inner, other, mixed=True)
        set_axes(state, node, (rows, columns))


@rule("Einsum")
def _einsum(state: AxisUses, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    equation = attributes["equation"].decode().replace(" ", "")
    operands, _, result = equation.partition("->")
    if "." in equation or not result:
        return
    found: dict[str, Axis] = {}
    for name, labels in zip(node.input, operands.split(",")):
        axes = state.axes_of(name)
        for label, axis in zip(labels, axes or ()):
            found[label] = state.broadcast_axis(found[label], axis) if label in found else axis
    state.note([axis for label, axis in found.items() if label not in result], sequence=True)
    set_axes(state, node, tuple(found.get(label, FIXED) for label in result))
