"""Non-maximum suppression of a detector's boxes."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op


@tflite_op(NON_MAX_SUPPRESSION_V4=1, NON_MAX_SUPPRESSION_V5=1)
def non_max_suppression(ctx: OpContext) -> list[Value]:
    """Return the selected boxes' indices padded with zeros, their scores (V5), and their count."""
    boxes, scores, (limit,) = ctx.required(0), ctx.required(1), ctx.int_operand(2, "the most boxes")
    overlap, minimum_score = (ctx.reshape(ctx.required(i), ()) for i in (3, 4))
    if len(ctx.op.inputs) > 5 and ctx.constant_operand(5, "sigma").any():
        raise UnsupportedError("soft non-max suppression (sigma is not 0)")
    if boxes.type.rank != 2 or scores.shape != boxes.shape[:1] or limit < 0:
        raise ValueError(f"boxes {boxes.type} and scores {scores.type} do not match")
    # lower the threshold by one step: a box whose overlap equals it is suppressed, too
    smaller = ctx.emit("mul", [overlap, ctx.like(1 - 2.0**-24, overlap)])
    box_indices, is_valid, count_valid = best_boxes(
        ctx, boxes, scores, limit, smaller, minimum_score
    )
    results = [ctx.pad_or_truncate(ctx.cast(box_indices, "int32"), 0, limit)]
    if ctx.op.name.endswith("5"):
        selected_scores = ctx.emit("gather", [scores, box_indices], axis=0)
        selected_scores = ctx.emit(
            "where", [is_valid, selected_scores, ctx.like(0, selected_scores)]
        )
        results.append(ctx.pad_or_truncate(selected_scores, 0, limit))
    return [*results, ctx.cast(count_valid, "int32")]


def best_boxes(
    ctx: OpContext, boxes: Value, scores: Value, limit: int, overlap: Value, minimum_score: Value
) -> tuple[Value, Value, Value]:
    """Select at most ``limit`` boxes of [N, 4] with scores above ``minimum_score``, best first.
    Drop boxes that overlap a better one by more than ``overlap``. Return indices, mask, count."""
    count = boxes.shape[0]
    rows = min(limit, count)
    operands = [ctx.reshape(boxes, (1, count, 4)), ctx.reshape(scores, (1, 1, count))]
    operands += [ctx.const(limit, np.int64), overlap, minimum_score]
    selected, count_valid = ctx.emit_many("non_max_suppression", operands, rows=rows, centred=False)
    is_valid = ctx.emit("less", [ctx.const(np.arange(rows), np.int64), count_valid])
    box_indices = ctx.element(selected, 1, 2)
    return (
        ctx.emit("where", [is_valid, box_indices, ctx.like(0, box_indices)]),
        is_valid,
        count_valid,
    )
