"""Convolutions with few channels that read one tensor are merged."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model as make_model

import tvmrt
from tvmrt.runtime.executor import AotModule

X = np.random.default_rng(8).standard_normal((1, 32, 9, 11), np.float32)


def heads(channels=(1, 4, 1, 10), depthwise: bool = True, bias: bool = True, relu: bool = False):
    """Return a layer with many heads that read its result, each a channels-last output."""
    rng = np.random.default_rng(6)
    weights = {"w": rng.standard_normal((32, 32, 1, 1), np.float32) / 6}
    nodes, outputs = [helper.make_node("Conv", ["x", "w"], ["f"])], []
    for i, count in enumerate(channels):
        weights[f"p{i}"] = rng.standard_normal((count, 32, 1, 1), np.float32) / 6
        weights[f"d{i}"] = rng.standard_normal((count, 1, 3, 3), np.float32)
        weights[f"b{i}"] = rng.standard_normal(count, np.float32)
        more = [f"b{i}"] if bias else []
        nodes.append(helper.make_node("Conv", ["f", f"p{i}", *more], [f"y{i}"]))
        last = f"y{i}"
        if relu:
            nodes.append(helper.make_node("Relu", [last], [f"r{i}"]))
            last = f"r{i}"
        if depthwise:
            window = {"group": count, "pads": [1, 1, 1, 1]}
            nodes.append(helper.make_node("Conv", [last, f"d{i}", *more], [f"z{i}"], **window))
            last = f"z{i}"
        nodes.append(helper.make_node("Transpose", [last], [f"out{i}"], perm=[0, 2, 3, 1]))
        outputs.append(f"out{i}")
    return make_model(nodes, {"x": X}, outputs, weights)


def layers(library) -> list[tuple[int, ...]]:
    """Return the result shapes of the convolutions."""
    return [op.out_shape for op in library.summary.operators if op.op == "conv"]


@pytest.mark.parametrize("bias", [True, False])
def test_attention_heads_are_merged(bias, tmp_path):
    model = heads(bias=bias)
    library = tvmrt.compile(model, executor="aot")
    assert len(layers(library)) == 3
    library.export_library(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))["default"](tvmrt.cpu(0))
    executor = AotModule(module)
    executor.set_input(0, X)
    executor.run()
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": X})
    for i, expected in enumerate(right):
        found = executor.get_output(i).numpy()
        assert found.shape == expected.shape
        assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"channels": (16, 16)}, 5),  # full vectors
        ({"relu": True}, 9),  # a pass over a slice would be an additional step
        ({"channels": (3, 4), "depthwise": False}, 2),
    ],
)
def test_other_layers_are_unchanged(options, count):
    assert len(layers(tvmrt.compile(heads(**options)))) == count
