"""Speculative import of nodes whose meaning depends on a run-time operand: the node is imported
once per candidate value, and each run executes one of these imports."""

from __future__ import annotations

from tvmrt.compiler.ir import Value
from tvmrt.error import UnsupportedError

from .conditionals import combine_guards
from .context import NodeContext
from .registry import Importer
from .runtime_operands import AmbiguousOperand


def run_importer(importer: Importer, ctx: NodeContext) -> list[Value | None]:
    """Import a node and return its results."""
    try:
        result = importer(ctx)
    except AmbiguousOperand as choice:
        return _import_candidates(importer, ctx, choice)
    return result if isinstance(result, list) else [result]


def _import_candidates(
    importer: Importer, ctx: NodeContext, choice: AmbiguousOperand
) -> list[Value | None]:
    outer, found = ctx.builder.guard, []
    for value, conditions in zip(choice.values, choice.conditions):
        ctx.assumed[choice.index] = value
        ctx.builder.guard = None
        ctx.builder.guard = (combine_guards(ctx, outer, conditions), True)
        try:
            found.append(run_importer(importer, ctx))
        finally:
            ctx.builder.guard = outer
            del ctx.assumed[choice.index]
    return [_select_result(ctx, choice.conditions, results) for results in zip(*found)]


def _select_result(
    ctx: NodeContext, conditions: list[Value], results: tuple[Value | None, ...]
) -> Value | None:
    """Return the result of the candidate that was executed."""
    merged = results[-1]
    for condition, result in zip(conditions[-2::-1], results[-2::-1]):
        if result is None or merged is None:
            return None
        if result.type != merged.type:
            raise UnsupportedError(
                f"a run-time operand chooses between results of {result.type} and {merged.type}"
            )
        merged = ctx.emit("where", [condition, result, merged])
    return merged
