"""Convolutions and pools in numpy, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tvmrt.cli import onnx_reference
from tvmrt.compiler.ir import reference_conv
from tvmrt.custom import composed, gather

RNG = np.random.default_rng(6)
X = RNG.normal(size=(2, 6, 9, 8)).astype(np.float32)
PADS = {"pads_before": (1, 0), "pads_after": (1, 1)}
FLOAT = onnx.TensorProto.FLOAT


def of(nodes, feeds, domains=()) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    inputs = [value(name, FLOAT, array.shape) for name, array in feeds.items()]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", FLOAT, None)])
    opsets = [helper.make_opsetid("", 19), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def judged(op, *arrays, **attributes) -> np.ndarray:
    feeds = {f"i{k}": array for k, array in enumerate(arrays)}
    model = of([helper.make_node(op, list(feeds), ["y"], **attributes)], feeds)
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    return session.run(None, feeds)[0]


def test_convolutions():
    w = RNG.normal(size=(4, 3, 3, 2)).astype(np.float32)
    b = RNG.normal(size=4).astype(np.float32)
    attrs = {"strides": (2, 1), "dilations": (1, 2), "pads_before": (1, 0), "pads_after": (2, 1)}
    y = judged("Conv", X, w, b, group=2, strides=[2, 1], dilations=[1, 2], pads=[1, 0, 2, 1])
    np.testing.assert_allclose(reference_conv.conv(X, w, b, {**attrs, "groups": 2}), y, atol=1e-5)


@pytest.mark.parametrize("rounds_up", [0, 1])
def test_pools(rounds_up):
    given = {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "pads": [1, 0, 1, 1],
        "ceil_mode": rounds_up,
    }
    attrs = {"kernel": (3, 3), "strides": (2, 2), "dilations": (1, 1), **PADS}
    for counts in (0, 1):
        y = judged("AveragePool", X, **given, count_include_pad=counts)
        found = reference_conv.avg_pool(
            X, {**attrs, "out_spatial": y.shape[2:], "count_pads": counts}
        )
        np.testing.assert_allclose(found, y, atol=1e-6)
    y = judged("MaxPool", X, **given, dilations=[1, 2])
    sizes = {"dilations": (1, 2), "out_spatial": y.shape[2:]}
    np.testing.assert_array_equal(reference_conv.max_pool(X, {**attrs, **sizes}), y)


def test_composed_operators_have_a_reference():
    @composed("Pools", domain="repro")
    def pools(g, x):
        most = g.MaxPool(x, kernel_shape=[2, 3], pads=[0, 1, 1, 1])
        return g.AveragePool(most, kernel_shape=[3, 2], pads=[1, 0, 1, 1])

    model = of([helper.make_node("Pools", ["x"], ["y"], domain="repro")], {"x": X}, ["repro"])
    _, found = onnx_reference.expected_outputs(model, {"x": X}, gather([pools]))
    most = judged("MaxPool", X, kernel_shape=[2, 3], pads=[0, 1, 1, 1])
    golden = judged("AveragePool", most, kernel_shape=[3, 2], pads=[1, 0, 1, 1])
    np.testing.assert_allclose(found["y"].value, golden, atol=1e-6)
