"""Step-by-step execution of a sequence: unrolled if short, otherwise a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvmrt.compiler.sdk.frontend import scan_steps
from tvmrt.compiler.sdk.graph import Value
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
    is_loop = x.shape[0] > MAX_UNROLLED_STEPS and all(
        v is None or v.is_constant or i == 0 or _is_state(ctx, i) for i, v in enumerate(ctx.inputs)
    )

    def next_step(now: list[Value], slices: list[Value]) -> tuple[list[Value], list[Value]]:
        made, *now = step(*slices, *now)
        return now, [made]

    last, (results,) = scan_steps(ctx, next_step, states, [x], 1, backward, not is_loop)
    return results, last


def _is_state(ctx: OpContext, index: int) -> bool:
    return ctx.subgraph.tensors[ctx.op.inputs[index]].is_variable
