"""Trip count of loops with a counting condition, which depends only on constants and the iteration
number. Exporters from TensorFlow write every loop like this, including those of recurrent
layers."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.frontend.dims import MAX_DIM
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.limits import MAX_UNROLLED_ITERATIONS
from tvmrt.compiler.ir.sizes import SymInt

from .context import NodeContext
from .loop_condition import linear_trip_count, runs_to_trip_count
from .outline_subgraph import captured_names
from .tensors import subgraphs

_MAX_NODES = 64  # maximum number of body nodes to evaluate per iteration
_MAX_COUNTER_ELEMENTS = 16  # maximum size of a counter


def infer_trip_count(ctx: NodeContext) -> None:
    """Replace the counting condition of a Loop by a trip count."""
    body = ctx.attr("body")
    if len(body.input) < 2 or len(body.output) < len(body.input) - 1:
        return  # the importer reports the error
    if ctx.input(0) is not None and not ctx.is_computed(0):
        limit = ctx.int_operand(0, "the trip count")
        if limit and runs_to_trip_count(ctx, body, limit[0]):
            ctx.inputs[:2] = [ctx.input(0), None]
            ctx.set_attr("body", _without_condition(body))
            return
    counting = _condition_subgraph(ctx, body)
    trip_count: SymInt | None = None if counting is None else _evaluate_trip_count(ctx, counting)
    if trip_count is None and _is_unlimited(ctx.input(0)):
        trip_count = linear_trip_count(ctx, body)
    if trip_count is not None:
        ctx.inputs[:2] = [ctx.integer_tensor(np.asarray(trip_count, object)), None]
        ctx.set_attr("body", _without_condition(body))


def _is_unlimited(limit: Value | None) -> bool:
    """Return whether a trip count operand means an unlimited number of iterations."""
    return limit is None or (limit.data is not None and bool((limit.data >= MAX_DIM).all()))


def _condition_subgraph(ctx: NodeContext, body: onnx.GraphProto) -> onnx.GraphProto | None:
    """Return the part of the body that computes the condition; None if it depends on more than
    constants and the iteration number, or on nothing."""
    producer_index = {key: i for i, node in enumerate(body.node) for key in node.output}
    input_index = {info.name: i for i, info in enumerate(body.input)}
    inside = {tensor.name for tensor in body.initializer}
    pending, taken, read = [body.output[0].name], set(), set()
    for name in pending:  # the list grows in the loop
        more: list[str] = []
        if name in producer_index:
            node = body.node[producer_index[name]]
            if any(True for _ in subgraphs(node)):
                return None
            taken.add(producer_index[name])
            more = list(node.input)
        elif name in input_index:
            read.add(input_index[name])
            if input_index[name] > 1:
                more = [body.output[input_index[name] - 1].name]
        elif name and name not in inside and not _is_small_constant(ctx.scope.get(name)):
            return None
        pending += [key for key in dict.fromkeys(more) if key not in pending]
        if len(taken) > _MAX_NODES:
            return None
    carried = sorted(i for i in read if i > 1)
    if not read - {1} or not all(_is_small_constant(ctx.input(i)) for i in carried):
        return None
    part = onnx.GraphProto(name=body.name)
    part.node.extend(body.node[i] for i in sorted(taken))
    read_inside = set(captured_names(part, False))
    part.initializer.extend(t for t in body.initializer if t.name in read_inside)
    part.input.extend(body.input)
    part.output.extend(body.output[: len(body.input) - 1])
    return part


def _is_small_constant(value: object) -> bool:
    return (
        isinstance(value, Value)
        and value.data is not None
        and value.data.size <= _MAX_COUNTER_ELEMENTS
    )


def _evaluate_trip_count(ctx: NodeContext, body: onnx.GraphProto) -> int | None:
    """Return the trip count by evaluation; None if it is unknown."""
    limit, condition = ctx.input(0), ctx.input(1)
    if any(v is not None and (v.data is None or v.data.size != 1) for v in (limit, condition)):
        return None
    importer = ctx.importer
    max_trip_count = MAX_UNROLLED_ITERATIONS + 1 if limit is None else int(limit.data.item())
    with importer.separate_graph("counting"):
        carried_values, go = list(ctx.inputs[2:]), condition is None or bool(condition.data.item())
        number = 0
        while go and number < min(max_trip_count, MAX_UNROLLED_ITERATIONS + 1):
            inputs = [importer.builder.const(number), importer.builder.const(True), *carried_values]
            verdict, *carried_values = importer.import_branch(body, ctx.scope, inputs=inputs)
            if verdict is None or verdict.data is None or verdict.data.size != 1:
                return None
            number, go = number + 1, bool(verdict.data.item())
        return number if number <= MAX_UNROLLED_ITERATIONS else None


def _without_condition(body: onnx.GraphProto) -> onnx.GraphProto:
    """Return the body with a constant true condition."""
    result = onnx.GraphProto()
    result.CopyFrom(body)
    always = f"{result.output[0].name}_always"
    result.initializer.append(helper.make_tensor(always, onnx.TensorProto.BOOL, [], [True]))
    result.output[0].name = always
    return result
