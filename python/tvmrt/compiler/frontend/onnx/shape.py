"""Shape operators, layout changes, concatenation and slicing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from math import prod
from operator import ge, gt

import numpy as np

from tvmrt.compiler.frontend.shapes import infer_extent, slice_range
from tvmrt.compiler.ir import Value, broadcast
from tvmrt.compiler.ir.contract import ContractError
from tvmrt.compiler.ir.limits import FREE_PARTS, MAX_OPEN_PARTS
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import (
    SymInt,
    bounds,
    data_dependent_symbols,
    lower_bound,
    sym_max,
    sym_min,
    sym_sum,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.assumptions import (
    are_equal,
    assume_sign_before_run,
    is_at_least,
    note_concatenated,
)
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent, deciding_by, statically_known_true
from tvmrt.error import UnsupportedError

from . import computed_sizes, dynamic_reshape, dynamic_slice
from .alternatives import squeeze_dynamic
from .context import NodeContext
from .dynamic_broadcast import common_extent, repeat
from .dynamic_reshape import resolve_zero_extents
from .dynamic_sizes import evaluate_extents, found_extents, has_runtime_operand, strip_cast
from .elementwise import element_type
from .import_state import Checkpoint
from .registry import onnx_op
from .sequence_values import OnnxValue
from .tensors import array_of, constant_tensor


@onnx_op("Constant")
def constant(ctx: NodeContext) -> Value:
    tensor = constant_tensor(ctx.node)
    if tensor is None:
        raise ValueError("the constant has no value; export the model again")
    return ctx.const(array_of(tensor))


@onnx_op("Shape")
def shape(ctx: NodeContext) -> Value:
    extents = np.asarray(ctx.required(0).shape, object)
    return ctx.integer_tensor(extents[slice(ctx.attr("start", 0), ctx.attr("end"))])


@onnx_op("Size")
def size(ctx: NodeContext) -> Value:
    return ctx.integer_tensor(np.asarray(ctx.required(0).type.size, object))


@onnx_op("ConstantOfShape")
def constant_of_shape(ctx: NodeContext) -> Value:
    value = np.asarray(ctx.attr("value", np.zeros(1, np.float32)))
    number = ctx.const(value.reshape(()))
    return ctx.expand(number, ctx.int_operand(0, "the shape"))


@onnx_op("Range")
def range_(ctx: NodeContext) -> Value:
    names = ("start", "limit", "delta")
    if any(ctx.input(i) is None for i in range(len(names))):
        raise ValueError("start, limit or delta is missing")
    if any(value.data is None for value in ctx.inputs):
        ends = _integer_operands(ctx)
        if ends is not None:
            return _range_of_extents(ctx, *ends)
        count = computed_sizes.range_length(ctx)
        if count is None:
            return dynamic_slice.import_range(ctx)
        return dynamic_slice.range_elements(ctx, count)
    start, limit, delta = (
        ctx.constant_operand(i, name).reshape(()) for i, name in enumerate(names)
    )
    if delta == 0 or not np.isfinite((start, limit, delta)).all():
        raise ValueError(f"a range from {start} to {limit} by {delta} is infinite")
    count = ctx.check_table_size(max(int(np.ceil((limit - start) / delta)), 0), "the range")
    return ctx.const(start + np.arange(count) * delta, start.dtype)


def _integer_operands(ctx: NodeContext) -> list[SymInt] | None:
    """Return start, limit and delta if all are integers or extents, possibly cast to float."""
    result: list[SymInt] = []
    for value in ctx.inputs:
        if value.data is not None:
            number = value.data.item()
            if number != number // 1:
                return None
            result.append(int(number))
            continue
        elements = evaluate_extents(ctx, strip_cast(value))
        if elements is None:
            return None
        result.append(elements.item())
    return result


def _range_of_extents(ctx: NodeContext, start: SymInt, limit: SymInt, delta: SymInt) -> Value:
    low, high = bounds(delta)
    if low <= 0 <= high:
        return dynamic_slice.import_range(ctx)
    interleaved_shape, step = (limit - start, delta) if low > 0 else (start - limit, -delta)
    try:
        with deciding_by(None):
            count = sym_max(0, ceil_div(interleaved_shape, step))
    except UndecidedExtent:
        return dynamic_slice.import_range(
            ctx, max(ceil_div(upper_bound(interleaved_shape), lower_bound(step)), 0)
        )
    dtype = ctx.required(0).dtype.name
    if isinstance(delta, int):
        return ctx.cast(ctx.iota(count, start, delta), dtype)
    by, first = (ctx.integer_tensor(np.asarray(n, object)) for n in (delta, start))
    return ctx.cast(ctx.add_optional(ctx.emit("mul", [ctx.iota(count), by]), first), dtype)


@onnx_op("EyeLike")
def eye_like(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    rows, columns = x.shape
    if symbols_of(rows, columns):
        row = ctx.reshape(ctx.iota(rows, ctx.attr("k", 0)), (rows, 1))
        column = ctx.reshape(ctx.iota(columns), (1, columns))
        ones = ctx.emit("equal", [row, column])
    else:
        ctx.check_table_size(rows * columns, "the matrix")
        ones = ctx.const(np.eye(rows, columns, ctx.attr("k", 0), dtype=bool))
    dtype = ctx.attr("dtype")
    like = x.type.element
    return ctx.convert(ones, like if dtype is None else element_type(dtype))


# Reshape-like operators.

Importer = Callable[[NodeContext], Value]


def _static_or_dynamic(
    ctx: NodeContext, static: Importer, dynamic: Importer, *operands: int
) -> Value:
    """Import a node by the sizes of its operands, or by their values in the run if the run computes
    them, or if hosts need an answer about sizes that the run finds."""
    if has_runtime_operand(ctx, *operands):
        return dynamic(ctx)
    if ctx.importer.request.is_bounded:
        return static(ctx)
    start = Checkpoint(ctx.importer)
    try:
        with deciding_by(assume_sign_before_run):
            return static(ctx)
    except UndecidedExtent:
        start.undo()
        return dynamic(ctx)


@onnx_op("Reshape")
def reshape(ctx: NodeContext) -> Value:
    return _static_or_dynamic(ctx, _static_reshape, dynamic_reshape.import_reshape)


def _static_reshape(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    requested = None
    if has_runtime_operand(ctx, 1):
        if ctx.importer.declared_bounds(ctx.node.output[0]) is None:
            requested = found_extents(ctx, 1)
        if requested is None:
            return dynamic_reshape.import_reshape(ctx)
    requested = requested or ctx.attr_or_input("shape", 1)
    if requested is None:
        raise ValueError("the shape is missing")
    if requested.count(-1) > 1 or any(isinstance(n, int) and n < -1 for n in requested):
        raise ValueError(f"shape is {requested}; extents are 0 or more, and one may be -1")
    copies = not ctx.attr("allowzero", 0)
    if copies:
        requested = [x.shape[i] if n == 0 else n for i, n in enumerate(requested)]
    inferred = requested.index(-1) if -1 in requested else None
    if (
        data_dependent_symbols(requested)
        and (found := dynamic_reshape.reshape_data_dependent(ctx, x, requested)) is not None
    ):
        return found
    if inferred is not None:
        others = [n for n in requested if n != -1]
        rest = infer_extent(x, others)
        if rest is None:
            matched = _match_symbols(x, requested[:inferred])
            rest = infer_extent(x, matched + requested[inferred + 1 :])
        found = symbols_of(others) and data_dependent_symbols([*x.shape, *others])
        is_divided = found and rest is not None and prod(others) * rest != x.type.size
        if is_divided or (rest is None and symbols_of(x.shape, requested)):
            return dynamic_reshape.infer_in_run(ctx, x, requested, inferred)
        if rest is None:
            raise ValueError(f"{x.type} does not reshape to {requested}")
        requested[inferred] = rest
    shape = resolve_zero_extents(x.shape, requested, inferred) if copies else requested
    if shape == requested:
        return ctx.reshape(x, requested)
    if not are_equal(prod(requested), x.type.size):
        raise ValueError(f"{x.type} does not reshape to {requested}")
    return ctx.with_shape(x, shape)


def _match_symbols(x: Value, requested: Sequence[SymInt]) -> list[SymInt]:
    """Replace symbolic extents by those of x if both are symbolic. Each run checks that they are
    equal: exporters may give a mask's batch another name than the words' batch."""
    own = symbols_of(*x.shape)  # an extent computed from another axis of x rarely is this one
    pairs = list(zip_longest(requested, x.shape[: len(requested)], fillvalue=0))
    return [m if symbols_of(n) - own and symbols_of(m) and are_equal(n, m) else n for n, m in pairs]


@onnx_op("Flatten")
def flatten(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axis = ctx.attr("axis", 1)
    axis += len(x.shape) if axis < 0 else 0
    return ctx.reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@onnx_op("Squeeze")
def squeeze(ctx: NodeContext) -> OnnxValue:
    x = ctx.required(0)
    axes = ctx.attr_or_input("axes", 1)
    if axes is None:
        rest = ctx.reshape(x, [n for n in x.shape if n != 1])
        dynamic_axes = [
            d
            for d, n in enumerate(rest.shape)
            if symbols_of(n) and lower_bound(n) <= 1 <= upper_bound(n)
        ]
        return squeeze_dynamic(ctx, rest, dynamic_axes)
    axes = [normalize_axis(a, len(x.shape)) for a in axes]
    if ctx.builder.guard is not None:
        for axis in axes:
            x = dynamic_slice.restrict(ctx, x, axis, 1)
    if not all(are_equal(x.shape[a], 1) for a in axes):
        raise ContractError(f"axes {axes} of {x.type} do not all have extent 1")
    return ctx.reshape(x, [n for d, n in enumerate(x.shape) if d not in axes])


@onnx_op("Unsqueeze")
def unsqueeze(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    axes = ctx.attr_or_input("axes", 1, min_axes=0) or []
    rank = len(x.shape) + len(axes)
    added = {normalize_axis(a, rank) for a in axes}
    if len(added) != len(axes):
        raise ValueError(f"axes {axes} repeat an axis")
    extents = iter(x.shape)
    return ctx.reshape(x, [1 if d in added else next(extents) for d in range(rank)])


@onnx_op("Transpose")
def transpose(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    return ctx.transpose(x, ctx.attr("perm", list(range(len(x.shape)))[::-1]))


@onnx_op("DepthToSpace")
def depth_to_space(ctx: NodeContext) -> Value:
    x, block = ctx.required(0), ctx.attr("blocksize")
    n, c, h, w = x.shape
    if c % (block * block):
        raise ValueError(f"{c} channels are not a multiple of the block's {block} x {block}")
    depth = c // (block * block)
    if ctx.attr("mode", "DCR") == "DCR":
        blocks, perm = (n, block, block, depth, h, w), (0, 3, 4, 1, 5, 2)
    else:
        blocks, perm = (n, depth, block, block, h, w), (0, 1, 4, 2, 5, 3)
    out = ctx.transpose(ctx.reshape(x, blocks), perm)
    return ctx.reshape(out, (n, depth, h * block, w * block))


@onnx_op("SpaceToDepth")
def space_to_depth(ctx: NodeContext) -> Value:
    x, block = ctx.required(0), ctx.attr("blocksize")
    n, c, h, w = x.shape
    if h % block or w % block:
        raise ValueError(f"{h} x {w} pixels are not a multiple of the block's {block} x {block}")
    blocks = ctx.reshape(x, (n, c, h // block, block, w // block, block))
    perm = (0, 3, 5, 1, 2, 4) if ctx.attr("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    out = ctx.transpose(blocks, perm)
    return ctx.reshape(out, (n, c * block * block, h // block, w // block))


# Repetition and concatenation.


@onnx_op("Expand")
def expand(ctx: NodeContext) -> Value:
    x, requested = ctx.required(0), ctx.list_operand(1, "the shape")
    for d in range(-min(len(requested), len(x.shape)), 0):
        common = common_extent(ctx, (x.shape[d], requested[d]))
        if common is not None:
            requested[d], x = common, repeat(ctx, x, d, common)
    return ctx.expand(x, broadcast(x.shape, tuple(requested)))


@onnx_op("Tile")
def tile(ctx: NodeContext) -> Value:
    x, repeats = ctx.required(0), ctx.list_operand(1, "the number of repeats")
    if len(repeats) != len(x.shape) or not all(is_at_least(r, 0) for r in repeats):
        raise ValueError(f"repeats {repeats} do not fit {x.type}")
    interleaved_shape = ctx.reshape(x, [m for n in x.shape for m in (1, n)])
    filled = ctx.expand(interleaved_shape, [m for n, r in zip(x.shape, repeats) for m in (r, n)])
    return ctx.reshape(filled, [n * r for n, r in zip(x.shape, repeats)])


def _check_parts(ctx: NodeContext, parts: list[Value]) -> None:
    """Limit the parts that cost more than the nodes of the file which compute them."""
    different = {id(part): part for part in parts}
    ctx.importer.functions.budget.add(max(len(parts) - len(different) - FREE_PARTS, 0))
    of_open_sizes = sum(bool(symbols_of(part.shape)) for part in different.values())
    if of_open_sizes > MAX_OPEN_PARTS:
        raise UnsupportedError(
            f"it joins {of_open_sizes} tensors of open sizes; the maximum is {MAX_OPEN_PARTS}; "
            "give more of them fixed sizes"
        )


@onnx_op("Concat")
def concat(ctx: NodeContext) -> Value:
    parts = [ctx.required(i) for i in range(len(ctx.inputs))]
    _check_parts(ctx, parts)
    axis = normalize_axis(ctx.attr("axis", 1), len(parts[0].shape))
    in_body = ctx.importer.graph is not ctx.importer.whole
    for d, extents in enumerate(zip(*(p.shape for p in parts))):
        found = [any(s.source is not None or s.local for s in symbols_of(n)) for n in extents]
        others = [n for n, f in zip(extents, found) if not f and (in_body or not symbols_of(n))]
        if d != axis and others:
            known = min(others, key=lambda n: len(symbols_of(n)))
            pairs = zip(parts, found)
            parts = [dynamic_slice.restrict(ctx, p, d, known) if f else p for p, f in pairs]
    for part in parts:
        if part.producer is None:
            note_concatenated(part.shape[axis])
    filled = [p for p in parts if p.shape[axis] != 0] or parts[:1]
    return ctx.concat(filled, axis)


# Slicing and padding.


@onnx_op("Slice")
def slice_(ctx: NodeContext) -> Value:
    return _static_or_dynamic(ctx, _static_slice, dynamic_slice.import_slice, 1, 2, 3, 4)


def _static_slice(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    starts = ctx.attr_or_input("starts", 1)
    ends = ctx.attr_or_input("ends", 2)
    axes = ctx.attr_or_input("axes", 3)
    steps = ctx.list_operand(4, "steps") or [1] * len(starts)
    axes = list(range(len(starts))) if axes is None else axes
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ValueError(f"starts {starts}, ends {ends}, axes {axes}, steps {steps} do not match")
    axis_indices = [normalize_axis(a, len(x.shape)) for a in axes]
    for start, end, axis, step in zip(starts, ends, axis_indices, steps):
        if step == 0:
            raise ValueError(f"the step along axis {axis} is 0")
        x = ctx.slice_axis(x, axis, *slice_range(x.shape[axis], start, end, step), step)
    return x


@onnx_op("Split")
def split(ctx: NodeContext) -> list[Value]:
    x = ctx.required(0)
    axis = normalize_axis(ctx.attr("axis", 0), len(x.shape))
    sizes = ctx.attr_or_input("split", 1)
    if sizes is None:
        count = ctx.attr("num_outputs", len(ctx.node.output))
        if count != len(ctx.node.output):
            raise ValueError(f"num_outputs is {count}, but the outputs are {len(ctx.node.output)}")
        sizes = _equal_parts(x.shape[axis], count)
    if not are_equal(sym_sum(sizes), x.shape[axis]) or any(n < 0 for n in sizes):
        raise ValueError(f"parts of {sizes} do not add up to axis {axis} of {x.type}")
    parts, start = [], 0
    for size in sizes:
        parts.append(ctx.slice_axis(x, axis, start, size))
        start = start + size
    return parts


def _equal_parts(extent: SymInt, count: int) -> list[SymInt]:
    """Return equal parts; only the last ones may be smaller."""
    part = ceil_div(extent, count)
    return [sym_max(0, sym_min(part, extent - part * i)) for i in range(count)]


@onnx_op("Pad")
def pad(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    rank = len(x.shape)
    if has_runtime_operand(ctx, 1, 3):
        value = ctx.input(2) or ctx.like(0, x)
        return dynamic_slice.import_pad(ctx, ctx.attr("mode", "constant"), value)
    pads = ctx.attr_or_input("pads", 1)
    axes = ctx.list_operand(3, "axes")
    axes = list(range(rank)) if axes is None else [normalize_axis(a, rank) for a in axes]
    if pads is None or len(pads) != 2 * len(axes):
        raise ValueError(f"pads {pads} do not fit the axes {axes} of {x.type}")
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[len(axes) + i]
    value = ctx.input(2)
    if value is None:
        value = ctx.like(ctx.attr("value", 0.0), x)
    return pad_with(ctx, x, before, after, ctx.attr("mode", "constant"), value)


def _has_padding(before: Sequence[SymInt], after: Sequence[SymInt]) -> bool:
    """Return whether any of the amounts is, or may be at run time, other than 0."""
    return any(symbols_of(n) or n for n in (*before, *after))


def pad_with(
    ctx: NodeContext, x: Value, before: list[int], after: list[int], mode: str, value: Value
) -> Value:
    """Pad each axis; negative amounts crop instead."""
    added = [[sym_max(n, 0) for n in side] for side in (before, after)]
    cut = [[sym_max(-n, 0) for n in side] for side in (before, after)]
    left = [n - b - a for n, b, a in zip(x.shape, *cut)]
    late = mode == "constant" and not all(statically_known_true(ge, n, 0) for n in left)
    if late:  # a run may cut elements of the padding, too
        left = [n + b + a for n, b, a in zip(x.shape, before, after)]
        x = _added_padding(ctx, x, *added, mode, value)
    for axis, (b, n) in enumerate(zip(cut[0], left)):
        if not is_at_least(n, 0):
            raise ValueError(
                f"pads {before[axis]} and {after[axis]} cut more than axis {axis} of x has"
            )
        x = ctx.slice_axis(x, axis, b, n)
    return x if late else _added_padding(ctx, x, *added, mode, value)


def _added_padding(
    ctx: NodeContext, x: Value, before: list[SymInt], after: list[SymInt], mode: str, value: Value
) -> Value:
    """Pad each axis by amounts that are 0 or more."""
    if not _has_padding(before, after):
        return x
    if mode != "constant" and any(
        statically_known_true(gt, b + a, 0) and not is_at_least(n, 1)
        for n, b, a in zip(x.shape, before, after)
    ):
        raise ValueError(f"there is no element of {x.type} to fill the padding with")
    for axis in range(len(x.shape) if mode != "constant" else 0):
        if symbols_of(x.shape[axis], before[axis], after[axis]) and _has_padding(
            before[axis : axis + 1], after[axis : axis + 1]
        ):
            x = dynamic_slice.pad_axis(ctx, x, axis, before[axis], after[axis], mode)
            before[axis] = after[axis] = 0
    if not _has_padding(before, after):
        return x
    inputs = [x, ctx.reshape(value, ())] if mode == "constant" else [x]
    return ctx.emit("pad", inputs, before=tuple(before), after=tuple(after), mode=mode)


@onnx_op("Trilu")
def trilu(ctx: NodeContext) -> Value:
    """Keep the elements on and above (or below) a diagonal, and zero the others."""
    x, k = ctx.required(0), ctx.input(1)
    rows, columns = x.shape[-2:]
    k = ctx.const(0, np.int64) if k is None else ctx.reshape(ctx.cast(k, "int64"), ())
    first = ctx.emit("add", [ctx.reshape(ctx.iota(rows), (rows, 1)), k])
    side = "greater_equal" if ctx.attr("upper", 1) else "less_equal"
    mask = ctx.emit(side, [ctx.reshape(ctx.iota(columns), (1, columns)), first])
    return ctx.emit("where", [mask, x, ctx.like(0, x)])
