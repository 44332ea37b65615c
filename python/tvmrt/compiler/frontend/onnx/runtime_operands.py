"""Run-time operands whose values are implied by the declared shape of the result.

The node is imported as if such an operand were a constant; a run with another value ends with an
error. If several values give the same shape but different results, the node is imported for each of
them (speculative import, see speculative_import.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations, product
from math import prod

import numpy as np
import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.extent import extent_text, symbols_of, upper_bound

from .dynamic_sizes import evaluate_extents, is_computed
from .onnx_node import OnnxNode
from .tensor_expressions import TensorExpr, require

MAX_CANDIDATES = 8  # maximum number of values per operand in a speculative import
MAX_AXES = 8  # maximum rank for trials of axis sets


class AmbiguousOperand(Exception):
    """An operand may have one of several ``values``; ``conditions``: their run-time conditions."""

    def __init__(
        self, index: int, values: Sequence[np.ndarray], conditions: Sequence[Value]
    ) -> None:
        super().__init__(index)
        self.index = index
        self.values = values
        self.conditions = conditions


def has_runtime_operand(ctx: OnnxNode, *indices: int) -> bool:
    """Return whether one of the node's operands is known only at run time."""
    sizes = (v.type.size if v is not None else 0 for v in map(ctx.input, indices))
    return any(size and is_computed(ctx, i) for i, size in zip(indices, sizes))


def implied_value(ctx: OnnxNode, index: int) -> np.ndarray | None:
    """Return the operand's value implied by the declared result shapes; None if there is none.

    Raises AmbiguousOperand if more than one value is possible.
    """
    value = ctx.required(index)
    if value.type.size == 0:
        return np.zeros(value.shape, value.dtype.numpy)
    if index in ctx.assumed:
        return ctx.assumed[index]
    if ctx.node.domain not in ("", "ai.onnx"):
        return None
    rule = _RULES.get((ctx.op, index))
    found = None if rule is None else rule(ctx, index, value)
    return _bounded_shape(ctx, index, value) if found is None else found


def _bounded_shape(ctx: OnnxNode, index: int, value: Value) -> np.ndarray | None:
    """Return a shape operand with data-dependent extents, up to the declared bounds."""
    if (ctx.op, index) not in _SHAPE_OPERANDS:
        return None
    bounds = ctx.importer.declared_bounds(ctx.node.output[0])
    if bounds is not None and ctx.op == "OneHot":
        bounds = tuple(_extent_of_axis(ctx, bounds, -1))
    if bounds is None or len(bounds) != value.type.size:
        return evaluate_extents(ctx, value, bounded=True)
    values = TensorExpr.from_integer(ctx, value).reshape(len(bounds))
    found = [
        ctx.data_dependent_extent(values.at(d).value, 0, upper_bound(n), f"extent of axis {d}")
        for d, n in enumerate(bounds)
    ]
    return np.asarray(found, object)


_SHAPE_OPERANDS = {
    ("ConstantOfShape", 0), ("Expand", 1), ("OneHot", 1), ("Resize", 3), ("Tile", 1),
}  # fmt: skip


def _operand_name(ctx: OnnxNode, index: int) -> str:
    """Return the operand's name in the ONNX schema, if the installed onnx has the operator."""
    if not onnx.defs.has(ctx.op):
        return f"operand {index}"
    return onnx.defs.get_schema(ctx.op).inputs[index].name


def _as_text(array: Sequence) -> str:
    return f"[{', '.join(map(extent_text, array))}]"


# One value.


def _require_values(ctx: OnnxNode, index: int, value: Value, wanted: Sequence) -> np.ndarray | None:
    """Require an operand to be these numbers; None: neither shape nor result depends on it."""
    if len(wanted) != value.type.size:
        return None
    values = [1 if n is None else n for n in wanted]
    found = TensorExpr.from_integer(ctx, value).reshape(len(wanted))
    if None in wanted:
        found = found * [int(n is not None) for n in wanted]
    text = "[" + ", ".join("any" if n is None else extent_text(n) for n in wanted) + "]"
    require(found, [n or 0 for n in wanted], value, _operand_name(ctx, index), text)
    return np.asarray(values, object if symbols_of(values) else np.int64).reshape(value.shape)


def _declared(ctx: OnnxNode, result: int = 0) -> tuple | None:
    names = ctx.node.output
    found = ctx.importer.declared(names[result]) if result < len(names) else None
    return None if found is None or symbols_of(found) else found


def _rule_by_shape(wanted: Callable[[OnnxNode, tuple], Sequence]) -> Callable:
    """Return a rule on the declared shape of the first result."""

    def rule(ctx: OnnxNode, index: int, value: Value) -> np.ndarray | None:
        y = _declared(ctx)
        return None if y is None else _require_values(ctx, index, value, wanted(ctx, y))

    return rule


