"""Control flow.

A known condition takes one branch; otherwise both stand in the graph, guarded. See ``loops`` for
loops.
"""

from __future__ import annotations

from tvmrt.ir import Value

from .context import NodeContext
from .either import either
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
    taken = both(ctx, outer, condition)
    other = both(ctx, outer, ctx.emit("logical_not", [condition]))
    yes = ctx.importer.import_branch(then_branch, ctx.scope, (taken, True))
    no = ctx.importer.import_branch(else_branch, ctx.scope, (other, True))
    return [either(ctx, condition, a, b) for a, b in zip(yes, no)]


def both(ctx: NodeContext, outer: tuple[Value, bool] | None, condition: Value) -> Value:
    """The condition, and that of the branch around it, where there is one."""
    if outer is None:
        return condition
    value, wanted = outer
    if not wanted:
        value = ctx.emit("logical_not", [value])
    return ctx.emit("logical_and", [value, condition])
