"""Linear models as one matmul."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, onnx_op
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_ml.operators import classifier_outputs
from tvmrt.plugins.onnx_ml.operators.domain import DOMAIN


def to_rows(ctx: NodeContext, x: Value) -> Value:
    """Return x as float32 [N, C]; a vector becomes one row."""
    x = ctx.cast(classifier_outputs.to_float(ctx, x), "float32")
    if len(x.shape) == 1:
        return ctx.reshape(x, (1, *x.shape))
    if len(x.shape) != 2:
        raise ValueError(f"the input has {len(x.shape)} axes, expected rows of columns")
    return x


def affine(ctx: NodeContext, x: Value, weights: np.ndarray, bias: np.ndarray | None) -> Value:
    """Multiply x [N, C] by the rows of weights [K, C] and add bias [K]."""
    y = ctx.emit("matmul", [x, ctx.const(np.ascontiguousarray(weights.T), np.float32)])
    if bias is None or not bias.any():
        return y
    return ctx.emit("add", [y, ctx.const(bias[None], np.float32)])


def _scores(ctx: NodeContext, x: Value, rows: int | None) -> Value:
    """Apply the node's coefficients and intercepts to x; ``rows`` is the number of outputs."""
    coefficients = np.asarray(ctx.attr("coefficients") or [], np.float32)
    columns = x.shape[1]
    rows = rows or (coefficients.size // columns if columns else 0)
    if coefficients.size == 0 or coefficients.size != rows * columns:
        raise ValueError(
            f"there are {coefficients.size} coefficients, not a multiple of {columns} columns"
        )
    bias = np.asarray(ctx.attr("intercepts") or [], np.float32)
    if bias.size not in (0, rows):
        raise ValueError(f"there are {bias.size} intercepts, expected {rows}")
    return affine(ctx, x, coefficients.reshape(rows, columns), bias if bias.size else None)


@onnx_op("LinearRegressor", domain=DOMAIN)
def linear_regressor(ctx: NodeContext) -> Value:
    x = to_rows(ctx, ctx.required(0))
    scores = _scores(ctx, x, ctx.attr("targets", 1))
    return classifier_outputs.apply_post_transform(ctx, scores)


@onnx_op("LinearClassifier", domain=DOMAIN)
def linear_classifier(ctx: NodeContext) -> list[Value]:
    labels = classifier_outputs.parse_labels(ctx, "classlabels_ints", "classlabels_strings")
    scores = _scores(ctx, to_rows(ctx, ctx.required(0)), None)
    count, label_count = scores.shape[1], labels.ids.size
    if count == 1 and label_count <= 2:
        return _binary_outputs(ctx, scores, labels)
    if count != label_count:
        raise ValueError(f"there are {label_count} labels for {count} rows of coefficients")
    return classifier_outputs.classify(ctx, scores, labels)


def _binary_outputs(
    ctx: NodeContext, score: Value, labels: classifier_outputs.ClassLabels
) -> list[Value]:
    flat = ctx.reshape(score, (score.shape[0],))
    class_index = ctx.cast(ctx.emit("greater", [flat, ctx.like(0.0, flat)]), "int64")
    if labels.ids.size < 2:  # one label or none
        return [class_index, classifier_outputs.apply_post_transform(ctx, score)]
    logistic = ctx.attr("post_transform") == "LOGISTIC"
    second = classifier_outputs.apply_post_transform(ctx, score) if logistic else score
    pair = classifier_outputs.concat_columns(
        ctx, classifier_outputs.complement(ctx, second), second
    )
    return [classifier_outputs.map_to_labels(ctx, class_index, labels), pair]
