"""Conditionals. See ``loops`` for loops.

A constant condition selects one branch at compile time; otherwise both are imported with guards.

Files for several purposes have a branch for each, and a branch may be invalid at the shapes of
another: a voice detector for two sampling rates has windows of two lengths. A branch that is valid
at some sizes is compiled for these, and one that is invalid at the given extents is left out. A run
that takes it at other sizes ends with an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.contract import ContractError
from tvmrt.error import TvmrtWarning

from .branch_sizes import BranchSizes
from .context import NodeContext
from .import_state import Checkpoint
from .registry import onnx_op
from .select import select_any_rank
from .tensor_expressions import TensorExpr, require


@onnx_op("If")
def if_(ctx: NodeContext) -> list[Value | None]:
    condition = ctx.required(0)
    then_branch, else_branch = ctx.attr("then_branch"), ctx.attr("else_branch")
    if condition.data is not None:
        branch = then_branch if condition.data.reshape(-1)[0] else else_branch
        return ctx.importer.import_branch(branch, ctx.scope)
    # Each branch runs only under its guard; the choice then reads the side that ran.
    condition = ctx.reshape(condition, ())
    outer = ctx.builder.guard
    taken, other = guards(ctx, condition)
    yes, branch_error = import_if_valid(ctx, then_branch, "then", taken)
    if branch_error is not None:
        require_branch(ctx, condition, False, branch_error)
        return list(ctx.importer.import_branch(else_branch, ctx.scope, outer))
    no, branch_error = import_if_valid(ctx, else_branch, "else", other)
    if branch_error is not None:
        require_branch(ctx, condition, True, branch_error)
        return yes
    return [select_any_rank(ctx, condition, a, b, ctx.name) for a, b in zip(yes, no)]


def select_under_guard(
    ctx: NodeContext, condition: Value, compute: Callable[[], Value], otherwise: Value
) -> Value:
    """Return the result of ``compute``, whose nodes run only if a scalar condition holds, else
    ``otherwise``, of the same type."""
    outer, (taken, _) = ctx.builder.guard, guards(ctx, condition)
    ctx.builder.guard = taken, True
    try:
        result = compute()
    finally:
        ctx.builder.guard = outer
    return ctx.emit("where", [condition, result, otherwise])


def import_if_valid(
    ctx: NodeContext, branch: onnx.GraphProto, which: str, guard: Value
) -> tuple[Sequence[Value | None], ValueError | None]:
    """Import a branch under a guard. ``which``: its name in messages. If the branch is invalid at
    all known sizes, return no results and the error.

    Raises any other error of the branch.
    """
    importer, sizes = ctx.importer, BranchSizes(ctx, branch, which, guard)
    start = before = Checkpoint(importer)
    first: ValueError | None = None
    while True:
        try:
            results = importer.import_branch(branch, sizes.scope, (guard, True))
        except ValueError as problem:
            if not is_operand_mismatch(problem):
                raise
            first = first or problem
        else:
            sizes.warn()
            return results, None
        before.undo()
        if not sizes.restrict():
            start.undo()
            return [], first
        before = Checkpoint(importer)


def is_operand_mismatch(problem: BaseException | None) -> bool:
    """Return whether an error or one of its causes is an operand mismatch (``ContractError``)."""
    while problem is not None and not isinstance(problem, ContractError):
        problem = problem.__cause__
    return problem is not None


def require_branch(
    ctx: NodeContext, condition: Value, taken: bool, branch_error: ValueError
) -> None:
    """Restrict runs to the valid branch; others end with an error that includes
    ``branch_error``."""
    ctx.importer.problems.leave_out_branch()
    branch = "else" if taken else "then"
    warnings.warn(
        f"node {ctx.name} (If): its {branch} branch is invalid at the shapes that the network is "
        f"compiled for, so a run that takes it fails; {branch_error}",
        TvmrtWarning,
        stacklevel=2,
    )
    text = f"[{int(taken)}]: the {branch} branch is invalid at the compiled shapes"
    require(TensorExpr(ctx, condition), (int(taken),), condition, "condition", text)


def guards(ctx: NodeContext, condition: Value) -> tuple[Value, Value]:
    """Return the guards of the two branches, combined with the enclosing guard. They are computed
    in each run, even if the enclosing branch is skipped."""
    outer, ctx.builder.guard = ctx.builder.guard, None
    try:
        no = ctx.emit("logical_not", [condition])
        return combine_guards(ctx, outer, condition), combine_guards(ctx, outer, no)
    finally:
        ctx.builder.guard = outer


def combine_guards(ctx: NodeContext, outer: tuple[Value, bool] | None, condition: Value) -> Value:
    """Combine a condition with the guard of the enclosing branch, if there is one."""
    if outer is None:
        return condition
    value, taken = outer
    if not taken:
        value = ctx.emit("logical_not", [value])
    return ctx.emit("logical_and", [value, condition])