def _extent_of_axis(ctx: OnnxNode, y: tuple, default: int) -> list[int]:
    return [y[ctx.attr("axis", default)]]


def _tile_repeats(ctx: OnnxNode, y: tuple) -> list[int | None]:
    x = ctx.required(0).shape
    return [m // n if n else None for n, m in zip(x, y)] if len(x) == len(y) else []


def _split_sizes(ctx: OnnxNode, index: int, value: Value) -> np.ndarray | None:
    shapes = [_declared(ctx, i) for i in range(len(ctx.node.output))]
    if any(s is None for s in shapes):
        return None
    return _require_values(ctx, index, value, [s[ctx.attr("axis", 0)] for s in shapes])


def _resize_sizes(ctx: OnnxNode, y: tuple) -> list[int]:
    if ctx.attr("keep_aspect_ratio_policy", "stretch") != "stretch":
        return []
    return [y[a] for a in ctx.attr("axes") or range(len(y))]


def _reshape_shape(ctx: OnnxNode, index: int, value: Value) -> np.ndarray | None:
    """Require a Reshape operand to match the declared shape; zeros and -1 are placeholders."""
    y, x = _declared(ctx), ctx.required(0).shape
    if y is None or len(y) != value.type.size or prod(y) != prod(x):
        return None
    found = TensorExpr.from_integer(ctx, value).reshape(len(y))
    zeros = 0 if ctx.attr("allowzero", 0) else len(x)
    kept = [i < zeros and x[i] == n for i, n in enumerate(y)]
    # a 0 copies the extent of x; if that is not 0, it cannot mean the result's 0
    copies = [n == 0 and i < zeros and x[i] != 0 for i, n in enumerate(y)]
    valid = found.equals([-1 if other else n for n, other in zip(y, copies)])
    valid = valid.logical_or(found.equals(-1))
    valid = valid.logical_or(
        found.equals(0).logical_and(TensorExpr(ctx, ctx.const(kept, np.bool_)))
    )
    require(valid.cast("int64"), [1] * len(y), value, "shape", _as_text(y))
    return np.asarray(y, np.int64)


def _expand_shape(ctx: OnnxNode, index: int, value: Value) -> np.ndarray | None:
    """Require an Expand operand to match the declared shape; ones keep the extents of x."""
    y, x = _declared(ctx), ctx.required(0).shape
    count = value.type.size
    if y is None or count > len(y):
        return None
    own = (1,) * (len(y) - len(x)) + tuple(x)
    wanted, own = y[len(y) - count :], own[len(y) - count :]
    found = TensorExpr.from_integer(ctx, value).reshape(count)
    kept = TensorExpr(ctx, ctx.const([a == b for a, b in zip(own, wanted)], np.bool_))
    valid = found.equals(wanted).logical_or(found.equals(1).logical_and(kept))
    require(valid.cast("int64"), [1] * count, value, "shape", _as_text(wanted))
    return np.asarray(wanted, np.int64)


# One of several lists of numbers.


def _require_one_of(
    ctx: OnnxNode, index: int, value: Value, candidates: Sequence
) -> np.ndarray | None:
    """Require an operand to be one of these lists of numbers."""
    if len(candidates) == 1:
        return _require_values(ctx, index, value, candidates[0])
    if not 0 < len(candidates) <= MAX_CANDIDATES or any(
        len(n) != value.type.size for n in candidates
    ):
        return None
    found = TensorExpr.from_integer(ctx, value).reshape(value.type.size)
    same = [found.equals(n).cast("int64").reduce("reduce_min").equals(1) for n in candidates]
    valid = reduce(TensorExpr.logical_or, same)
    text = " or ".join(map(_as_text, candidates))
    require(valid.cast("int64").reshape(1), [1], value, _operand_name(ctx, index), text)
    arrays = [np.asarray(n, np.int64).reshape(value.shape) for n in candidates]
    raise AmbiguousOperand(index, arrays, [s.value for s in same])


# One of several sets of axes.


def _rule_by_axes(fits: Callable, result_key: Callable) -> Callable:
    """Return a rule that tries all sets of axes with ``fits(ctx, set, declared shape)``. Sets with
    equal ``result_key(ctx, set)`` give the same result."""

    def rule(ctx: OnnxNode, index: int, value: Value) -> np.ndarray | None:
        y, rank = _declared(ctx) or _shape_for_every_axis(ctx), _rank_for_axes(ctx, value)
        if y is None or rank > MAX_AXES:
            return None
        sets = [s for s in combinations(range(rank), value.type.size) if fits(ctx, s, y)]
        groups: dict = {}
        for axes in sets:
            groups.setdefault(result_key(ctx, axes), []).append(axes)
        if not 0 < len(groups) <= MAX_CANDIDATES:
            return None
        return _require_axes(ctx, index, value, list(groups.values()), rank)

    return rule


def _shape_for_every_axis(ctx: OnnxNode) -> tuple | None:
    """Return the result's shape if the operator gives the same one for every axis."""
    x = ctx.required(0).shape
    if ctx.op in ("CumProd", "CumSum"):
        return tuple(x)
    shortens = ctx.attr("onesided", 0) or ctx.input(1) is not None
    return None if ctx.op != "DFT" or shortens else (*x[:-1], 2)


def _rank_for_axes(ctx: OnnxNode, value: Value) -> int:
    """Return the rank that the axes refer to."""
    rank = len(ctx.required(0).shape)
    return rank + value.type.size if ctx.op == "Unsqueeze" else rank


def _require_axes(
    ctx: OnnxNode, index: int, value: Value, groups: Sequence[Sequence[tuple]], rank: int
) -> np.ndarray:
    """Require an operand to be a set of one of the groups, in any order and with any signs."""
    flat = TensorExpr.from_integer(ctx, value).reshape(value.type.size).normalize_negative(rank)
    named = flat.reshape(value.type.size, 1).equals(np.arange(rank)[None])
    bits = named.reduce("reduce_max").where(TensorExpr(ctx, ctx.const(2 ** np.arange(rank))), 0)
    code = bits.reduce("reduce_sum")
    codes = [[sum(2**a for a in axes) for axes in group] for group in groups]
    matches = [reduce(TensorExpr.logical_or, (code.equals(n) for n in group)) for group in codes]
    valid = reduce(TensorExpr.logical_or, matches)
    text = " or ".join(_as_text(axes) for group in groups for axes in group)
    require(valid.cast("int64"), [1], value, _operand_name(ctx, index), text)
    arrays = [np.asarray(group[0], np.int64).reshape(value.shape) for group in groups]
    if len(groups) == 1:
        return arrays[0]
    raise AmbiguousOperand(index, arrays, [h.value for h in matches])


def _reduces_to(ctx: OnnxNode, axes: tuple, y: tuple) -> bool:
    x = ctx.required(0).shape
    if ctx.attr("keepdims", 1):
        return tuple(1 if d in axes else n for d, n in enumerate(x)) == y
    return tuple(n for d, n in enumerate(x) if d not in axes) == y


def _reduced_axes(ctx: OnnxNode, axes: tuple) -> tuple:
    """Return the axes that matter: those of one element change only the shape."""
    return tuple(a for a in axes if ctx.required(0).shape[a] != 1)


def _squeezes_to(ctx: OnnxNode, axes: tuple, y: tuple) -> bool:
    x = ctx.required(0).shape
    kept = tuple(n for d, n in enumerate(x) if d not in axes)
    return all(x[a] == 1 for a in axes) and kept == y


def _unsqueezes_to(ctx: OnnxNode, axes: tuple, y: tuple) -> bool:
    kept = tuple(n for d, n in enumerate(y) if d not in axes)
    x = ctx.required(0).shape
    return len(y) == len(x) + len(axes) and kept == tuple(x) and all(y[a] == 1 for a in axes)


def _transforms_to(ctx: OnnxNode, axes: tuple, y: tuple) -> bool:
    """Return whether a Fourier transform along an axis has the declared result shape."""
    x, length = ctx.required(0).shape, ctx.input(1)
    inverse, onesided = ctx.attr("inverse", 0), ctx.attr("onesided", 0)
    (axis,) = axes
    if axis == len(x) - 1 or (length is not None and length.data is None):
        return False
    count = x[axis] if length is None else int(length.data.reshape(-1)[0])
    if onesided and inverse and length is None:
        count = 2 * (count - 1)
    bins = count // 2 + 1 if onesided and not inverse else count
    parts = 1 if onesided and inverse else 2
    return (*x[:axis], bins, *x[axis + 1 : -1], parts) == y


def _no_axes(ctx: OnnxNode, axes: tuple) -> tuple:
    return ()


def _all_axes(ctx: OnnxNode, axes: tuple) -> tuple:
    return axes


# Blocks of an image.


def _col2im_block(ctx: OnnxNode, index: int, value: Value) -> np.ndarray | None:
    """Find the block extents that give x's channels and columns."""
    y, (_, rows, columns) = _declared(ctx), ctx.required(0).shape
    if y is None or rows % y[1]:
        return None
    image, whole = y[2:], rows // y[1]
    sizes = [[n for n in range(1, whole + 1) if whole % n == 0]] * len(image)
    fitting = [
        b for b in product(*sizes) if prod(b) == whole and _col2im_columns(ctx, image, b) == columns
    ]
    return _require_one_of(ctx, index, value, fitting)


def _col2im_columns(ctx: OnnxNode, image: Sequence[int], block: Sequence[int]) -> int:
    rank = len(image)
    pads, strides, dilations = (
        ctx.attr(name, [one] * count)
        for name, one, count in (
            ("pads", 0, 2 * rank),
            ("strides", 1, rank),
            ("dilations", 1, rank),
        )
    )
    reach = (
        image[d] + pads[d] + pads[rank + d] - dilations[d] * (block[d] - 1) - 1 for d in range(rank)
    )
    return prod(max(n // s + 1, 0) for n, s in zip(reach, strides))


# Frames of a signal.


def _frame_lengths(ctx: OnnxNode, y: tuple) -> list[int]:
    """Return the possible frame lengths for the result's number of frequencies."""
    window, given = ctx.input(2), ctx.input(3)
    if window is not None:
        return [window.shape[0]]
    if 3 in ctx.assumed or given is None or given.data is not None:
        known = ctx.assumed.get(3) if given is None or given.data is None else given.data
        return [] if known is None else [int(known.reshape(-1)[0])]
    bins = y[-2]
    return [2 * bins - 2, 2 * bins - 1] if ctx.attr("onesided", 1) else [bins]


def _frame_steps(ctx: OnnxNode, y: tuple, length: int) -> list[int]:
    """Return the steps that give the result's number of frames."""
    rest, steps = ctx.required(0).shape[1] - length, y[1] - 1
    step = ctx.input(1)
    if rest < 0 or steps < 1:
        return []  # one frame leaves the step arbitrary
    known = ctx.assumed.get(1) if step is None or step.data is None else step.data
    if known is not None:
        step = int(known.reshape(-1)[0])
        return [step] if step > 0 and rest // step == steps else []
    return [s for s in range(rest // (steps + 1) + 1, rest // steps + 1) if rest // s == steps]


def _frame_operand(ctx: OnnxNode, index: int, value: Value) -> np.ndarray | None:
    y = _declared(ctx)
    if y is None or len(y) != 4:
        return None
    pairs = [(s, n) for n in _frame_lengths(ctx, y) for s in _frame_steps(ctx, y, n)]
    found = dict.fromkeys(pair[0 if index == 1 else 1] for pair in pairs)
    return _require_one_of(ctx, index, value, [[n] for n in found])


_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")

_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()

_RULES: dict[tuple[str, int], Callable] = {
    **{(f"Reduce{op}", 1): _rule_by_axes(_reduces_to, _reduced_axes) for op in _REDUCTIONS},
    **{(op, 0): _rule_by_shape(lambda ctx, y: y) for op in _WINDOWS},
    ("AffineGrid", 1): _rule_by_shape(lambda ctx, y: [y[0], None, *y[1:-1]]),
    ("CenterCropPad", 1): _rule_by_shape(
        lambda ctx, y: [y[a] for a in ctx.attr("axes", range(len(y)))]
    ),
    ("Col2Im", 1): _rule_by_shape(lambda ctx, y: y[2:]),
    ("Col2Im", 2): _col2im_block,
    ("ConstantOfShape", 0): _rule_by_shape(lambda ctx, y: y),
    ("CumProd", 1): _rule_by_axes(lambda ctx, axes, y: True, _all_axes),
    ("CumSum", 1): _rule_by_axes(lambda ctx, axes, y: True, _all_axes),
    ("DFT", 2): _rule_by_axes(_transforms_to, _all_axes),
    ("Expand", 1): _expand_shape,
    ("MaxUnpool", 2): _rule_by_shape(lambda ctx, y: y),
    ("OneHot", 1): _rule_by_shape(lambda ctx, y: _extent_of_axis(ctx, y, -1)),
    ("Reshape", 1): _reshape_shape,
    ("Resize", 3): _rule_by_shape(_resize_sizes),
    ("STFT", 1): _frame_operand,
    ("STFT", 3): _frame_operand,
    ("Split", 1): _split_sizes,
    ("Squeeze", 1): _rule_by_axes(_squeezes_to, _no_axes),
    ("Tile", 1): _rule_by_shape(_tile_repeats),
    ("TopK", 1): _rule_by_shape(lambda ctx, y: _extent_of_axis(ctx, y, -1)),
    ("Unsqueeze", 1): _rule_by_axes(_unsqueezes_to, _no_axes),
}
