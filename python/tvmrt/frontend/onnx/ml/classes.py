"""From scores to what classifiers give: labels and numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value

from ..context import NodeContext


def labels_of(ctx: NodeContext, ints: str, strings: str) -> tuple[np.ndarray, list[str]]:
    """The class labels of a node: integers, and the names that they are places of, if any."""
    names, numbers = ctx.attr(strings) or [], ctx.attr(ints) or []
    if bool(names) == bool(numbers):
        raise ValueError(f"one of {ints} and {strings} must be given")
    if names:
        return np.arange(len(names)), list(names)
    return np.asarray(numbers, np.int64), []


def label(
    ctx: NodeContext, place: Value, labels: Sequence[int], names: Sequence[str] = ()
) -> Value:
    """The label at each place, which is int64; of labels with names the place itself."""
    labels = np.asarray(labels, np.int64)
    if names:
        ctx.importer.names[place] = list(names)
        return place
    if (labels == np.arange(labels.size)).all():
        return place
    return ctx.emit("gather", [ctx.const(labels), place], axis=0)


def best(ctx: NodeContext, scores: Value) -> Value:
    """The place of each row's greatest score, the first of equals."""
    return ctx.emit("argmax", [scores], axis=1, keepdims=0, select_last=0)


def transformed(ctx: NodeContext, scores: Value, how: str) -> Value:
    """The scores [N, C] after a post transform."""
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return ctx.emit("sigmoid", [scores])
    if how == "SOFTMAX":
        return softmax(ctx, scores)
    if how == "SOFTMAX_ZERO":
        return _softmax_zero(ctx, scores)
    if how == "PROBIT":
        return _probit(ctx, scores)
    raise ValueError(
        f"post_transform {how} is not known; NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT "
        "expected"
    )


def softmax(ctx: NodeContext, scores: Value) -> Value:
    if scores.dtype.name == "float32":
        return ctx.emit("softmax", [scores], axis=1)
    powers = ctx.emit("exp", [ctx.emit("sub", [scores, _greatest(ctx, scores)])])
    return ctx.emit("div", [powers, ctx.emit("reduce_sum", [powers], axes=(1,), keepdims=1)])


def _greatest(ctx: NodeContext, scores: Value) -> Value:
    return ctx.emit("reduce_max", [scores], axes=(1,), keepdims=1)


def _softmax_zero(ctx: NodeContext, scores: Value) -> Value:
    """Softmax in which what is next to zero stays so."""
    greatest = _greatest(ctx, scores)
    far = ctx.emit("greater", [ctx.emit("abs", [scores]), ctx.like(1e-7, scores)])
    grown = ctx.emit("exp", [ctx.emit("sub", [scores, greatest])])
    near = ctx.emit("mul", [scores, ctx.emit("exp", [ctx.emit("neg", [greatest])])])
    x = ctx.emit("where", [far, grown, near])
    total = ctx.emit("reduce_sum", [x], axes=(1,), keepdims=1)
    none = ctx.emit("equal", [total, ctx.like(0.0, total)])
    share = ctx.emit("div", [x, ctx.emit("where", [none, ctx.like(1.0, total), total])])
    return ctx.emit("where", [none, ctx.like(0.5, total), share])


def _probit(ctx: NodeContext, p: Value) -> Value:
    """The inverse of the normal distribution by the approximation that runtimes agree on."""

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


def paired(ctx: NodeContext, first: Value, second: Value) -> Value:
    """Two columns as one [N, 2]."""
    return ctx.emit("concat", [first, second], axis=1)


def complement(ctx: NodeContext, p: Value) -> Value:
    """1 - p"""
    return ctx.emit("sub", [ctx.like(1.0, p), p])


def in_floats(ctx: NodeContext, x: Value) -> Value:
    """x as kernels take it: float64 as it is, all else as float32."""
    if not (x.dtype.is_float or x.dtype.is_int):
        raise UnsupportedError(f"{x.dtype} elements; numbers are expected")
    return x if x.dtype.name == "float64" else ctx.cast(x, "float32")
