"""Losses and optimiser steps (``ai.onnx.preview.training``), composed of IR operators."""

from __future__ import annotations

from typing import Callable

import numpy as np

from tvmrt.compiler.frontend.onnx.activation import softmax_along
from tvmrt.compiler.frontend.onnx.context import NodeContext
from tvmrt.compiler.frontend.onnx.indexing import checked_indices
from tvmrt.compiler.frontend.onnx.registry import onnx_op
from tvmrt.compiler.frontend.onnx.tensor_expressions import TensorExpr
from tvmrt.compiler.ir import Value

_TRAINING = "ai.onnx.preview.training"


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


def _optimiser(name: str, count: int) -> Callable:
    """Register the decorated optimiser step for one tensor. A node's operands are the rate, the
    update count and ``count`` + 1 groups with one operand per tensor; results, ``count`` groups."""

    def add(step: Callable[..., list[TensorExpr]]) -> Callable:
        @onnx_op(name, domain=_TRAINING)
        def importer(ctx: NodeContext) -> list[Value]:
            tensor_count = (len(ctx.inputs) - 2) // (count + 1)
            if tensor_count < 1 or len(ctx.inputs) != 2 + (count + 1) * tensor_count:
                raise ValueError(f"{len(ctx.inputs)} operands; each tensor needs {count + 1}")
            columns = []
            for i in range(tensor_count):
                tensors = [ctx.required(2 + i + k * tensor_count) for k in range(count + 1)]
                kind = tensors[0].dtype.name
                rate, updates = (
                    TensorExpr(ctx, ctx.reshape(ctx.cast(ctx.required(k), kind), ()))
                    for k in (0, 1)
                )
                columns.append(step(ctx, rate, updates, *(TensorExpr(ctx, t) for t in tensors)))
            return [column[k].value for k in range(count) for column in columns]

        return importer

    return add


@_optimiser("Adagrad", 2)
def adagrad(ctx: NodeContext, rate, updates, x, gradient, squares) -> list[TensorExpr]:
    rate = rate / (updates * ctx.attr("decay_factor", 0.0) + 1)
    gradient = x * ctx.attr("norm_coefficient", 0.0) + gradient
    squares = squares + gradient * gradient
    return [x - rate * gradient / (squares.apply("sqrt") + ctx.attr("epsilon", 0.0)), squares]


@_optimiser("Momentum", 2)
def momentum(ctx: NodeContext, rate, updates, x, gradient, velocity) -> list[TensorExpr]:
    mode, alpha = ctx.attr("mode"), ctx.attr("alpha")
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"unknown mode {mode}; standard or nesterov expected")
    gradient = x * ctx.attr("norm_coefficient") + gradient
    beta = (updates > 0).where(updates * 0 + ctx.attr("beta"), 1)
    velocity = velocity * alpha + beta * gradient
    direction = velocity if mode == "standard" else gradient + velocity * alpha
    return [x - rate * direction, velocity]


@_optimiser("Adam", 3)
def adam(ctx: NodeContext, rate, updates, x, gradient, mean, squares) -> list[TensorExpr]:
    alpha, beta = ctx.attr("alpha", 0.9), ctx.attr("beta", 0.999)
    gradient = x * ctx.attr("norm_coefficient", 0.0) + gradient
    mean = mean * alpha + gradient * (1 - alpha)
    squares = squares * beta + gradient * gradient * (1 - beta)
    bias_corrections = [1 - _power(factor, updates) for factor in (alpha, beta)]
    rate = (updates > 0).where(rate * bias_corrections[1].apply("sqrt") / bias_corrections[0], rate)
    new = x - rate * mean / (squares.apply("sqrt") + ctx.attr("epsilon", 0.0))
    return [new * (1 - ctx.attr("norm_coefficient_post", 0.0)), mean, squares]


def _power(base: float, exponent: TensorExpr) -> TensorExpr:
    ctx = exponent.ctx
    number = ctx.const(np.asarray(base), exponent.value.dtype.numpy)
    return TensorExpr(ctx, ctx.emit("pow", [number, exponent.value]))
