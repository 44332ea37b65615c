"""Control flow: IF, WHILE, CALL.

IF with a constant condition imports one branch; otherwise it imports both, guarded. WHILE with
constant conditions is unrolled, one copy of the body per iteration; otherwise it becomes a loop.
"""

from __future__ import annotations

from tvmrt.compiler.sdk.frontend import StructuredLoop, combine_guards, emit_loop
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op

MAX_ITERATIONS = 10_000


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
        with ctx.builder.guarded((combine_guards(ctx, outer, wanted), True)):
            sides.append(ctx.importer.import_subgraph(branch, rest))
    return [_select(ctx, condition, a, b) for a, b in zip(*sides)]


def _select(ctx: OpContext, condition: Value, a: Value, b: Value) -> Value:
    if a is None or b is None:
        raise UnsupportedError("one of its branches is not supported")
    if a.type != b.type:
        raise UnsupportedError(f"the branches return {a.type} and {b.type}")
    return ctx.emit("where", [condition, a, b])


@tflite_op(WHILE=1)
def while_(ctx: OpContext) -> list[Value]:
    carried: list[Value | None] = list(ctx.inputs)
    for _ in range(MAX_ITERATIONS):
        (condition,) = ctx.importer.import_subgraph(ctx.options["condition"], carried)
        if condition is None:
            raise UnsupportedError("its condition is not supported")
        if condition.data is None:
            return _dynamic_loop(ctx, condition, carried)
        if not condition.data.reshape(-1)[0]:
            return carried
        carried = ctx.importer.import_subgraph(ctx.options["body"], carried)
        if any(value is None for value in carried):
            raise UnsupportedError("its body is not supported")
    raise UnsupportedError(f"a loop of more than {MAX_ITERATIONS} iterations")


def _dynamic_loop(ctx: OpContext, go: Value, carried: list) -> list[Value]:
    """Emit a loop with a data-dependent trip count; ``go`` is the condition before iteration 0."""
    if not all(isinstance(value, Value) for value in carried):
        raise UnsupportedError("variables in a loop with a data-dependent trip count")
    if go.type.size != 1 or go.dtype.name != "bool":
        raise ValueError(f"its condition is {go.type}, not one bool")

    def iteration(before: list[Value]) -> list[Value | None]:
        after = ctx.importer.import_subgraph(ctx.options["body"], before)
        (condition,) = ctx.importer.import_subgraph(ctx.options["condition"], after)
        if condition is None or any(value is None for value in after):
            raise UnsupportedError("its body is not supported")
        for first, then in zip(carried, after):
            if first.type != then.type:
                raise UnsupportedError(
                    f"a loop-carried value is {first.type} before an iteration and {then.type} "
                    "after it"
                )
        return [ctx.reshape(condition, ()), *after]

    return emit_loop(StructuredLoop(ctx, iteration, carried, None, go=go, has_condition=True))


@tflite_op(CALL=1, STABLEHLO_COMPOSITE=1)
def call(ctx: OpContext) -> list[Value]:
    name = "subgraph" if ctx.op.name == "CALL" else "decomposition"
    return ctx.importer.import_subgraph(ctx.options[name], ctx.inputs)


@tflite_op(DENSIFY=1)
def densify(ctx: OpContext) -> Value:
    """Return the operand, which the file reader has already converted to a dense tensor."""
    return ctx.const(ctx.constant_operand(0, "the sparse tensor"))
