"""Loops in one form, Loop, Scan, and loops that an importer makes of a function; their unrolling.

An iteration of an unrolled loop that a run may skip has a guard. So a loop with a bounded trip
count may append tensors of different types to a sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import SymInt
from tvmrt.error import UnsupportedError

from .conditionals import combine_guards, select
from .context import NodeContext
from .sequence_values import DynamicTensorList, OnnxValue, TensorList
from .sequences import stack_iterations
from .tensor_expressions import TensorExpr, require


@dataclass
class StructuredLoop:
    """A loop. ``body``: the subgraph of a node, or a function that takes the loop-carried values
    and slices, and returns the next condition, None if there is none, and the results.

    ``sliced``: the tensors whose slices the iterations read, with the axis and whether the last
    slice comes first. ``stacked``: the same of the results, which get a new axis. ``limit`` and
    ``go``: the maximum trip count and the condition before the first iteration, None if absent.
    ``trip_count``: the limit as a number, None if only a run knows it. ``is_numbered``: the body
    reads the iteration number and the condition, and returns the next condition, which decides if
    ``has_condition``.
    """

    ctx: Any  # an OperatorContext, of ONNX unless the body is a function
    body: onnx.GraphProto | Callable[[list[Value]], list[Value | None]]
    carried: list[OnnxValue | None]
    trip_count: SymInt | None
    sliced: Sequence[tuple[Value, int, bool]] = ()
    stacked: Sequence[tuple[int, bool]] = ()
    limit: Value | None = None
    go: Value | None = None
    is_numbered: bool = False
    has_condition: bool = False

    @property
    def names(self) -> Sequence[str]:
        """Names of the results in the network."""
        return [""] * len(self.carried) if callable(self.body) else self.ctx.node.output

    @property
    def input_names(self) -> list[str]:
        """Names of the iteration number, the loop-carried values and the slices in the body."""
        if callable(self.body):
            return [f"step{i}" for i in range(1 + len(self.carried) + len(self.sliced))]
        first, *names = (info.name for info in self.body.input)
        return [first, *names[1:]] if self.is_numbered else ["iteration", first, *names]

    def numbers(self, count: int) -> Iterable[int]:
        """Return the iteration numbers if the loop is unrolled. Raises UnsupportedError or
        ValueError if there are too many."""
        if callable(self.body):
            return range(count)
        return self.ctx.importer.functions.budget.iterations(self.ctx.op, count, self.body)

    def iteration(
        self,
        number: Value,
        values: Sequence[OnnxValue | None],
        guard: tuple[Value, bool] | None = None,
        scope: Mapping[str, OnnxValue | None] | None = None,
    ) -> list[OnnxValue | None]:
        """Import an iteration; return the condition, None if there is none, and the results.
        ``values``: the loop-carried values and slices; ``guard`` and ``scope``: as for
        ``import_branch``."""
        ctx = self.ctx
        if callable(self.body):
            return self.body(list(values))
        leading: list[Value] = []
        if self.is_numbered:
            # torch declares vectors of one element and relies on getting them
            ranks = [len(info.type.tensor_type.shape.dim) for info in self.body.input[:2]]
            pair = (number, ctx.const(True))  # in a running iteration the condition is true
            leading = [ctx.reshape(v, (1,) * rank) for v, rank in zip(pair, ranks)]
        results = ctx.importer.import_branch(
            self.body, scope or ctx.scope, guard, [*leading, *values]
        )
        condition = results.pop(0) if self.is_numbered else None
        return [condition if self.has_condition else None, *results]


class Iterations(NamedTuple):
    """Iterations of an unrolled loop: the last loop-carried values, the condition after them, and
    for each iteration whether it runs, and its results."""

    carried: list[OnnxValue | None]
    condition: Value
    running: list[Value]
    results: list[list[OnnxValue | None]]


def unrolled_iterations(
    loop: StructuredLoop, numbers: Iterable[int], guarded: bool = False
) -> Iterations:
    """Import iterations until the condition is known to be false. Raises UnsupportedError if a run
    decides whether an iteration runs, unless ``guarded``."""
    ctx, outer = loop.ctx, loop.ctx.importer.builder.guard
    carried, condition = list(loop.carried), _scalar_bool(ctx, loop.go)
    running, ran, results = ctx.const(True), [], []
    for number in numbers:
        running = _and(ctx, running, condition)
        if guarded and loop.limit is not None:
            limit = TensorExpr.from_integer(ctx, loop.limit).reshape()
            running = _and(ctx, running, (limit > number).value)
        if not guarded and running.data is None:
            raise UnsupportedError("a Loop whose condition is computed at run time")
        if not guarded and not running.data.all():
            break
        guard = (combine_guards(ctx, outer, running), True) if guarded else None
        inputs = carried + [
            ctx.element(v, axis, v.shape[axis] - 1 - number if is_backward else number)
            for v, axis, is_backward in loop.sliced
        ]
        next_condition, *after = loop.iteration(ctx.const(number, np.int64), inputs, guard)
        if loop.has_condition and next_condition is None:
            raise UnsupportedError("its condition cannot be compiled")
        condition = _scalar_bool(ctx, next_condition)
        results.append(after[len(carried) :])
        if guarded:
            after = [_merge_carried(ctx, running, *pair) for pair in zip(carried, after)]
        carried = after[: len(carried)]
        ran.append(running)
    return Iterations(carried, condition, ran, results)


def unroll(loop: StructuredLoop) -> list[OnnxValue | None]:
    """Unroll a loop of known trip count."""
    found = unrolled_iterations(loop, loop.numbers(loop.trip_count))
    columns = list(zip(*found.results)) or [()] * len(loop.stacked)
    results = [
        stack_iterations(loop.ctx, column[:: -1 if is_backward else 1], axis)
        for column, (axis, is_backward) in zip(columns, loop.stacked)
    ]
    return [*found.carried, *results]


def unroll_with_guards(loop: StructuredLoop, max_trips: int) -> list[OnnxValue | None]:
    """Unroll a loop of at most ``max_trips`` iterations; more end the run with an error.

    Raises UnsupportedError if an iteration does more with a sequence than append one tensor, or if
    the loop has scan outputs.
    """
    ctx = loop.ctx
    if loop.stacked:
        raise UnsupportedError(
            "a Loop with a run-time trip count collects tensors and appends tensors of "
            "different types to a sequence"
        )
    text = f"at most {max_trips} iterations"
    if loop.limit is not None:
        is_within = TensorExpr.from_integer(ctx, loop.limit).reshape() <= max_trips
        require(is_within.cast("int64").reshape(1), [1], loop.limit, "the trip count", text)
    found = unrolled_iterations(loop, loop.numbers(max_trips), guarded=True)
    total = TensorExpr(ctx, ctx.const(0, np.int64))
    for running in found.running:
        total = total + TensorExpr.from_integer(ctx, running)
    if loop.limit is None:
        goes_on = _and(ctx, found.running[-1], found.condition)
        exceeds = TensorExpr.from_integer(ctx, goes_on).reshape(1)
        require(exceeds, [0], found.condition, "the condition", text)
    return [
        DynamicTensorList(v.values, (total + len(first.values)).value)
        if isinstance(v, TensorList) and isinstance(first, TensorList)
        else v
        for first, v in zip(loop.carried, found.carried)
    ]


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
