"""Support vector machines: kernels of each row with all support vectors, then a linear model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, onnx_op
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_ml.operators import classifier_outputs
from tvmrt.plugins.onnx_ml.operators.domain import DOMAIN
from tvmrt.plugins.onnx_ml.operators.linear import affine, to_rows


def _floats(ctx: NodeContext, name: str) -> np.ndarray:
    return np.asarray(ctx.attr(name) or [], np.float32)


def kernel_values(ctx: NodeContext, x: Value, vectors: np.ndarray) -> Value:
    """Return the kernel of each row [N, C] with each support vector [S, C] as [N, S]."""
    kind = ctx.attr("kernel_type", "LINEAR")
    params = _floats(ctx, "kernel_params")
    gamma, offset, degree = (float(p) for p in params) if params.size == 3 else (0.0, 0.0, 0.0)
    if kind == "RBF":
        return _rbf(ctx, x, vectors, gamma)
    if kind not in ("POLY", "SIGMOID"):
        raise ValueError(f"unknown kernel_type {kind}; LINEAR, POLY, RBF or SIGMOID expected")
    scaled = affine(ctx, x, vectors * np.float32(gamma), np.full(len(vectors), offset))
    if kind == "SIGMOID":
        return ctx.emit("tanh", [scaled])
    return ctx.emit("pow", [scaled, ctx.like(degree, scaled)])


def decision_values(
    ctx: NodeContext, x: Value, vectors: np.ndarray, weights: np.ndarray, bias: np.ndarray
) -> Value:
    """Return the kernels of x with the vectors [S, C], weighted by rows [K, S], as [N, K].

    For a linear kernel, the weighted vectors are summed at compile time. This saves work in each
    run, and the precision that large, nearly cancelling products would lose.
    """
    if ctx.attr("kernel_type", "LINEAR") == "LINEAR":
        return affine(ctx, x, weights.astype(np.float64) @ vectors.astype(np.float64), bias)
    return affine(ctx, kernel_values(ctx, x, vectors), weights, bias)


def _rbf(ctx: NodeContext, x: Value, vectors: np.ndarray, gamma: float) -> Value:
    """Compute RBF from the differences; expanding the square would lose small differences."""
    rows = ctx.reshape(x, (x.shape[0], 1, x.shape[1]))
    differences = ctx.emit("sub", [rows, ctx.const(vectors[None], np.float32)])
    distances = ctx.emit("reduce_sum_square", [differences], axes=(2,), keepdims=0)
    return ctx.emit("exp", [ctx.emit("mul", [distances, ctx.like(-gamma, distances)])])


def _vectors(ctx: NodeContext, count: int, columns: int) -> np.ndarray:
    vectors = _floats(ctx, "support_vectors")
    if vectors.size != count * columns:
        raise ValueError(
            f"support_vectors has {vectors.size} elements, expected {count} of {columns} columns"
        )
    return vectors.reshape(count, columns)


@onnx_op("SVMRegressor", domain=DOMAIN)
def svm_regressor(ctx: NodeContext) -> Value:
    x = to_rows(ctx, ctx.required(0))
    count, rho = ctx.attr("n_supports", 0), _floats(ctx, "rho")
    coefficients = _floats(ctx, "coefficients")
    if rho.size < 1:
        raise ValueError("rho has no elements")
    width = count or x.shape[1]
    if coefficients.size != width:
        raise ValueError(f"there are {coefficients.size} coefficients, expected {width}")
    if count:
        y = decision_values(ctx, x, _vectors(ctx, count, x.shape[1]), coefficients[None], rho[:1])
    else:
        y = affine(ctx, x, coefficients[None], rho[:1])
    if ctx.attr("one_class", 0):
        inside = ctx.emit("greater", [y, ctx.like(0.0, y)])
        return ctx.emit("where", [inside, ctx.like(1.0, y), ctx.like(-1.0, y)])
    return classifier_outputs.apply_post_transform(ctx, y)


@dataclass(frozen=True)
class _ClassPairs:
    """First and second class of each pair, and the pair's rows of coefficients."""

    first: np.ndarray
    second: np.ndarray
    weights: np.ndarray


def _pairs(coefficients: np.ndarray, per_class: np.ndarray) -> _ClassPairs:
    """Return the pairs of classes; a pair uses the support vectors of both classes."""
    count, total = per_class.size, int(per_class.sum())
    table = coefficients.reshape(count - 1, total)
    owner = np.repeat(np.arange(count), per_class)
    pairs = list(combinations(range(count), 2))
    weights = [
        np.where(owner == i, table[j - 1], 0) + np.where(owner == j, table[i], 0) for i, j in pairs
    ]
    first, second = np.array(pairs).T
    return _ClassPairs(first, second, np.array(weights))


