"""Control flow.

A known condition takes one branch; otherwise both stand in the graph, guarded. See ``loops`` for
loops.

Files that serve several purposes have a branch for each, and what fits one does not fit the other:
a voice detector for two sampling rates has windows of two lengths. A branch that fits at some sizes
is compiled for these, and one that the extents given here do not fit is left out; a run that would
take it at other sizes ends with an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.contract import Misfit
from tvmrt.error import Remark

from .arithmetic import Numbers, require
from .context import NodeContext
from .either import either_rank
from .held_sizes import HeldSizes
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
    taken, other = guards(ctx, condition)
    yes, against = attempt(ctx, then_branch, "then", taken)
    if against is not None:
        only(ctx, condition, False, against)
        return list(ctx.importer.import_branch(else_branch, ctx.scope, outer))
    no, against = attempt(ctx, else_branch, "else", other)
    if against is not None:
        only(ctx, condition, True, against)
        return yes
    return [either_rank(ctx, condition, a, b, ctx.name) for a, b in zip(yes, no)]


def attempt(
    ctx: NodeContext, branch: onnx.GraphProto, which: str, guard: Value
) -> tuple[Sequence[Value | None], ValueError | None]:
    """What a branch, ``which`` for people, gives that runs under a guard; nothing, and why, where
    it fits at no sizes that are known.

    Raises what is wrong with it otherwise.
    """
    importer, sizes = ctx.importer, HeldSizes(ctx, branch, which, guard)
    made = importer.graph.nodes, importer.problems, importer.refused
    start = before = [len(each) for each in made]
    first: ValueError | None = None
    while True:
        try:
            found = importer.import_branch(branch, sizes.scope, (guard, True))
        except ValueError as problem:
            if not is_misfit(problem):
                raise
            first = first or problem
        else:
            sizes.warn()
            return found, None
        _take_back(made, before)
        if not sizes.hold():
            _take_back(made, start)
            return [], first
        before = [len(each) for each in made]


def _take_back(made: Sequence[list[Any]], counts: Sequence[int]) -> None:
    """Leave of each list so many elements."""
    for each, count in zip(made, counts):
        del each[count:]


def is_misfit(problem: BaseException | None) -> bool:
    """Whether an operator's operands do not fit it: what nodes around it say stands before that."""
    while problem is not None and not isinstance(problem, Misfit):
        problem = problem.__cause__
    return problem is not None


def only(ctx: NodeContext, condition: Value, taken: bool, against: ValueError) -> None:
    """Runs have the branch that is left; the others end with an error that says what ``against``
    does."""
    ctx.importer.is_partial = True
    branch = "else" if taken else "then"
    warnings.warn(
        f"node {ctx.name} (If): its {branch} branch is invalid at the shapes that the network is "
        f"compiled for, so a run that takes it fails; {against}",
        Remark,
        stacklevel=2,
    )
    text = f"[{int(taken)}]: the {branch} branch is invalid at the compiled shapes"
    require(Numbers(ctx, condition), (int(taken),), condition, "condition", text)


def guards(ctx: NodeContext, condition: Value) -> tuple[Value, Value]:
    """Return the conditions of the two branches, and of what is around them: each run computes
    them, also where it leaves out what is around them."""
    outer, ctx.builder.guard = ctx.builder.guard, None
    try:
        no = ctx.emit("logical_not", [condition])
        return both(ctx, outer, condition), both(ctx, outer, no)
    finally:
        ctx.builder.guard = outer


def both(ctx: NodeContext, outer: tuple[Value, bool] | None, condition: Value) -> Value:
    """The condition, and that of the branch around it, where there is one."""
    if outer is None:
        return condition
    value, wanted = outer
    if not wanted:
        value = ctx.emit("logical_not", [value])
    return ctx.emit("logical_and", [value, condition])
