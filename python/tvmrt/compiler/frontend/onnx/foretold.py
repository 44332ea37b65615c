"""Trip count of loops with a counting condition, which depends only on constants and the iteration
number. Exporters from TensorFlow write every loop like this, including those of recurrent
layers."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.frontend.dims import HIGHEST
from tvmrt.compiler.ir import Builder, Graph, Value
from tvmrt.compiler.ir.extent import SymInt
from tvmrt.compiler.ir.limits import MAX_UNROLLED_ITERATIONS

from .apart import names_read
from .context import NodeContext
from .goes_on import counted_rounds, goes_on
from .tensors import subgraphs

_MOST_NODES = 64  # maximum number of body nodes to evaluate per iteration
_MOST_ELEMENTS = 16  # maximum size of a counter


def foretell(ctx: NodeContext) -> None:
    """Replace the counting condition of a Loop by a trip count."""
    body = ctx.attr("body")
    if len(body.input) < 2 or len(body.output) < len(body.input) - 1:
        return  # the importer reports the error
    if ctx.input(0) is not None and not ctx.is_computed(0):
        limit = ctx.ints_of(0, "the trip count")
        if limit and goes_on(ctx, body, limit[0]):
            ctx.inputs[:2] = [ctx.input(0), None]
            ctx.set_attr("body", _without_condition(body))
            return
    counting = _counting(ctx, body)
    rounds: SymInt | None = None if counting is None else _rounds(ctx, counting)
    if rounds is None and _is_endless(ctx.input(0)):
        rounds = counted_rounds(ctx, body)
    if rounds is not None:
        ctx.inputs[:2] = [ctx.whole_numbers(np.asarray(rounds, object)), None]
        ctx.set_attr("body", _without_condition(body))


def _is_endless(limit: Value | None) -> bool:
    """Whether a trip count operand means an unlimited number of iterations."""
    return limit is None or (limit.data is not None and bool((limit.data >= HIGHEST).all()))


def _counting(ctx: NodeContext, body: onnx.GraphProto) -> onnx.GraphProto | None:
    """Return the part of the body that computes the condition; None if it depends on more than
    constants and the iteration number, or on nothing."""
    maker = {key: i for i, node in enumerate(body.node) for key in node.output}
    place = {info.name: i for i, info in enumerate(body.input)}
    inside = {tensor.name for tensor in body.initializer}
    wanted, taken, read = [body.output[0].name], set(), set()
    for name in wanted:  # the list grows in the loop
        more: list[str] = []
        if name in maker:
            node = body.node[maker[name]]
            if any(True for _ in subgraphs(node)):
                return None
            taken.add(maker[name])
            more = list(node.input)
        elif name in place:
            read.add(place[name])
            if place[name] > 1:
                more = [body.output[place[name] - 1].name]
        elif name and name not in inside and not _small(ctx.scope.get(name)):
            return None
        wanted += [key for key in dict.fromkeys(more) if key not in wanted]
        if len(taken) > _MOST_NODES:
            return None
    carried = sorted(i for i in read if i > 1)
    if not read - {1} or not all(_small(ctx.input(i)) for i in carried):
        return None
    part = onnx.GraphProto(name=body.name)
    part.node.extend(body.node[i] for i in sorted(taken))
    read_inside = set(names_read(part, False))
    part.initializer.extend(t for t in body.initializer if t.name in read_inside)
    part.input.extend(body.input)
    part.output.extend(body.output[: len(body.input) - 1])
    return part


def _small(value: object) -> bool:
    return isinstance(value, Value) and value.data is not None and value.data.size <= _MOST_ELEMENTS


def _rounds(ctx: NodeContext, body: onnx.GraphProto) -> int | None:
    """Return the trip count by evaluation; None if it is unknown."""
    limit, condition = ctx.input(0), ctx.input(1)
    if any(v is not None and (v.data is None or v.data.size != 1) for v in (limit, condition)):
        return None
    importer = ctx.importer
    most = MAX_UNROLLED_ITERATIONS + 1 if limit is None else int(limit.data.item())
    around, known = (importer.graph, importer.builder), len(importer.problems)
    importer.graph = Graph("counting")
    importer.graph.op_types = around[0].op_types
    importer.builder = Builder(importer.graph, around[1].sources)
    try:
        held, go = list(ctx.inputs[2:]), condition is None or bool(condition.data.item())
        number = 0
        while go and number < min(most, MAX_UNROLLED_ITERATIONS + 1):
            inputs = [importer.builder.const(number), importer.builder.const(True), *held]
            verdict, *held = importer.import_branch(body, ctx.scope, inputs=inputs)
            if verdict is None or verdict.data is None or verdict.data.size != 1:
                return None
            number, go = number + 1, bool(verdict.data.item())
        return number if number <= MAX_UNROLLED_ITERATIONS else None
    finally:
        del importer.problems[known:]
        importer.graph, importer.builder = around


def _without_condition(body: onnx.GraphProto) -> onnx.GraphProto:
    """Return the body with a constant true condition."""
    found = onnx.GraphProto()
    found.CopyFrom(body)
    always = f"{found.output[0].name}_always"
    found.initializer.append(helper.make_tensor(always, onnx.TensorProto.BOOL, [], [True]))
    found.output[0].name = always
    return found
