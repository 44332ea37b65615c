"""Classifier outputs: labels and probabilities from scores."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    TensorExpr,
    retype,
    softmax_along,
    table_type,
)
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
    a = TensorExpr(ctx, scores)
    greatest = a.apply("reduce_max", axes=(1,), keepdims=1)
    is_nonzero = abs(a) > 1e-7
    grown = (a - greatest).apply("exp")
    x = is_nonzero.where(grown, a * (-greatest).apply("exp"))
    total = x.apply("reduce_sum", axes=(1,), keepdims=1)
    none = total.equals(0)
    return none.where(total.like(0.5), x / none.where(1, total)).value


def _probit(ctx: NodeContext, p: Value) -> Value:
    """Compute the inverse normal distribution by the approximation that runtimes agree on."""
    x = 2 * TensorExpr(ctx, p) - 1
    log = (1 - x * x).apply("log")
    v = 2.0 / (3.14159 * 0.147) + 0.5 * log
    size = ((v * v - 1 / 0.147 * log).apply("sqrt") - v).apply("sqrt")
    return (1.41421356 * (x.apply("sign") * size)).value


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
