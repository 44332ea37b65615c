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
    """Return a network whose two halves could share memory with their concatenation."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["x"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
        helper.make_node("ReduceSum", ["c", "rows"], ["y"], keepdims=0),
    ]
    weights = {"w": np.ones((3, 4), np.float32), "rows": np.array([0], np.int64)}
    return model(nodes, {"x": np.zeros((0, 3), np.float32)}, ["y"], weights)


def no_terms() -> onnx.ModelProto:
    """Return matmuls over an empty axis, with and without bias, in float and int8."""
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


def test_matmul_over_an_empty_axis_is_its_bias(tmp_path):
    """onnxruntime leaves integer results uninitialised."""
    tvmrt.compile(no_terms(), target="native").export_library(tmp_path / "terms.so")
    factory = tvmrt.runtime.load_module(tmp_path / "terms.so")
    executor = graph_executor.GraphModule(factory["default"](tvmrt.cpu()))
    executor.run(x=np.zeros((2, 0), np.float32))
    expected = np.tile(np.float32([*range(4), *[0] * 9]), (2, 1))
    np.testing.assert_array_equal(executor.get_output(0).numpy(), expected)


def no_terms_of_two() -> onnx.ModelProto:
    """Return matmuls of two inputs over an empty axis, which may be dynamic."""
    zeros = {"a": ["a", "sa", "za"], "b": ["b", "sb", "zb"], "y": ["sy", "zy"]}
    nodes = [
        helper.make_node("MatMulInteger", ["a", "b", "za", "zb"], ["sums"]),
        helper.make_node("QLinearMatMul", [*zeros["a"], *zeros["b"], *zeros["y"]], ["bytes"]),
        helper.make_node("Cast", ["a"], ["fa"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Cast", ["b"], ["fb"], to=onnx.TensorProto.FLOAT),
        helper.make_node("MatMul", ["fa", "fb"], ["floats"]),
    ]
    weights = {f"s{name}": np.array(0.5, np.float32) for name in "aby"}
    weights["za"], weights["zb"] = np.array(3, np.uint8), np.array(-1, np.int8)
    weights["zy"] = np.array(7, np.uint8)
    inputs = {"a": np.zeros((2, 0), np.uint8), "b": np.zeros((0, 5), np.int8)}
    return model(nodes, inputs, ["sums", "bytes", "floats"], weights)


@pytest.mark.parametrize("is_open", [False, True], ids=["none", "open"])
def test_matmul_of_empty_tensors_is_zero(is_open):
    """Integer results are 0, quantised results their zero point."""
    network = no_terms_of_two()
    if is_open:
        for value, axis in zip(network.graph.input, (1, 0)):
            value.type.tensor_type.shape.dim[axis].dim_param = "terms"
    net = tvmrt.load(network, **({"dims": {"terms": (0, 9)}} if is_open else {}))
    for terms in (0, 9, 1) if is_open else (0,):
        a = np.arange(2 * terms, dtype=np.uint8).reshape(2, terms)
        b = np.arange(5 * terms, dtype=np.int8).reshape(terms, 5) - np.int8(20)
        sums = (a.astype(np.int32) - 3) @ (b.astype(np.int32) + 1)
        found = net(a=a, b=b)
        np.testing.assert_array_equal(found[0], sums)
        np.testing.assert_array_equal(found[1], np.clip(np.rint(sums / 2) + 7, 0, 255))
        np.testing.assert_array_equal(found[2], a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_weights_in_a_file_may_be_empty(executor, tmp_path):
    """The file has no data for such a weight, and its layer runs."""
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
