"""Control flow.

A known condition takes one branch; otherwise both stand in the graph, guarded. Loops whose
conditions are known are written out, one copy of the body a round.
"""

from __future__ import annotations

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value

from .context import OpContext
from .registry import tflite_op

MAX_ROUNDS = 10_000


@tflite_op(IF=1)
def if_(ctx: OpContext) -> list[Value]:
    condition, rest = ctx.required(0), ctx.inputs[1:]
    branches = ctx.options["then"], ctx.options["otherwise"]
    if condition.data is not None:
        branch = branches[0] if condition.data.reshape(-1)[0] else branches[1]
        return ctx.importer.import_subgraph(branch, rest)
    condition = ctx.reshape(condition, ())
    outer = ctx.builder.guard
    sides = []
    for branch, wanted in zip(branches, (condition, ctx.emit("logical_not", [condition]))):
        ctx.builder.guard = (_both(ctx, outer, wanted), True)
        sides.append(ctx.importer.import_subgraph(branch, rest))
        ctx.builder.guard = outer
        ctx.builder.sources = (ctx.name,)
    return [_choice(ctx, condition, a, b) for a, b in zip(*sides)]


def _both(ctx: OpContext, outer: tuple[Value, bool] | None, condition: Value) -> Value:
    """The condition, and that of the branch around it."""
    if outer is None:
        return condition
    value = outer[0] if outer[1] else ctx.emit("logical_not", [outer[0]])
    return ctx.emit("logical_and", [value, condition])


def _choice(ctx: OpContext, condition: Value, a: Value, b: Value) -> Value:
    if a is None or b is None:
        raise UnsupportedError("one of its branches is not supported")
    if a.type != b.type:
        raise UnsupportedError(f"the branches give {a.type} and {b.type}")
    return ctx.emit("where", [condition, a, b])


@tflite_op(WHILE=1)
def while_(ctx: OpContext) -> list[Value]:
    carried: list[Value | None] = list(ctx.inputs)
    for _ in range(MAX_ROUNDS):
        (condition,) = ctx.importer.import_subgraph(ctx.options["condition"], carried)
        if condition is None or condition.data is None:
            raise UnsupportedError("a loop whose number of rounds is computed at run time")
        if not condition.data.reshape(-1)[0]:
            return carried
        carried = ctx.importer.import_subgraph(ctx.options["body"], carried)
        if any(value is None for value in carried):
            raise UnsupportedError("its body is not supported")
    raise UnsupportedError(f"a loop of more than {MAX_ROUNDS} rounds")


@tflite_op(CALL=1, STABLEHLO_COMPOSITE=1)
def call(ctx: OpContext) -> list[Value]:
    name = "subgraph" if ctx.op.name == "CALL" else "decomposition"
    return ctx.importer.import_subgraph(ctx.options[name], ctx.inputs)


@tflite_op(DENSIFY=1)
def densify(ctx: OpContext) -> Value:
    """The reader has written its operand out already."""
    return ctx.const(ctx.constant_of(0, "the sparse tensor").astype(np.float32, copy=False))
