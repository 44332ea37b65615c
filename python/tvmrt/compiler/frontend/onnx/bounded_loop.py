"""Loops that append to sequences: tensors of one type become a scan output; with a bounded trip
count, tensors of different types are appended by unrolled iterations with a guard each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.operator_key import operator_name
from tvmrt.error import UnsupportedError

from .conditionals import combine_guards, select
from .context import NodeContext
from .outline_subgraph import captured_names
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


FIXED = 2  # leading inputs of a body: iteration number and condition


def convert_appends(
    body: onnx.GraphProto, outputs: Sequence[str], sequences: Sequence[int]
) -> tuple[onnx.GraphProto, list[str]]:
    """Return a Loop's body and output names without its loop-carried sequences, whose indices are
    ``sequences``. Tensors appended to them become scan outputs after all others.

    Raises UnsupportedError if the body uses a sequence in any other way.
    """
    if not sequences:
        return body, list(outputs)
    graph = onnx.GraphProto()
    graph.CopyFrom(body)
    carried = [(graph.input[FIXED + i].name, graph.output[1 + i].name) for i in sequences]
    appended = [_remove_append(graph, *pair) for pair in carried]
    for i in reversed(sequences):
        del graph.input[FIXED + i], graph.output[1 + i]
    for name in appended:
        graph.output.add().name = name
    names = [name for i, name in enumerate(outputs) if i not in sequences]
    return graph, [*names, *(outputs[i] for i in sequences)]


def _remove_append(body: onnx.GraphProto, before: str, after: str) -> str:
    """Return the tensor that the body appends to a sequence, and remove the appending node, which
    must be the only user of the sequence."""
    producers = [n for n in body.node if after in n.output]
    node = producers[0] if len(producers) == 1 else None
    if (
        node is None
        or operator_name(node) != "SequenceInsert"
        or node.input[0] != before
        or len([i for i in node.input if i]) != 2
    ):
        raise UnsupportedError(
            f"a Loop with a run-time trip count uses the sequence {before} other than to append "
            "to it"
        )
    name = node.input[1]
    body.node.remove(node)
    if {before, after} & set(captured_names(body, results=False)):
        raise UnsupportedError(
            f"a Loop with a run-time trip count reads the sequence {before} in its body"
        )
    return name
