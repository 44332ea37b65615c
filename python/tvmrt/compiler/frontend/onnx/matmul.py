"""Matmul and operators that reduce to it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes.assumptions import are_equal

from .context import NodeContext
from .registry import onnx_op

_MIN_SCALE = 2.0**-20  # for scales below this, or above its inverse, the product is scaled


def emit_matmul(ctx: NodeContext, a: Value, b: Value) -> Value:
    """Emit the matmul of the last two axes of two tensors of rank 2 or more.

    Element types without a kernel use a fused multiplication and sum.
    """
    if a.dtype.name == "float32" or b.dtype != a.dtype:
        return ctx.emit("matmul", [a, b])
    if not are_equal(a.shape[-1], b.shape[-2]):
        raise ValueError(f"the columns of {a.type} are not as many as the rows of {b.type}")
    terms = ctx.emit(
        "mul",
        [
            ctx.reshape(a, (*a.shape, 1)),
            ctx.reshape(b, (*b.shape[:-2], 1, *b.shape[-2:])),
        ],
    )
    return ctx.emit("reduce_sum", [terms], axes=(len(terms.shape) - 2,), keepdims=0)


def scale_by(ctx: NodeContext, x: Value, factor: float) -> Value:
    return x if factor == 1.0 else ctx.emit("mul", [x, ctx.like(factor, x)])


def emit_scaled_matmul(ctx: NodeContext, a: Value, b: Value, alpha: float) -> Value:
    """Emit alpha * a b; scaling a constant operand costs nothing at run time."""
    if alpha and not _MIN_SCALE <= abs(alpha) <= 1 / _MIN_SCALE:
        return scale_by(
            ctx, emit_matmul(ctx, a, b), alpha
        )  # scaled operands may overflow or underflow
    if b.is_constant:
        b = scale_by(ctx, b, alpha)
    elif a.type.nbytes <= b.type.nbytes:
        a = scale_by(ctx, a, alpha)
    else:
        b = scale_by(ctx, b, alpha)
    return emit_matmul(ctx, a, b)


@onnx_op("MatMul")
def matmul(ctx: NodeContext) -> Value:
    return numpy_matmul(ctx, ctx.required(0), ctx.required(1))


def numpy_matmul(ctx: NodeContext, a: Value, b: Value, alpha: float = 1.0) -> Value:
    """Emit a matmul by numpy's rules: operands of rank 1 are a row and a column."""
    drop_row, drop_column = len(a.shape) == 1, len(b.shape) == 1
    if drop_row:
        a = ctx.reshape(a, (1, *a.shape))
    if drop_column:
        b = ctx.reshape(b, (*b.shape, 1))
    out = emit_scaled_matmul(ctx, a, b, alpha)
    shape = list(out.shape)
    if drop_column:
        del shape[-1]
    if drop_row:
        del shape[-1 if drop_column else -2]
    return ctx.reshape(out, shape)


@onnx_op("Gemm")
def gemm(ctx: NodeContext) -> Value:
    a, b, c = ctx.required(0), ctx.required(1), ctx.input(2)
    a = ctx.swap_last_axes(a) if ctx.attr("transA", 0) else a
    b = ctx.swap_last_axes(b) if ctx.attr("transB", 0) else b
    out = emit_scaled_matmul(ctx, a, b, ctx.attr("alpha", 1.0))
    beta = ctx.attr("beta", 1.0)
    if c is not None and beta != 0.0:
        out = ctx.emit("add", [out, scale_by(ctx, c, beta)])
    return out


@onnx_op("Einsum")
def einsum(ctx: NodeContext) -> Value:
    operands = [ctx.required(i) for i in range(len(ctx.inputs))]
    terms, result = _labels(ctx.attr("equation"), [len(x.shape) for x in operands])
    pending = []
    for x, labels in zip(operands, terms):
        pending.append(_take_diagonals(ctx, x, labels))
    needed = [set(result)]  # after each operand from the last one: the letters used later
    for _, own in reversed(pending[2:]):
        needed.append(needed[-1].union(own))
    current, labels = pending[0]
    for (other, other_labels), later in zip(pending[1:], reversed(needed)):
        current, labels = _contract(ctx, current, labels, other, other_labels, later)
    current, labels = _sum_out(ctx, current, labels, set(result))
    return ctx.transpose(current, [labels.index(c) for c in result])


