"""Query and key scales are merged or folded; attention scores do not change."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.transform import optimize

F32 = np.float32
RNG = np.random.default_rng(5)
X = {"x": np.zeros((1, 10, 24), F32)}
CONSTANTS = {
    "wq": RNG.normal(size=(24, 24)).astype(F32),
    "wk": RNG.normal(size=(24, 24)).astype(F32),
    "bq": RNG.normal(size=24).astype(F32),
    "heads": np.array([1, 10, 3, 8]),
    "sq": np.array(0.6, F32),
    "sk": np.array([0.7], F32),
}


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


PRODUCTS = [node("MatMul", "x wq", "q0"), node("Add", "q0 bq", "q"), node("MatMul", "x wk", "k")]
HEADS = [
    node("Reshape", "q heads", "qh"),
    node("Transpose", "qh", "qt", perm=[0, 2, 1, 3]),
    node("Reshape", "k heads", "kh"),
    node("Transpose", "kh", "kt", perm=[0, 2, 3, 1]),
]
FACTORS = [node("Mul", "qt sq", "qs"), node("Mul", "sk kt", "ks")]
SCORES = [node("MatMul", "qs ks", "y")]
VIEWS = ["reshape", "transpose"] * 2


def optimized(network) -> list[str]:
    graph = import_model(network)
    optimize(graph, lambda name, graph: None)
    return sorted(n.op for n in graph.nodes)


def attention(*, rectified=False, outputs=("y",), constants=CONSTANTS):
    """Return queries and keys of three heads; with Relu, weights cannot absorb the scales."""
    views = HEADS
    if rectified:
        views = [*HEADS[:3], node("Transpose", "kh", "k1", perm=[0, 2, 3, 1])]
        views += [node("Relu", "k1", "kt"), node("Relu", "qt", "q1")]
    factors = [node("Mul", "q1 sq", "qs"), FACTORS[1]] if rectified else FACTORS
    nodes = [*PRODUCTS, *views, *factors, *SCORES]
    return model(nodes, X, list(outputs), constants)


def test_both_scales_are_folded_into_weights():
    assert optimized(attention()) == sorted([*VIEWS, "matmul", "matmul", "matmul"])


def test_one_scale_remains_without_preceding_weights():
    rectified = ["relu", "relu", "mul"]
    expected = sorted([*VIEWS, *rectified, "matmul", "matmul", "matmul"])
    assert optimized(attention(rectified=True)) == expected


@pytest.mark.parametrize("name", ["qs", "qt", "q"])
def test_values_with_other_readers_are_kept(name):
    found = optimized(attention(outputs=("y", name)))
    assert found.count("mul") == 1


def test_scales_with_abnormal_product_are_kept():
    tiny = {**CONSTANTS, "sq": np.array(1e-30, F32), "sk": np.array(1e-30, F32)}
    assert optimized(attention(rectified=True, constants=tiny)).count("mul") == 2


@pytest.mark.parametrize("rectified", [False, True])
def test_attention_scores_match_onnxruntime(rectified):
    network = attention(rectified=rectified)
    x = RNG.normal(size=(1, 10, 24)).astype(F32)
    session = onnxruntime.InferenceSession(network.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    found = tvmrt.load(tvmrt.compile(network))(x=x)
    found = found if isinstance(found, np.ndarray) else next(iter(dict(found).values()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
