"""Sequence values and optional values.

They exist only in the importer: a sequence is a list of values, and its operators return lists or
tensors. A sequence of data-dependent length is a tensor with its elements, which have equal types,
along the first axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import Extent, SymInt, data_dependent_symbols, sym_sum
from tvmrt.compiler.ir.sizes.assumptions import are_equal
from tvmrt.error import UnsupportedError

from .conditionals import presence
from .context import NodeContext
from .registry import onnx_op
from .sequence_values import (
    NON_TENSOR_TYPES,
    SEQUENCE_TYPES,
    AbsentOptional,
    AppendedSequence,
    DynamicOptional,
    DynamicTensorList,
    OnnxValue,
    PackedSequence,
    StackedSequence,
    TensorList,
)
from .tensor_expressions import TensorExpr, require

# Operators on sequences and optional values.
_SEQUENCE_OPERATORS = {
    "ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
    "SequenceMap", "SplitToSequence",
}  # fmt: skip
_PASS_THROUGH = {"Identity", "If", "Loop"}


def is_sequence_node(op: str, inputs: Sequence[OnnxValue | None]) -> bool:
    """Return whether a node is a sequence or optional operator, or has such an operand.

    Raises UnsupportedError if the operator does not accept such an operand.
    """
    non_tensors = [v for v in inputs if isinstance(v, NON_TENSOR_TYPES)]
    if non_tensors and op not in _SEQUENCE_OPERATORS and op not in _PASS_THROUGH:
        raise UnsupportedError("an operand is a sequence or an optional value; it takes tensors")
    return bool(non_tensors) or op in _SEQUENCE_OPERATORS


def known_sequence(ctx: NodeContext) -> TensorList:
    """Return the first operand, a sequence of known length."""
    result = _sequence(ctx)
    if not isinstance(result, TensorList):
        raise UnsupportedError("the length of the sequence is known only at run time")
    return result


def _sequence(ctx: NodeContext) -> Any:
    result = ctx.required(0)
    if not isinstance(result, SEQUENCE_TYPES):
        raise ValueError(f"input 0 is {result!r}, expected a sequence")
    return result


def stack_elements(ctx: NodeContext, sequence: OnnxValue) -> Value | None:
    """Stack the elements along a new first axis; None without elements. Raises UnsupportedError if
    their types differ."""
    if isinstance(sequence, StackedSequence):
        return sequence.value
    if not isinstance(sequence, TensorList):
        raise UnsupportedError("the length of the sequence is known only at run time")
    if not sequence.values:
        return None
    if len({v.type for v in sequence.values if isinstance(v, Value)}) != 1:
        raise UnsupportedError("the elements of the sequence have different types")
    return ctx.emit("concat", [ctx.unsqueeze(v, 0) for v in sequence.values], axis=0)


def extend_sequence(
    ctx: NodeContext, before: TensorList | StackedSequence, more: Value
) -> StackedSequence:
    """Append the elements along the first axis of ``more`` to a sequence."""
    first = stack_elements(ctx, before)
    if first is None:
        return StackedSequence(more)
    if first.shape[1:] != more.shape[1:]:
        raise UnsupportedError("the elements of the sequence have different types")
    return StackedSequence(ctx.emit("concat", [first, more], axis=0))


@onnx_op("SequenceEmpty")
def empty(ctx: NodeContext) -> list:
    return [TensorList([])]


@onnx_op("SequenceConstruct")
def construct(ctx: NodeContext) -> list:
    return [TensorList([ctx.required(i) for i in range(len(ctx.inputs))])]


def _position(ctx: NodeContext, index: int, count: int, last: int) -> int:
    """Return a non-negative position, at most ``last``, which is the default."""
    if ctx.input(index) is None:
        return last
    (position,) = ctx.int_operand(index, "the position")
    result = position + count if position < 0 else position
    if not 0 <= result <= last:
        raise ValueError(f"position {position} is outside a sequence of {count}")
    return result


@onnx_op("SequenceInsert")
def insert(ctx: NodeContext) -> list:
    sequence, more = _sequence(ctx), ctx.required(1)
    if isinstance(sequence, AppendedSequence) and ctx.input(2) is None:
        return [AppendedSequence([*sequence.values, more])]
    if isinstance(sequence, StackedSequence) and ctx.input(2) is None:
        if sequence.value.shape[1:] == more.shape:
            return [extend_sequence(ctx, sequence, ctx.unsqueeze(more, 0))]
    if isinstance(sequence, (StackedSequence, PackedSequence)):
        packed = _packed(ctx, sequence, more)
        at, start = _elements_before(ctx, packed, 2, packed.sizes.shape[0] + 1)
        size = ctx.integer_tensor(np.asarray([more.shape[packed.axis]], object))
        value = _joined(packed.value, more, packed.axis, start)
        return [PackedSequence(value, packed.axis, _joined(packed.sizes, size, 0, at))]
    values = list(known_sequence(ctx).values)
    values.insert(_position(ctx, 2, len(values), len(values)), more)
    return [TensorList(values)]


@onnx_op("SequenceErase")
def erase(ctx: NodeContext) -> list:
    values = list(known_sequence(ctx).values)
    del values[_position(ctx, 1, len(values), len(values) - 1)]
    return [TensorList(values)]


@onnx_op("SequenceAt")
def at(ctx: NodeContext) -> list:
    sequence = _sequence(ctx)
    if isinstance(sequence, TensorList) and (
        not ctx.is_computed(1) or len({v.type for v in sequence.values}) > 1
    ):
        count = len(sequence.values)
        return [sequence.values[_position(ctx, 1, count, count - 1)]]
    if isinstance(sequence, PackedSequence):
        at, start = _elements_before(ctx, sequence, 1, sequence.sizes.shape[0])
        size = ctx.reshape(ctx.emit("gather", [sequence.sizes, at.value], axis=0), ())
        most = sequence.value.shape[sequence.axis]
        places = TensorExpr(ctx, ctx.iota(ctx.data_dependent_extent(size, 0, most, "size"))) + start
        return [ctx.emit("gather", [sequence.value, places.value], axis=sequence.axis)]
    stack = stack_elements(ctx, sequence)
    if stack is None:
        raise ValueError("an empty sequence has no elements")
    index = ctx.cast(ctx.reshape(ctx.required(1), ()), "int64")
    return [ctx.emit("gather", [stack, index], axis=0)]


@onnx_op("SequenceLength")
def length(ctx: NodeContext) -> Value:
    sequence = _sequence(ctx)
    if isinstance(sequence, DynamicTensorList):
        return sequence.count
    if isinstance(sequence, (StackedSequence, PackedSequence)):
        is_stacked = isinstance(sequence, StackedSequence)
        count = (sequence.value if is_stacked else sequence.sizes).shape[0]
    else:
        count = len(known_sequence(ctx).values)
    return ctx.integer_tensor(np.asarray(count, object))


def _packed(
    ctx: NodeContext, sequence: StackedSequence | PackedSequence, more: Value
) -> PackedSequence:
    """Return a sequence as one of elements that may differ along the axis along which ``more``
    does. Raises UnsupportedError if elements differ along several axes."""
    is_stacked = isinstance(sequence, StackedSequence)
    shape = sequence.value.shape[is_stacked:]
    axes = [d for d, (n, m) in enumerate(zip(shape, more.shape)) if n != m]
    axis = (axes or [0])[0] if is_stacked else sequence.axis
    if any(d != axis for d in axes) or len(shape) != len(more.shape) or not shape:
        raise UnsupportedError("the elements of the sequence have different types")
    if not is_stacked:
        return sequence
    size = ctx.integer_tensor(np.asarray([shape[axis]], object))
    sizes = ctx.expand(size, sequence.value.shape[:1])
    return PackedSequence(_concat_stacked(ctx, sequence.value, axis, False), axis, sizes)


def _elements_before(ctx: NodeContext, packed: PackedSequence, index: int, count: SymInt) -> tuple:
    """Return the position that an operand selects among ``count``, and the number of elements of
    the joined tensor before it. A run with another position ends with an error."""
    last = ctx.integer_tensor(np.asarray([count - 1], object))
    given = TensorExpr.from_integer(ctx, ctx.input(index) or last).reshape(1)
    at = given.normalize_negative(packed.sizes.shape[0])
    fits = (at >= 0).logical_and(at < count).cast("int64")
    require(fits, [1], given.value, "the position", "a position in the sequence")
    before = TensorExpr(ctx, ctx.iota(packed.sizes.shape[0])) < at
    return at, before.where(TensorExpr(ctx, packed.sizes), 0).reduce("reduce_sum")


def _joined(x: Value, more: Value, axis: int, start: TensorExpr) -> Value:
    """Insert a tensor before the element ``start`` of an axis."""
    ctx, before, added = start.ctx, x.shape[axis], more.shape[axis]
    places = TensorExpr(ctx, ctx.iota(before + added))
    inside = places - start + before
    places = (places < start).where(places, (places < start + added).where(inside, places - added))
    return ctx.emit("gather", [ctx.concat([x, more], axis), places.value], axis=axis)


def stack_iterations(ctx: NodeContext, values: Sequence[Value | None], axis: int) -> Value | None:
    """Stack the results of all loop iterations along a new axis."""
    if not values:
        raise UnsupportedError("the result shapes of a loop without iterations are unknown")
    if any(v is None for v in values):
        return None
    axis = normalize_axis(axis, len(values[0].shape) + 1)
    return ctx.concat([ctx.unsqueeze(v, axis) for v in values], axis)


def move_axis(ctx: NodeContext, value: Value, start: int, end: int) -> Value:
    """Move an axis to another index."""
    rank = len(value.shape)
    order = [d for d in range(rank) if d != start]
    order.insert(normalize_axis(end, rank), start)
    return ctx.transpose(value, order)


@onnx_op("ConcatFromSequence")
def concatenate(ctx: NodeContext) -> Value:
    sequence, axis = _sequence(ctx), ctx.attr("axis")
    if isinstance(sequence, StackedSequence):
        return _concat_stacked(ctx, sequence.value, axis, bool(ctx.attr("new_axis", 0)))
    if isinstance(sequence, PackedSequence):
        if ctx.attr("new_axis", 0) or axis % len(sequence.value.shape) != sequence.axis:
            raise UnsupportedError(f"the elements of the sequence differ in axis {sequence.axis}")
        return sequence.value
    is_dynamic = isinstance(sequence, DynamicTensorList)  # the other elements are empty
    values = (sequence if is_dynamic else known_sequence(ctx)).values
    if not values:
        raise UnsupportedError("the shape of the concatenation of an empty sequence is unknown")
    is_new = bool(ctx.attr("new_axis", 0))
    axis = normalize_axis(axis, len(values[0].shape) + is_new)
    return ctx.concat([ctx.unsqueeze(v, axis) for v in values] if is_new else values, axis)


def _concat_stacked(ctx: NodeContext, value: Value, axis: int, new: bool) -> Value:
    """Move the first axis to another index, or merge it into that axis."""
    axis = normalize_axis(axis, len(value.shape) - (not new))
    moved = move_axis(ctx, value, 0, axis)
    if not new:
        shape = moved.shape
        moved = ctx.reshape(
            moved, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        )
    return moved


@onnx_op("SplitToSequence")
def split(ctx: NodeContext) -> list:
    x, given = ctx.required(0), ctx.input(1)
    axis = normalize_axis(ctx.attr("axis", 0), len(x.shape))
    extent = x.shape[axis]
    sizes = [1] if given is None else ctx.list_operand(1, "the split", 0)
    if given is not None and given.shape:
        if not are_equal(sym_sum(sizes), extent) or any(n < 0 for n in sizes):
            raise ValueError(f"the parts {sizes} do not add up to an axis of {extent}")
    elif sizes[0] < 1:
        raise ValueError(f"parts of {sizes[0]} elements do not divide an axis of {extent}")
    elif isinstance(extent, Extent):
        return [_split_dynamic(ctx, x, axis, sizes[0])]
    else:
        ctx.check_table_size(ceil_div(extent, sizes[0]), "the sequence")
        sizes = [min(sizes[0], extent - start) for start in range(0, extent, sizes[0])]
    parts, start = [], 0
    for size in sizes:
        part = ctx.slice_axis(x, axis, start, size)
        if given is None and not ctx.attr("keepdims", 1):
            part = ctx.reshape(part, (*x.shape[:axis], *x.shape[axis + 1 :]))
        parts.append(part)
        start += size
    return [TensorList(parts)]


def _split_dynamic(
    ctx: NodeContext, x: Value, axis: int, size: int
) -> StackedSequence | PackedSequence:
    """Return parts of equal size of a dynamic axis. The last one may be smaller only if a run finds
    the extent, or if parts of one size are impossible."""
    extent = x.shape[axis]
    equal = extent // size * size
    if equal != extent and (data_dependent_symbols(extent) or not are_equal(equal, extent)):
        starts = TensorExpr(ctx, ctx.iota(ceil_div(extent, size))) * size
        return PackedSequence(x, axis, (starts * -1 + extent).minimum(size).value)
    shape = [*x.shape[:axis], extent // size, size, *x.shape[axis + 1 :]]
    if ctx.input(1) is None and not ctx.attr("keepdims", 1):
        del shape[axis + 1]
    return StackedSequence(move_axis(ctx, ctx.reshape(x, shape), axis, 0))


@onnx_op("SequenceMap")
def sequence_map(ctx: NodeContext) -> list:
    body, count = ctx.attr("body"), len(known_sequence(ctx).values)
    columns: list[list] = [[] for _ in body.output]
    for index in ctx.importer.functions.budget.iterations("SequenceMap", count, body):
        inputs = [v.values[index] if isinstance(v, TensorList) else v for v in ctx.inputs]
        results = ctx.importer.import_branch(body, ctx.scope, inputs=inputs)
        for column, value in zip(columns, results):
            column.append(value)
    return [None if None in column else TensorList(column) for column in columns]


@onnx_op("Optional")
def optional(ctx: NodeContext) -> list:
    element = ctx.input(0)
    return [AbsentOptional() if element is None else element]


@onnx_op("OptionalHasElement")
def has_element(ctx: NodeContext) -> Value:
    return presence(ctx, ctx.input(0))


@onnx_op("OptionalGetElement")
def get_element(ctx: NodeContext) -> list:
    element = ctx.required(0)
    if isinstance(element, AbsentOptional):
        raise ValueError("the optional value is missing")
    if isinstance(element, DynamicOptional):
        there = TensorExpr.from_integer(ctx, element.is_present).reshape(1)
        require(there, [1], element.is_present, "input", "an optional value that is present")
        return [element.value]
    return [element]
