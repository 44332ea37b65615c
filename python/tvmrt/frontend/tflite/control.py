"""Control flow, and variables that a network's own graphs set.

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


class Variable:
    """What VAR_HANDLE gives: a place whose value the graphs set and read."""

    def __init__(self) -> None:
        self.value: Value | None = None
        self.is_read = False


@tflite_op(CALL_ONCE=1)
def call_once(ctx: OpContext) -> list[Value]:
    outer, ctx.importer.initializing = ctx.importer.initializing, True
    ctx.importer.import_subgraph(ctx.options["init"], [])
    ctx.importer.initializing = outer
    return []


@tflite_op(VAR_HANDLE=1)
def var_handle(ctx: OpContext) -> list:
    key = ctx.options["container"], ctx.options["shared_name"]
    return [ctx.importer.variables.setdefault(key, Variable())]


def _variable(ctx: OpContext) -> Variable:
    found = ctx.input(0)
    if not isinstance(found, Variable):
        raise UnsupportedError("a variable that no VAR_HANDLE gives")
    return found


@tflite_op(ASSIGN_VARIABLE=1)
def assign_variable(ctx: OpContext) -> list[Value]:
    variable = _variable(ctx)
    if variable.is_read and not ctx.importer.initializing:
        raise UnsupportedError(
            "a variable that lasts from run to run; make it an input and an output of the network"
        )
    if ctx.builder.guard is not None:
        raise UnsupportedError("a variable that only one branch sets")
    variable.value = ctx.required(1)
    return []


@tflite_op(READ_VARIABLE=1)
def read_variable(ctx: OpContext) -> Value:
    variable = _variable(ctx)
    variable.is_read = True
    if variable.value is None:
        shape = ctx.result().shape
        raise UnsupportedError(f"a variable of shape {list(shape)} that is read before it is set")
    return variable.value


@tflite_op(DENSIFY=1)
def densify(ctx: OpContext) -> Value:
    """The reader has written its operand out already."""
    return ctx.const(ctx.constant_of(0, "the sparse tensor").astype(np.float32, copy=False))
