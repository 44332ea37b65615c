"""Classifier outputs: labels and probabilities from scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, retype, softmax_along, table_type
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError


class ClassLabels(NamedTuple):
    """Class labels of a node: integers, and the strings that they are indices of, if any."""

    ids: np.ndarray
    names: list[str]


def parse_labels(ctx: NodeContext, ints: str, strings: str) -> ClassLabels:
    """Return the labels in one of two attributes. Raises ValueError unless exactly one is set."""
    names, ids = ctx.attr(strings) or [], ctx.attr(ints) or []
    if bool(names) == bool(ids):
        raise ValueError(f"one of {ints} and {strings} must be given")
    if names:
        return ClassLabels(np.arange(len(names)), list(names))
    return ClassLabels(np.asarray(ids, np.int64), [])


def map_to_labels(ctx: NodeContext, class_index: Value, labels: ClassLabels) -> Value:
    """Map class indices to int64 labels; string labels stay indices with their names attached."""
    ids, names = labels
    if names:
        retype(class_index, table_type(names))
    if (ids == np.arange(ids.size)).all():
        return class_index
    return ctx.emit("gather", [ctx.const(ids), class_index], axis=0)


def classify(
    ctx: NodeContext, scores: Value, labels: ClassLabels, class_index: Value | None = None
) -> list[Value]:
    """Return a classifier's labels and scores [N, C]; ``class_index`` is the class index if it is
    not the argmax of the scores."""
    class_index = argmax_class(ctx, scores) if class_index is None else class_index
    return [map_to_labels(ctx, class_index, labels), apply_post_transform(ctx, scores)]


def argmax_class(ctx: NodeContext, scores: Value) -> Value:
    """Return the index of each row's maximum, the first of equal ones."""
    return ctx.emit("argmax", [scores], axis=1, keepdims=0, select_last=0)


def apply_post_transform(ctx: NodeContext, scores: Value, transform: str | None = None) -> Value:
    """Apply a post transform to scores [N, C]; ``transform`` defaults to the node's attribute."""
    transform = ctx.attr("post_transform", "NONE") if transform is None else transform
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return ctx.emit("sigmoid", [scores])
    if transform == "SOFTMAX":
        return softmax_along(ctx, scores, 1)
    if transform == "SOFTMAX_ZERO":
        return _softmax_zero(ctx, scores)
    if transform == "PROBIT":
        return _probit(ctx, scores)
    raise ValueError(
        f"unknown post_transform {transform}; NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT "
        "expected"
    )


def _softmax_zero(ctx: NodeContext, scores: Value) -> Value:
    """Compute a softmax that keeps near-zero scores at zero."""
    greatest = ctx.emit("reduce_max", [scores], axes=(1,), keepdims=1)
    is_nonzero = ctx.emit("greater", [ctx.emit("abs", [scores]), ctx.like(1e-7, scores)])
    grown = ctx.emit("exp", [ctx.emit("sub", [scores, greatest])])
    scaled = ctx.emit("mul", [scores, ctx.emit("exp", [ctx.emit("neg", [greatest])])])
    x = ctx.emit("where", [is_nonzero, grown, scaled])
    total = ctx.emit("reduce_sum", [x], axes=(1,), keepdims=1)
    none = ctx.emit("equal", [total, ctx.like(0.0, total)])
    share = ctx.emit("div", [x, ctx.emit("where", [none, ctx.like(1.0, total), total])])
    return ctx.emit("where", [none, ctx.like(0.5, total), share])


def _probit(ctx: NodeContext, p: Value) -> Value:
    """Compute the inverse normal distribution by the approximation that runtimes agree on."""

    def scalar(number: float) -> Value:
        return ctx.like(number, p)

    x = ctx.emit("sub", [ctx.emit("mul", [scalar(2.0), p]), scalar(1.0)])
    square = ctx.emit("sub", [scalar(1.0), ctx.emit("mul", [x, x])])
    log = ctx.emit("log", [square])
    half = ctx.emit("mul", [scalar(0.5), log])
    v = ctx.emit("add", [scalar(2.0 / (3.14159 * 0.147)), half])
    root = ctx.emit("sub", [ctx.emit("mul", [v, v]), ctx.emit("mul", [scalar(1 / 0.147), log])])
    size = ctx.emit("sqrt", [ctx.emit("sub", [ctx.emit("sqrt", [root]), v])])
    return ctx.emit("mul", [scalar(1.41421356), ctx.emit("mul", [ctx.emit("sign", [x]), size])])


def concat_columns(ctx: NodeContext, first: Value, second: Value) -> Value:
    """Concatenate two columns to [N, 2]."""
    return ctx.emit("concat", [first, second], axis=1)


def complement(ctx: NodeContext, p: Value) -> Value:
    """Return 1 - p."""
    return ctx.emit("sub", [ctx.like(1.0, p), p])


def to_float(ctx: NodeContext, x: Value) -> Value:
    """Return x as float64 if it already is, otherwise cast to float32."""
    if not (x.dtype.is_float or x.dtype.is_int):
        raise UnsupportedError(f"{x.dtype} elements; they must be numeric")
    return x if x.dtype.name == "float64" else ctx.cast(x, "float32")
