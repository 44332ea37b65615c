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


def import_bounded_loop(ctx: NodeContext, max_trips: int) -> list[OnnxValue | None]:
    """Import a Loop of at most ``max_trips`` iterations; more end the run with an error.

    Raises UnsupportedError if an iteration does more with a sequence than append one tensor, or if
    the loop has scan outputs.
    """
    body, carried = ctx.attr("body"), list(ctx.inputs[2:])
    if len(body.output) - 1 > len(carried):
        raise UnsupportedError(
            "a Loop with a run-time trip count collects tensors and appends tensors of "
            "different types to a sequence"
        )
    limit, condition = _trip_count(ctx, max_trips), _scalar_bool(ctx, ctx.input(1))
    outer = ctx.builder.guard
    total = TensorExpr(ctx, ctx.const(0, np.int64))
    running = ctx.const(True)
    initial_lengths = [len(v.values) if isinstance(v, TensorList) else 0 for v in carried]
    for iteration in ctx.importer.functions.budget.iterations("Loop", max_trips, body):
        running = _and(ctx, running, condition)
        if limit is not None:
            running = _and(ctx, running, (limit > iteration).value)
        guard = (combine_guards(ctx, outer, running), True)
        inputs = [ctx.const(iteration, np.int64), ctx.const(True), *carried]
        next_condition, *after = ctx.importer.import_branch(body, ctx.scope, guard, inputs)
        carried = [_merge_carried(ctx, running, *pair) for pair in zip(carried, after)]
        total = total + TensorExpr.from_integer(ctx, running)
        condition = _scalar_bool(ctx, next_condition)
    if limit is None:
        exceeds = TensorExpr.from_integer(ctx, _and(ctx, running, condition)).reshape(1)
        require(exceeds, [0], condition, "the condition", f"at most {max_trips} iterations")
    return [
        DynamicTensorList(v.values, (total + first).value) if isinstance(v, TensorList) else v
        for v, first in zip(carried, initial_lengths)
    ]


def _trip_count(ctx: NodeContext, max_trips: int) -> TensorExpr | None:
    """Return the trip count; a run with more than the maximum ends with an error."""
    trip_count = ctx.input(0)
    if trip_count is None:
        return None
    result = TensorExpr.from_integer(ctx, trip_count).reshape()
    is_within_limit = (result <= max_trips).cast("int64").reshape(1)
    require(is_within_limit, [1], trip_count, "the trip count", f"at most {max_trips} iterations")
    return result


def _scalar_bool(ctx: NodeContext, value: Value | None) -> Value:
    return ctx.const(True) if value is None else ctx.cast(ctx.reshape(value, ()), "bool")


def _and(ctx: NodeContext, a: Value, b: Value) -> Value:
    """Logical and of two conditions; a condition known to be true is dropped."""
    always_true = [v.data is not None and bool(v.data.all()) for v in (a, b)]
    if any(always_true):
        return b if always_true[0] else a
    return ctx.emit("logical_and", [a, b])


def _merge_carried(
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
