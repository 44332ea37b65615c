"""Detector post-processing: decode boxes from anchors and select the best ones."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.flexbuffer import read_map
from tvmrt.plugins.tflite.frontend.non_max_suppression import best_boxes
from tvmrt.plugins.tflite.frontend.registry import tflite_op

SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
COUNTS = ("max_detections", "max_classes_per_detection", "num_classes")


@tflite_op(TFLite_Detection_PostProcess=1)
def detections(ctx: OpContext) -> list[Value]:
    """Operands: encoded boxes [1, N, 4], scores [1, N, classes] with an optional background class
    first, anchors [N, 4]. Results: corners, classes and scores of the best boxes, their count."""
    options = read_map(ctx.op.custom_options)
    numbers = ("nms_score_threshold", "nms_iou_threshold", *SCALES, *COUNTS)
    missing = [name for name in numbers if not isinstance(options.get(name), (int, float))]
    if missing:
        raise ValueError(f"its options have no {', '.join(missing)}")
    encoded, scores, anchors = (
        _float_operand(ctx, 0),
        _float_operand(ctx, 1),
        _float_operand(ctx, 2),
    )
    maximum, kinds, classes = (int(options[name]) for name in COUNTS)
    shapes = encoded.type.rank == scores.type.rank == 3 and anchors.type.rank == 2
    if not shapes or encoded.shape != (1, anchors.shape[0], 4) or anchors.shape[1] != 4:
        raise ValueError(f"boxes {encoded.type} do not fit one image with anchors {anchors.type}")
    background = scores.shape[2] - classes
    if scores.shape[1] != anchors.shape[0] or background not in (0, 1) or maximum < 1 or kinds < 1:
        raise ValueError(f"scores {scores.type} do not fit {classes} classes")
    if options.get("use_regular_nms") or kinds > classes:
        raise UnsupportedError("non-max suppression per class (use_regular_nms)")
    corners = _corners(ctx, encoded, anchors, [float(options[name]) for name in SCALES])
    scores = ctx.reshape(scores, scores.shape[1:])
    scores = ctx.slice_axis(scores, 1, background, classes)
    attrs = {"k": kinds, "axis": 1, "largest": 1}
    best, which = ctx.emit_many("topk", [scores], **attrs)
    # lower the threshold by one step: a score equal to it is accepted
    least = np.nextafter(np.float32(options["nms_score_threshold"]), np.float32(-np.inf))
    first = ctx.element(best, 1, 0)
    overlap = ctx.const(options["nms_iou_threshold"], np.float32)
    box_indices, is_valid, kept = best_boxes(
        ctx, corners, first, maximum, overlap, ctx.const(least)
    )
    tables = (
        ctx.emit("expand", [ctx.reshape(corners, (corners.shape[0], 1, 4))],
                 shape=(corners.shape[0], kinds, 4)),
        ctx.cast(which, "float32"),
        best,
    )  # fmt: skip
    made = [_gather_rows(ctx, table, box_indices, is_valid, maximum) for table in tables]
    return [*made, ctx.reshape(ctx.cast(kept, "float32"), (1,))]


def _float_operand(ctx: OpContext, index: int) -> Value:
    """Return an operand as float32."""
    x = ctx.required(index)
    if x.dtype.name == "float32":
        return x
    scale, zero = ctx.per_tensor(ctx.tensor(index))
    moved = ctx.emit("sub", [ctx.cast(x, "int32"), ctx.const(zero, np.int32)])
    return ctx.emit("mul", [ctx.cast(moved, "float32"), ctx.const(scale, np.float32)])


def _corners(ctx: OpContext, encoded: Value, anchors: Value, scales: list[float]) -> Value:
    """Decode boxes from centres and sizes relative to their anchors to corner coordinates."""
    encoded = ctx.reshape(encoded, encoded.shape[1:])
    parts = ctx.emit("div", [encoded, ctx.const(scales, np.float32)])
    box_indices, sizes = (ctx.slice_axis(anchors, 1, at, 2) for at in (0, 2))
    centres = ctx.emit(
        "add", [ctx.emit("mul", [ctx.slice_axis(parts, 1, 0, 2), sizes]), box_indices]
    )
    grown = ctx.emit("mul", [ctx.emit("exp", [ctx.slice_axis(parts, 1, 2, 2)]), sizes])
    half = ctx.emit("mul", [grown, ctx.like(0.5, grown)])
    ends = [ctx.emit(op, [centres, half]) for op in ("sub", "add")]
    return ctx.emit("concat", ends, axis=1)


def _gather_rows(
    ctx: OpContext, table: Value, box_indices: Value, is_valid: Value, maximum: int
) -> Value:
    """Gather rows of a table, zeros for invalid ones; flatten to [1, most * K, ...]."""
    rows = ctx.emit("gather", [table, box_indices], axis=0)
    mask = ctx.reshape(is_valid, (*is_valid.shape, *[1] * (table.type.rank - 1)))
    rows = ctx.pad_or_truncate(ctx.emit("where", [mask, rows, ctx.like(0, rows)]), 0, maximum)
    return ctx.reshape(rows, (1, maximum * table.shape[1], *table.shape[2:]))
