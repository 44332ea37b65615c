"""Control flow.

A known condition takes one branch; otherwise both stand in the graph, guarded. See ``loops`` for
loops.
"""

from __future__ import annotations

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value
from tvmrt.ir.extent import Whole, least, most

from .context import NodeContext
from .registry import onnx_op
from .sequences import TensorList


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
    if isinstance(a, TensorList) and isinstance(b, TensorList):
        if len(a.values) != len(b.values):
            raise UnsupportedError(
                f"the branches give sequences of {len(a.values)} and {len(b.values)} tensors"
            )
        pairs = zip(a.values, b.values)
        return TensorList([_choose(ctx, condition, x, y) for x, y in pairs])
    if not (isinstance(a, Value) and isinstance(b, Value)):
        raise UnsupportedError("the branches give optional values, of which the run chooses one")
    if a.type == b.type:
        return ctx.alike(ctx.emit("where", [condition, a, b]), a)
    if a.dtype != b.dtype or a.type.rank != b.type.rank:
        raise UnsupportedError(
            f"the branches give {a.type} and {b.type}; their elements and numbers of axes must be "
            "the same"
        )
    shape = tuple(_chosen_extent(ctx, condition, *pair) for pair in zip(a.shape, b.shape))
    return ctx.alike(ctx.emit("choice", [condition, a, b], shape=shape), a)


def _chosen_extent(ctx: NodeContext, condition: Value, a: Whole, b: Whole) -> Whole:
    """That of the branch which has run."""
    if a == b:
        return a
    numbers = [ctx.whole_numbers(np.asarray(n, object)) for n in (a, b)]
    number = ctx.emit("where", [condition, *numbers])
    return ctx.found(number, min(least(a), least(b)), max(most(a), most(b)), "extent")
