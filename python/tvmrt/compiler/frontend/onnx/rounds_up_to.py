"""Loops with a bounded trip count that append tensors of different types to sequences. They are
unrolled to the maximum length of the result, each iteration with a guard."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.error import UnsupportedError

from .conditionals import combine_guards
from .context import NodeContext
from .select import select
from .sequence_values import DynamicTensorList, OnnxValue, TensorList
from .tensor_expressions import TensorExpr, require


def rounds_up_to(ctx: NodeContext, most: int) -> list[OnnxValue | None]:
    """Import a Loop of at most ``most`` iterations; more end the run with an error.

    Raises UnsupportedError if an iteration does more with a sequence than append one tensor, or if
    the loop has scan outputs.
    """
    body, held = ctx.attr("body"), list(ctx.inputs[2:])
    if len(body.output) - 1 > len(held):
        raise UnsupportedError(
            "a Loop with a run-time trip count collects tensors and appends tensors of "
            "different types to a sequence"
        )
    limit, go = _limit(ctx, most), _flag(ctx, ctx.input(1))
    outer = ctx.builder.guard
    total = TensorExpr(ctx, ctx.const(0, np.int64))
    running = ctx.const(True)
    firsts = [len(v.values) if isinstance(v, TensorList) else 0 for v in held]
    for number in ctx.importer.written_out.rounds("Loop", most, body):
        running = _and(ctx, running, go)
        if limit is not None:
            running = _and(ctx, running, (limit > number).value)
        guard = (combine_guards(ctx, outer, running), True)
        inputs = [ctx.const(number, np.int64), ctx.const(True), *held]
        verdict, *after = ctx.importer.import_branch(body, ctx.scope, guard, inputs)
        held = [_after(ctx, running, *pair) for pair in zip(held, after)]
        total = total + TensorExpr.from_integer(ctx, running)
        go = _flag(ctx, verdict)
    if limit is None:
        more = TensorExpr.from_integer(ctx, _and(ctx, running, go)).reshape(1)
        require(more, [0], go, "the condition", f"at most {most} iterations")
    return [
        DynamicTensorList(v.values, (total + first).value) if isinstance(v, TensorList) else v
        for v, first in zip(held, firsts)
    ]


def _limit(ctx: NodeContext, most: int) -> TensorExpr | None:
    """Return the trip count; a run with more than the maximum ends with an error."""
    given = ctx.input(0)
    if given is None:
        return None
    found = TensorExpr.from_integer(ctx, given).reshape()
    few = (found <= most).cast("int64").reshape(1)
    require(few, [1], given, "the trip count", f"at most {most} iterations")
    return found


def _flag(ctx: NodeContext, value: Value | None) -> Value:
    return ctx.const(True) if value is None else ctx.cast(ctx.reshape(value, ()), "bool")


def _and(ctx: NodeContext, a: Value, b: Value) -> Value:
    """Logical and of two conditions; a condition known to be true is dropped."""
    known = [v.data is not None and bool(v.data.all()) for v in (a, b)]
    if any(known):
        return b if known[0] else a
    return ctx.emit("logical_and", [a, b])


def _after(
    ctx: NodeContext, ran: Value, before: OnnxValue | None, after: OnnxValue | None
) -> OnnxValue | None:
    """Return a loop-carried value after an iteration that may be skipped."""
    if not isinstance(before, TensorList) and not isinstance(after, TensorList):
        return select(ctx, ran, after, before)
    if not (isinstance(before, TensorList) and isinstance(after, TensorList)) or (
        after.values[:-1] != before.values
    ):
        raise UnsupportedError(
            "a Loop with a run-time trip count uses a sequence other than to append one tensor "
            "per iteration"
        )
    return after
