"""Control flow.

A known condition takes one branch; otherwise both stand in the graph, guarded. Loops whose number
of rounds is known are written out, one copy of the body a round.
"""

from __future__ import annotations

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value

from .context import NodeContext
from .registry import onnx_op


@onnx_op("If")
def if_(ctx: NodeContext) -> list[Value | None]:
    condition = ctx.required(0)
    then_branch, else_branch = ctx.attr("then_branch"), ctx.attr("else_branch")
    if condition.data is not None:
        branch = then_branch if condition.data.reshape(-1)[0] else else_branch
        return ctx.importer.import_branch(branch, ctx.scope)
    # Each branch's nodes run only under their guard; the choice then reads the side that ran.
    condition = ctx.reshape(condition, ())
    outer = ctx.builder.guard
    taken = _both(ctx, outer, condition)
    other = _both(ctx, outer, ctx.emit("logical_not", [condition]))
    yes = ctx.importer.import_branch(then_branch, ctx.scope, (taken, True))
    no = ctx.importer.import_branch(else_branch, ctx.scope, (other, True))
    return [_choose(ctx, condition, a, b) for a, b in zip(yes, no)]


def _both(ctx: NodeContext, outer: tuple[Value, bool] | None, condition: Value) -> Value:
    """The condition, and that of the branch around it."""
    if outer is None:
        return condition
    value, wanted = outer
    if not wanted:
        value = ctx.emit("logical_not", [value])
    return ctx.emit("logical_and", [value, condition])


def _choose(ctx: NodeContext, condition: Value, a: Value | None, b: Value | None) -> Value | None:
    if a is None or b is None:
        return None
    if a.type != b.type:
        raise UnsupportedError(
            f"the branches give {a.type} and {b.type}; only equal types and shapes are supported"
        )
    return ctx.alike(ctx.emit("where", [condition, a, b]), a)


@onnx_op("Loop")
def loop(ctx: NodeContext) -> list[Value | None]:
    body = ctx.attr("body")
    rounds = ctx.ints_of(0, "the number of rounds of a Loop")
    condition = ctx.input(1)
    if rounds is None:
        raise UnsupportedError("a Loop without a number of rounds ends at run time")
    carried: list[Value | None] = list(ctx.inputs[2:])
    scanned: list[list[Value | None]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    for number in ctx.importer.written_out.rounds("Loop", rounds[0], body):
        if condition is not None and not _known_truth(condition):
            break
        inputs = [ctx.const(number, np.int64), condition or ctx.const(True), *carried]
        condition, *results = ctx.importer.import_branch(body, ctx.scope, inputs=inputs)
        carried = results[: len(carried)]
        for column, value in zip(scanned, results[len(carried) :]):
            column.append(value)
    return [*carried, *(_stacked(ctx, column, 0) for column in scanned)]


def _known_truth(condition: Value) -> bool:
    if condition.data is None:
        raise UnsupportedError("a Loop whose condition is computed at run time")
    return bool(condition.data.reshape(-1)[0])


def _stacked(ctx: NodeContext, values: list[Value | None], axis: int) -> Value | None:
    """Results of all rounds along a new axis."""
    if not values:
        raise UnsupportedError("a loop of no rounds has results of no known shape")
    if any(v is None for v in values):
        return None
    rank = len(values[0].shape) + 1
    axis += rank if axis < 0 else 0
    parts = [ctx.reshape(v, (*v.shape[:axis], 1, *v.shape[axis:])) for v in values]
    joined = parts[0] if len(parts) == 1 else ctx.emit("concat", parts, axis=axis)
    return ctx.alike(joined, values[0])


@onnx_op("Scan")
def scan(ctx: NodeContext) -> list[Value | None]:
    if ctx.opset < 9:
        raise UnsupportedError("Scan of opset 8 runs over batches; convert the model to opset 9")
    body, count = ctx.attr("body"), ctx.attr("num_scan_inputs")
    carried: list[Value | None] = list(ctx.inputs[: len(ctx.inputs) - count])
    sequences = [ctx.required(len(carried) + i) for i in range(count)]
    outputs = len(body.output) - len(carried)
    axes = ctx.attr("scan_input_axes", [0] * count)
    backward = ctx.attr("scan_input_directions", [0] * count)
    rounds = sequences[0].shape[axes[0]]
    columns: list[list[Value | None]] = [[] for _ in range(outputs)]
    for number in ctx.importer.written_out.rounds("Scan", rounds, body):
        inputs = list(carried)
        for value, axis, reverse in zip(sequences, axes, backward):
            place = rounds - 1 - number if reverse else number
            inputs.append(_element(ctx, value, axis, place))
        results = ctx.importer.import_branch(body, ctx.scope, inputs=inputs)
        carried = results[: len(carried)]
        for column, value in zip(columns, results[len(carried) :]):
            column.append(value)
    out_axes = ctx.attr("scan_output_axes", [0] * outputs)
    for column, reverse in zip(columns, ctx.attr("scan_output_directions", [0] * outputs)):
        if reverse:
            column.reverse()
    return [*carried, *(_stacked(ctx, c, axis) for c, axis in zip(columns, out_axes))]


def _element(ctx: NodeContext, value: Value, axis: int, place: int) -> Value:
    """One element along an axis, the axis gone."""
    axis += len(value.shape) if axis < 0 else 0
    part = ctx.slice_axis(value, axis, place, 1)
    return ctx.alike(ctx.reshape(part, (*value.shape[:axis], *value.shape[axis + 1 :])), value)
