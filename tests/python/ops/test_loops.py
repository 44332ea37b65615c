"""Loops with a small constant trip count, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_graph import model

import tvmrt


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def loop_network(condition: bool = True) -> onnx.ModelProto:
    """Return three iterations of s = 2 s + i, with every s stacked."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Mul", ["s", "two"], ["d"]),
            helper.make_node("Add", ["d", "f"], ["s_out"]),
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node("Neg", ["s_out"], ["kept"]),
        ],
        "body",
        [info("i", [], TensorProto.INT64), info("c", [], TensorProto.BOOL), info("s", [2])],
        [info("c_out", [], TensorProto.BOOL), info("s_out", [2]), info("kept", [2])],
        [numpy_helper.from_array(np.array(2, np.float32), "two")],
    )
    node = helper.make_node("Loop", ["n", "go", "x"], ["y", "all"], "rounds", body=body)
    weights = {"n": np.array(3), "go": np.array(condition)}
    return model([node], {"x": np.zeros(2, np.float32)}, ["y", "all"], weights)


def scan_network(reverse: int, out_axis: int) -> onnx.ModelProto:
    """Return running sums over the second axis."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "e"], ["s_out"]),
            helper.make_node("Identity", ["s_out"], ["o"]),
        ],
        "body",
        [info("s", [2]), info("e", [2])],
        [info("s_out", [2]), info("o", [2])],
    )
    node = helper.make_node(
        "Scan", ["z", "x"], ["last", "sums"], "sums", body=body, num_scan_inputs=1,
        scan_input_axes=[1], scan_input_directions=[reverse], scan_output_axes=[out_axis],
        scan_output_directions=[reverse],
    )  # fmt: skip
    inputs = {"z": np.zeros(2, np.float32), "x": np.zeros((2, 4), np.float32)}
    return model([node], inputs, ["last", "sums"])


def vector_network(iterations: int) -> onnx.ModelProto:
    """Return a loop whose iteration number is a vector and slices a row, as in torch exports."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["i", "one"], ["next"]),
            helper.make_node("Slice", ["x", "i", "next", "zero"], ["row"]),
            helper.make_node("Add", ["s", "row"], ["s_out"]),
            helper.make_node("Identity", ["c"], ["c_out"]),
            helper.make_node("Cast", ["i"], ["number"], to=TensorProto.FLOAT),
        ],
        "body",
        [info("i", [1], TensorProto.INT64), info("c", [], TensorProto.BOOL), info("s", [1, 2])],
        [info("c_out", [], TensorProto.BOOL), info("s_out", [1, 2]), info("number", [1])],
    )
    node = helper.make_node("Loop", ["n", "go", "s0"], ["y", "all"], "rows", body=body)
    weights = {
        "n": np.array(iterations), "go": np.array(True), "s0": np.ones((1, 2), np.float32),
        "one": np.array([1]), "zero": np.array([0]),
    }  # fmt: skip
    return model([node], {"x": np.zeros((12, 2), np.float32)}, ["y", "all"], weights)


def typed(network: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with output element types, which onnxruntime requires."""
    for value in network.graph.output:
        value.type.tensor_type.elem_type = TensorProto.FLOAT
    return network


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(loop_network(), id="loop"),
        pytest.param(vector_network(3), id="loop of vectors"),
        pytest.param(vector_network(12), id="dynamic loop of vectors"),
        pytest.param(scan_network(0, 0), id="scan"),
        pytest.param(scan_network(1, 1), id="reverse-scan-along-axis-1"),
    ],
)
def test_matches_onnxruntime(network, tmp_path):
    tvmrt.compile(network, executor="aot").export_library(tmp_path / "net.so")
    factory = tvmrt.runtime.load_module(tmp_path / "net.so")
    executor = tvmrt.runtime.executor.AotModule(factory["default"](tvmrt.cpu(0)))
    rng = np.random.default_rng(3)
    feeds = {}
    for value in network.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        feeds[value.name] = rng.standard_normal(shape).astype(np.float32)
    executor.set_input(**feeds)
    executor.run()
    session = onnxruntime.InferenceSession(typed(network).SerializeToString())
    for i, expected in enumerate(session.run(None, feeds)):
        np.testing.assert_allclose(executor.get_output(i).numpy(), expected, rtol=1e-6)