def _votes(ctx: NodeContext, scores: Value, pairs: _ClassPairs, count: int) -> Value:
    """Count the wins of each class: [N, count]."""
    wins = ctx.emit("greater", [scores, ctx.like(0.0, scores)])
    won = ctx.cast(wins, "float32")
    lost = ctx.cast(ctx.emit("logical_not", [wins]), "float32")
    votes = [
        ctx.emit("sum_into", [part, ctx.const(winners, np.int32)], size=count)
        for part, winners in ((won, pairs.first), (lost, pairs.second))
    ]
    return ctx.emit("add", votes)


@onnx_op("SVMClassifier", domain=DOMAIN)
def svm_classifier(ctx: NodeContext) -> list[Value]:
    labels = classifier_outputs.parse_labels(ctx, "classlabels_ints", "classlabels_strings")
    x = to_rows(ctx, ctx.required(0))
    per_class = np.asarray(ctx.attr("vectors_per_class") or [], np.int64)
    coefficients, rho = _floats(ctx, "coefficients"), _floats(ctx, "rho")
    if not per_class.sum():
        return _linear(ctx, x, labels, coefficients, rho)
    total, count = int(per_class.sum()), per_class.size
    label_count = labels.ids.size
    if count != label_count or count < 2 or per_class.min() < 0:
        raise ValueError(f"vectors_per_class has {count} elements for {label_count} labels")
    if coefficients.size != (count - 1) * total:
        raise ValueError(
            f"there are {coefficients.size} coefficients, expected {(count - 1) * total}"
        )
    if rho.size != count * (count - 1) // 2:
        raise ValueError(f"rho has {rho.size} elements, expected {count * (count - 1) // 2}")
    ctx.check_table_size(rho.size, "the pairs of classes", total)
    pairs = _pairs(coefficients, per_class)
    scores = decision_values(ctx, x, _vectors(ctx, total, x.shape[1]), pairs.weights, rho)
    prob_a, prob_b = _floats(ctx, "prob_a"), _floats(ctx, "prob_b")
    class_index = classifier_outputs.argmax_class(ctx, _votes(ctx, scores, pairs, count))
    if prob_a.size:
        if not prob_a.size == prob_b.size == rho.size:
            raise ValueError(f"prob_a and prob_b must be as long as rho, {rho.size}")
        scores = _probabilities(ctx, scores, prob_a, prob_b, count)
    elif count == 2:
        return _binary_outputs(ctx, scores, labels)
    return classifier_outputs.classify(ctx, scores, labels, class_index)


def _binary_outputs(
    ctx: NodeContext, score: Value, labels: classifier_outputs.ClassLabels
) -> list[Value]:
    """Classify with two labels: the first one wins if the score is positive."""
    flat = ctx.reshape(score, (score.shape[0],))
    class_index = ctx.cast(ctx.emit("less_equal", [flat, ctx.like(0.0, flat)]), "int64")
    pair = classifier_outputs.concat_columns(ctx, ctx.emit("neg", [score]), score)
    return classifier_outputs.classify(ctx, pair, labels, class_index)


def _linear(
    ctx: NodeContext, x: Value, labels: classifier_outputs.ClassLabels, coefficients, rho
) -> list[Value]:
    """Classify without support vectors: one row of coefficients per class."""
    count = labels.ids.size
    if coefficients.size != count * x.shape[1] or rho.size < 1:
        raise ValueError(
            f"there are {coefficients.size} coefficients, expected {count} of {x.shape[1]}; "
            f"rho has {rho.size} elements, expected 1"
        )
    weights = coefficients.reshape(count, x.shape[1])
    return classifier_outputs.classify(ctx, affine(ctx, x, weights, np.full(count, rho[0])), labels)


def _probabilities(ctx: NodeContext, scores: Value, a, b, count: int) -> Value:
    """Return class probabilities fitted to pairwise ones, which are Platt's sigmoids."""
    x = ctx.emit("mul", [scores, ctx.const(-a[None], np.float32)])
    x = ctx.emit("sigmoid", [ctx.emit("sub", [x, ctx.const(b[None], np.float32)])])
    return ctx.emit("couple_pairs", [ctx.clamp(x, 1e-7, 1 - 1e-7)], classes=count)
