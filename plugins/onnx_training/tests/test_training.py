"""Compare losses and optimiser steps with ONNX's reference evaluator; test derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from tvmrt import onnx_backend

HEAD = '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]> net '
RATE = "float r, int64 t, float[3] x, float[3] g, float[3] a"
TRAINING = "ai.onnx.preview.training"
NETWORKS = {
    "log_likelihood": """(float[4, 5] x, int64[4] k) => (float y)
        { y = NegativeLogLikelihoodLoss<ignore_index = 3>(x, k) }""",
    "cross_entropy": """(float[4, 5] x, int64[4] k) => (float y, float[4, 5] p)
        { y, p = SoftmaxCrossEntropyLoss<reduction = "sum">(x, k) }""",
    "adagrad": f"""({RATE}) => (float[3] y, float[3] b)
        {{ y, b = {TRAINING}.Adagrad<decay_factor = 0.1, epsilon = 1e-5>(r, t, x, g, a) }}""",
    "momentum": f"""({RATE}) => (float[3] y, float[3] b)
        {{ y, b = {TRAINING}.Momentum<alpha = 0.9, beta = 1.0, norm_coefficient = 0.01,
            mode = "nesterov">(r, t, x, g, a) }}""",
    "adam": f"""({RATE}, float[3] c) => (float[3] y, float[3] b, float[3] d)
        {{ y, b, d = {TRAINING}.Adam<norm_coefficient = 0.01>(r, t, x, g, a, c) }}""",
}


@pytest.mark.parametrize("text", NETWORKS.values(), ids=NETWORKS)
def test_operator_is_the_references(text):
    model = parser.parse_model(HEAD + text)
    rng = np.random.default_rng(2)
    feeds = {"x": rng.normal(size=(4, 5)).astype("f"), "k": np.int64([0, 3, 4, 1])}
    if "x, g, a" in text:
        feeds = {name: rng.uniform(0.1, 1, 3).astype("f") for name in "xgac"}
        feeds.update(r=np.float32(0.1), t=np.int64(3))
    feeds = {info.name: feeds[info.name] for info in model.graph.input}
    expected = ReferenceEvaluator(model).run(None, feeds)
    for mine, right in zip(onnx_backend.prepare(model).run(feeds), expected):
        np.testing.assert_allclose(mine, right, rtol=2e-5, atol=1e-6)


def test_derivatives():
    """Compare the gradient of a small network with finite differences in float64."""
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.preview.training" : 1]> net '
        """(float[2, 3] x, float[3, 2] w, float[2] b) =>
        (float[2, 3] dx, float[3, 2] dw, float[2] db) {
            p = MatMul(x, w)
            q = Add(p, b)
            r = Tanh(q)
            s = Sigmoid(q)
            t = Exp(s)
            u = Sub(t, r)
            v = Div(u, t)
            y = Mul(v, q)
            dx, dw, db = ai.onnx.preview.training.Gradient<xs = ["x", "w", "b"], y = "y">(x, w, b)
        }"""
    )

    def total(x, w, b):
        q = x @ w + b
        t = np.exp(1 / (1 + np.exp(-q)))
        return ((t - np.tanh(q)) / t * q).sum()

    rng = np.random.default_rng(4)
    values = [rng.normal(size=shape) for shape in [(2, 3), (3, 2), (2,)]]
    expected = []
    for value in values:
        slopes = np.zeros_like(value)
        for place in np.ndindex(value.shape):
            kept, ends = value[place], []
            for step in (1e-5, -1e-5):
                value[place] = kept + step
                ends.append(total(*values))
            value[place] = kept
            slopes[place] = (ends[0] - ends[1]) / 2e-5
        expected.append(slopes)
    made = onnx_backend.prepare(model).run([v.astype("f") for v in values])
    for mine, right in zip(made, expected):
        np.testing.assert_allclose(mine, right, rtol=2e-5, atol=1e-5)
