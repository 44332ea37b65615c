"""Networks whose tensors have no elements compile and run."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model
from small_network import small_network

import tvmrt
from tvmrt.contrib import graph_executor


def no_images() -> onnx.ModelProto:
    network = small_network()
    for value in (network.graph.input[0], network.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = 0
    return network


def no_rows() -> onnx.ModelProto:
    """Two halves whose memory could lie in that of what joins them."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["x"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
        helper.make_node("ReduceSum", ["c", "rows"], ["y"], keepdims=0),
    ]
    weights = {"w": np.ones((3, 4), np.float32), "rows": np.array([0], np.int64)}
    return model(nodes, {"x": np.zeros((0, 3), np.float32)}, ["y"], weights)


def no_terms() -> onnx.ModelProto:
    """Products whose sums have no terms, with a bias and without, of floats and of bytes."""
    nodes = [
        helper.make_node("Gemm", ["x", "w", "bias"], ["a"]),
        helper.make_node("MatMul", ["x", "w"], ["b"]),
        helper.make_node("Cast", ["x"], ["bytes"], to=onnx.TensorProto.UINT8),
        helper.make_node("MatMulInteger", ["bytes", "q"], ["c"]),
        helper.make_node("Cast", ["c"], ["d"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Concat", ["a", "b", "d"], ["y"], axis=1),
    ]
    weights = {"w": np.zeros((0, 4), np.float32), "q": np.zeros((0, 5), np.int8)}
    weights["bias"] = np.arange(4, dtype=np.float32)
    return model(nodes, {"x": np.zeros((2, 0), np.float32)}, ["y"], weights)


@pytest.mark.parametrize("network", [no_images(), no_rows()], ids=["no_images", "no_rows"])
def test_network_without_elements_runs(network, tmp_path):
    x = network.graph.input[0]
    shape = [d.dim_value for d in x.type.tensor_type.shape.dim]
    session = onnxruntime.InferenceSession(network.SerializeToString())
    (expected,) = session.run(None, {"x": np.zeros(shape, np.float32)})
    tvmrt.compile(network).export_library(tmp_path / "empty.so")
    factory = tvmrt.runtime.load_module(tmp_path / "empty.so")
    executor = graph_executor.GraphModule(factory["default"](tvmrt.cpu()))
    executor.run(x=np.zeros(shape, np.float32))
    np.testing.assert_array_equal(executor.get_output(0).numpy(), expected)


def test_products_without_terms_are_their_bias(tmp_path):
    """onnxruntime leaves those of integers as its memory was."""
    tvmrt.compile(no_terms(), target="native").export_library(tmp_path / "terms.so")
    factory = tvmrt.runtime.load_module(tmp_path / "terms.so")
    executor = graph_executor.GraphModule(factory["default"](tvmrt.cpu()))
    executor.run(x=np.zeros((2, 0), np.float32))
    expected = np.tile(np.float32([*range(4), *[0] * 9]), (2, 1))
    np.testing.assert_array_equal(executor.get_output(0).numpy(), expected)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_weights_in_a_file_may_be_empty(executor, tmp_path):
    """Such a weight is not in the file, and its layer runs."""
    nodes = [helper.make_node("Concat", ["none", "x"], ["y"], axis=0)]
    nodes += [helper.make_node("Identity", ["none"], ["z"])]
    x = np.arange(3, dtype=np.float32)
    network = model(nodes, {"x": x}, ["y", "z"], {"none": np.zeros(0, np.float32)})
    library = tvmrt.compile(network, executor=executor, params="file")
    library.export_library(tmp_path / "empty.so")
    made = tvmrt.runtime.load_module(tmp_path / "empty.so")["default"](tvmrt.cpu())
    kind = graph_executor.GraphModule if executor == "graph" else tvmrt.runtime.executor.AotModule
    runner = kind(made)
    runner.run(x=x)
    np.testing.assert_array_equal(runner.get_output(0).numpy(), x)
    assert runner.get_output(1).numpy().shape == (0,)
