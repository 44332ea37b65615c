"""Values of which the run has one of two that differ in their number of axes.

The nodes that read such a value are imported for each of the two, until their results have as many
axes: a Reshape, a reduction or a broadcast makes one value of both.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx

from tvmrt.compiler.ir import Value
from tvmrt.error import Remark, UnsupportedError

from .apart import names_read
from .context import NodeContext
from .control import guards
from .either import either_rank
from .held import Alternatives, Held
from .tensors import subgraphs

if TYPE_CHECKING:
    from .importer import GraphImporter

Results = Sequence["Held | None"]


def read_by(
    node: onnx.NodeProto, inputs: Sequence[Held | None], scope: Mapping[str, Any]
) -> Alternatives | None:
    """Return the first such value that a node, or a graph inside of it, reads."""
    inner = [scope.get(name) for graph in subgraphs(node) for name in names_read(graph)]
    return next((v for v in (*inputs, *inner) if isinstance(v, Alternatives)), None)


def import_each(ctx: NodeContext, found: Alternatives) -> Results:
    """Return a node's results, of both sides of a value that it reads.

    A side that the node does not fit is left out; a run that would take it ends with an error.
    """
    importer, outer = ctx.importer, ctx.builder.guard
    sides: list[Results] = []
    for taken, guard in zip((True, False), guards(ctx, found.condition)):
        scope = {name: _side(value, found, taken) for name, value in ctx.scope.items()}
        made = importer.graph.nodes, importer.problems, importer.refused
        before = [len(each) for each in made]
        ctx.builder.guard = (guard, True)
        try:
            importer.import_nodes([ctx.node], scope)
            results = [scope[key] if key else None for key in ctx.node.output]
            problem = "; ".join(importer.problems[before[1] :])
        except ValueError as error:
            results, problem = (), str(error)
        finally:
            ctx.builder.guard, ctx.builder.sources = outer, (ctx.name,)
        if problem:
            if not taken and not sides:
                raise ValueError(problem)
            for each, count in zip(made, before):
                del each[count:]
            _leave_out(ctx, found, taken, problem)
            continue
        sides.append(results)
    if len(sides) == 1:
        return sides[0]
    return [either_rank(ctx, found.condition, *pair, found.name) for pair in zip(*sides)]


def _side(value: Any, found: Alternatives, taken: bool) -> Any:
    if not isinstance(value, Alternatives) or value.condition is not found.condition:
        return value
    return value.yes if taken else value.no


def _leave_out(ctx: NodeContext, found: Alternatives, taken: bool, problem: str) -> None:
    """Hold runs to the other side."""
    ctx.importer.is_partial = True
    warnings.warn(
        f"node {found.name} (If): its {_branch(taken)} branch does not fit, so a run that takes it "
        f"ends with an error; {problem}",
        Remark,
        stacklevel=2,
    )
    hold(ctx, found, not taken)


def _branch(taken: bool) -> str:
    return "then" if taken else "else"


def hold(ctx: NodeContext, found: Alternatives, taken: bool) -> None:
    """End runs that take another branch."""
    text = f"[{int(taken)}]: its {_branch(not taken)} branch does not fit what reads it"
    ctx.emit(
        "require",
        [ctx.cast(ctx.reshape(found.condition, (1,)), "int64")] * 2,
        expected=(int(taken),),
        where=f"If '{found.name}', condition",
        text=text,
    )


def output_of(importer: GraphImporter, info: onnx.ValueInfoProto, found: Alternatives) -> Value:
    """Return the side that has as many axes as the network declares of a result."""
    tensor = info.type.tensor_type
    sides = [(taken, side) for taken, side in ((True, found.yes), (False, found.no))]
    fitting = [
        (taken, side)
        for taken, side in sides
        if isinstance(side, Value)
        and tensor.HasField("shape")
        and len(tensor.shape.dim) == side.type.rank
    ]
    if len(fitting) != 1:
        shapes = " or ".join(str(v.type) for _, v in sides if isinstance(v, Value))
        raise UnsupportedError(
            f"output {info.name} is {shapes}, as the condition of node {found.name} decides when "
            "the network runs; a result has one number of axes: declare the shape of the output"
        )
    taken, side = fitting[0]
    importer.builder.sources, importer.builder.guard = (info.name,), None
    node = onnx.NodeProto(name=found.name, op_type="If")
    ctx = NodeContext(node, found.name, [], 1, importer.builder, importer)
    hold(ctx, found, taken)
    return side
