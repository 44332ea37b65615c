"""Losses, composed of IR operators."""

from __future__ import annotations

from tvmrt.compiler.ir import Value

from .activation import softmax_along
from .context import NodeContext
from .indexing import checked_indices
from .registry import onnx_op
from .tensor_expressions import TensorExpr


@onnx_op("NegativeLogLikelihoodLoss")
def negative_log_likelihood_loss(ctx: NodeContext) -> Value:
    return _likelihood_loss(ctx, ctx.required(0))


@onnx_op("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy_loss(ctx: NodeContext) -> list[Value]:
    logarithms = softmax_along(ctx, ctx.required(0), 1, log=True)
    return [_likelihood_loss(ctx, logarithms), logarithms]


def _likelihood_loss(ctx: NodeContext, x: Value) -> Value:
    """Return the weighted negative log-likelihood; elements with the ignored label give 0."""
    labels, weights, ignored = ctx.required(1), ctx.input(2), ctx.attr("ignore_index")
    reduction = ctx.attr("reduction", "mean")
    if (x.shape[0], *x.shape[2:]) != labels.shape or reduction not in ("none", "sum", "mean"):
        raise ValueError(f"labels {labels.type} do not fit {x.type} with reduction {reduction}")
    skipped = None
    if ignored is not None:
        skipped = TensorExpr(ctx, labels).equals(ignored)
        labels = skipped.where(0, TensorExpr(ctx, labels)).value
    labels = checked_indices(ctx, labels, x.shape[1])
    column = ctx.reshape(labels, (x.shape[0], 1, *x.shape[2:]))
    picked = ctx.emit("gather_elements", [x, column], axis=1)
    loss = TensorExpr(ctx, ctx.reshape(picked, labels.shape)) * -1
    weight = None
    if weights is not None:
        weight = TensorExpr(ctx, ctx.emit("gather", [weights, labels], axis=0))
    elif skipped is not None:
        weight = TensorExpr(ctx, ctx.expand(ctx.like(1, x), labels.shape))
    if weight is not None:
        loss = loss * weight
    if skipped is not None:
        # ignored elements may be infinite
        loss, weight = skipped.where(0, loss), skipped.where(0, weight)
    if reduction == "none":
        return loss.value
    total = _sum(loss)
    if reduction == "mean":
        total = total / (labels.type.size if weight is None else _sum(weight))
    return total.value


def _sum(x: TensorExpr) -> TensorExpr:
    axes = tuple(range(len(x.shape)))
    return TensorExpr(x.ctx, x.ctx.emit("reduce_sum", [x.value], axes=axes, keepdims=0))
