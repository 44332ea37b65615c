"""Step-by-step execution of a sequence: unrolled if short, otherwise a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmrt.compiler.sdk.graph import DTYPES, Graph, TensorType, Value
from tvmrt.plugins.tflite.frontend.context import OpContext

MAX_UNROLLED_STEPS = 12  # maximum number of unrolled steps; beyond it, a loop saves code size

Step = Callable[..., "tuple[Value, ...]"]


def step_by_step(
    ctx: OpContext, x: Value, states: Sequence[Value], backward: bool, step: Step
) -> tuple[Value, list[Value]]:
    """Return the results of ``step`` along the first axis of x, and the final states.

    ``step(now, *states)`` returns a result and the next states. It is unrolled if the operator has
    other computed operands. ``backward`` starts with the last step; the order of results stays.
    """
    count = x.shape[0]
    if count > MAX_UNROLLED_STEPS and all(v is None or v.is_constant or i == 0 or _is_state(ctx, i)
                                   for i, v in enumerate(ctx.inputs)):  # fmt: skip
        return _loop(ctx, x, states, backward, step)
    now, results = list(states), [x] * count
    for number in reversed(range(count)) if backward else range(count):
        made, *now = step(ctx.element(x, 0, number), *now)
        results[number] = ctx.unsqueeze(made, 0)
    return ctx.concat(results, 0), now


def _is_state(ctx: OpContext, index: int) -> bool:
    return ctx.subgraph.tensors[ctx.op.inputs[index]].is_variable


def _loop(
    ctx: OpContext, x: Value, states: Sequence[Value], backward: bool, step: Step
) -> tuple[Value, list[Value]]:
    body = Graph(f"{ctx.name}_step")
    now = Value("now", TensorType(x.shape[1:], x.dtype))
    carried = [Value(f"state{i}", value.type) for i, value in enumerate(states)]
    body.inputs = [Value("iteration", TensorType((), DTYPES["int64"])), *carried, now]
    with ctx.importer.separate_graph(body):
        made, *further = step(now, *carried)
    body.outputs = [*further, made]
    body.output_names = [f"result{i}" for i in range(len(body.outputs))]
    attrs = {"carried": len(carried), "sliced": 1, "conditional": False, "most": x.shape[0]}
    *last, results, _ = ctx.emit_many(
        "loop",
        [None, None, *states, x],
        body=body,
        backward=(backward, backward),
        extents=(),
        **attrs,
    )
    return results, last
