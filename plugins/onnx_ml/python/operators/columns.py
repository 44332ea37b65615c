"""Operators that select and concatenate columns, and substitutes for maps."""

from __future__ import annotations

from tvmrt.compiler.sdk.frontend import NodeContext, onnx_op, retype, string_op
from tvmrt.compiler.sdk.graph import SourceType, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_ml.operators import classifier_outputs
from tvmrt.plugins.onnx_ml.operators.domain import DOMAIN


@string_op("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(ctx: NodeContext) -> Value:
    x, indices = ctx.required(0), ctx.required(1)
    if not x.shape:
        raise ValueError("the input is a scalar; it must have rank 1 or 2")
    if indices.data is not None and indices.data.size:
        low, high = int(indices.data.min()), int(indices.data.max())
        if low < 0 or high >= x.shape[-1]:
            raise ValueError(
                f"column indices from {low} to {high} do not fit {x.shape[-1]} columns"
            )
    flat = ctx.reshape(indices, (indices.type.size,))
    result = ctx.emit("gather", [x, flat], axis=len(x.shape) - 1)
    if len(x.shape) == 1:
        result = ctx.reshape(result, (1, indices.type.size))
    return result


@onnx_op("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(ctx: NodeContext) -> Value:
    widths = ctx.attr("inputdimensions") or []
    if len(widths) != len(ctx.inputs):
        raise ValueError(f"inputdimensions has {len(widths)} elements for {len(ctx.inputs)} inputs")
    parts = []
    for i, width in enumerate(widths):
        x = ctx.cast(classifier_outputs.to_float(ctx, ctx.required(i)), "float32")
        if len(x.shape) == 1:
            x = ctx.reshape(x, (1, *x.shape))
        if len(x.shape) != 2:
            raise ValueError(f"input {i} has {len(x.shape)} axes, expected rows of columns")
        parts.append(ctx.pad_or_truncate(x, 1, width))
    return ctx.concat(parts, 1)


@onnx_op("ZipMap", domain=DOMAIN)
def zip_map(ctx: NodeContext) -> Value:
    """Return the probabilities; attach the labels, from which the caller can build the map."""
    numbers, names = classifier_outputs.parse_labels(
        ctx, "classlabels_int64s", "classlabels_strings"
    )
    x = ctx.emit("identity", [ctx.required(0)])
    if x.shape[-1] != numbers.size:
        raise ValueError(f"there are {numbers.size} labels for {x.shape[-1]} columns")
    return retype(x, SourceType("seq(map)", tuple(names or map(str, numbers))))


@onnx_op("DictVectorizer", "CastMap", domain=DOMAIN)
def maps(ctx: NodeContext) -> Value:
    raise UnsupportedError("it reads a map that is not an input of the network")
