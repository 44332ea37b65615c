"""Losses, compared with the ONNX reference evaluator."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

import tvmrt

NETWORKS = {
    "log_likelihood": """(float[4, 5] x, int64[4] k) => (float y)
        { y = NegativeLogLikelihoodLoss<ignore_index = 3>(x, k) }""",
    "cross_entropy": """(float[4, 5] x, int64[4] k) => (float y, float[4, 5] p)
        { y, p = SoftmaxCrossEntropyLoss<reduction = "sum">(x, k) }""",
}


@pytest.mark.parametrize("text", NETWORKS.values(), ids=NETWORKS)
def test_a_loss_is_that_of_the_reference(text):
    model = parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> net ' + text)
    x = np.random.default_rng(2).normal(size=(4, 5)).astype("f")
    feeds = {"x": x, "k": np.int64([0, 3, 4, 1])}
    expected = ReferenceEvaluator(model).run(None, feeds)
    found = tvmrt.load(model, cache=False)(feeds)
    for mine, right in zip(found.values(), expected):
        np.testing.assert_allclose(mine, right, rtol=2e-5, atol=1e-6)