def _labels(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return one letter per axis for each operand and the result, also for ellipsis axes."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"equation {equation} has {len(terms)} operands, the node {len(ranks)}")
    hidden = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks)]
    broadcast = max((n for n, term in zip(hidden, terms) if "..." in term), default=0)
    # axes of an ellipsis, right-aligned; private characters that no equation can use
    ellipsis_labels = "".join(chr(0xE000 + i) for i in range(broadcast))
    named = []
    for term, count in zip(terms, hidden):
        if ("..." not in term and count != 0) or count < 0:
            raise ValueError(f"term {term} of equation {equation} does not fit its operand's rank")
        named.append(term.replace("...", ellipsis_labels[broadcast - count :] if count else ""))
    if arrow:
        result = right.replace("...", ellipsis_labels)
    else:
        letters = "".join(named)
        once = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in ellipsis_labels)
        result = ellipsis_labels + "".join(once)
    if not set(result) <= set("".join(named)):
        raise ValueError(f"equation {equation} names an axis in its result only")
    return named, result


def _take_diagonals(ctx: NodeContext, x: Value, labels: str) -> tuple[Value, str]:
    """Take the diagonal of axes that carry the same letter."""
    for letter in dict.fromkeys(labels):
        while labels.count(letter) > 1:
            first = labels.index(letter)
            second = labels.index(letter, first + 1)
            others = [d for d in range(len(labels)) if d not in (first, second)]
            x = ctx.transpose(x, (*others, first, second))
            n = x.shape[-1]
            if not are_equal(x.shape[-2], n):
                raise ValueError(f"axes {letter} have different extents {x.shape[-2]} and {n}")
            x = ctx.reshape(x, (*x.shape[:-2], n * n))
            x = ctx.slice_axis(x, len(others), 0, n, n + 1)
            labels = "".join(labels[d] for d in others) + letter
    return x, labels


def _sum_out(ctx: NodeContext, x: Value, labels: str, keep: set[str]) -> tuple[Value, str]:
    axes = tuple(d for d, c in enumerate(labels) if c not in keep)
    if not axes:
        return x, labels
    x = ctx.emit("reduce_sum", [x], axes=axes, keepdims=0)
    return x, "".join(c for c in labels if c in keep)


def _contract(
    ctx: NodeContext, a: Value, a_labels: str, b: Value, b_labels: str, needed: set[str]
) -> tuple[Value, str]:
    """Contract two operands to one, summed over axes that no other operand or result needs."""
    a, a_labels = _sum_out(ctx, a, a_labels, needed | set(b_labels))
    b, b_labels = _sum_out(ctx, b, b_labels, needed | set(a_labels))
    extent = dict(zip(a_labels, a.shape))
    for c, n in zip(b_labels, b.shape):
        if extent.get(c, 1) != 1 and n != 1 and not are_equal(extent[c], n):
            raise ValueError(f"an axis has different extents {extent[c]} and {n}")
    both = [c for c in a_labels if c in b_labels]
    contracted = [c for c in both if c not in needed]
    batch = [c for c in both if c in needed]
    rows = [c for c in a_labels if c not in b_labels]
    columns = [c for c in b_labels if c not in a_labels]
    stretched = any(a.shape[a_labels.index(c)] != b.shape[b_labels.index(c)] for c in contracted)
    if not contracted or stretched:
        order = [*batch, *contracted, *rows, *columns]
        x = ctx.emit(
            "mul", [_align_axes(ctx, a, a_labels, order), _align_axes(ctx, b, b_labels, order)]
        )
        return _sum_out(ctx, x, "".join(order), needed)
    a = ctx.transpose(a, [a_labels.index(c) for c in (*batch, *rows, *contracted)])
    b = ctx.transpose(b, [b_labels.index(c) for c in (*batch, *contracted, *columns)])
    # each operand as one matrix per batch element
    lead, inner = len(batch), len(batch) + len(contracted)
    row_extents, column_extents = a.shape[lead : lead + len(rows)], b.shape[inner:]
    depth = prod(b.shape[lead:inner])
    a = ctx.reshape(a, (*a.shape[:lead], prod(row_extents), depth))
    b = ctx.reshape(b, (*b.shape[:lead], depth, prod(column_extents)))
    out = emit_matmul(ctx, a, b)
    out = ctx.reshape(out, (*out.shape[:lead], *row_extents, *column_extents))
    return out, "".join([*batch, *rows, *columns])


def _align_axes(ctx: NodeContext, x: Value, labels: str, order: Sequence[str]) -> Value:
    """Return the operand with an axis per label of the order; missing axes have extent 1."""
    present = [c for c in order if c in labels]
    x = ctx.transpose(x, [labels.index(c) for c in present])
    extents = dict(zip(present, x.shape))
    return ctx.reshape(x, [extents.get(c, 1) for c in order])
