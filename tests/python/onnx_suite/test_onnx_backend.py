"""The ONNX backend interface: models, nodes, devices, invalid arguments."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_backend
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.error import UnsupportedError


@pytest.fixture(scope="module")
def network():
    """Return y = x * w + b, where w is an input with a default value, and z = -y."""
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["xw"]),
        helper.make_node("Add", ["xw", "b"], ["y:0"]),
        helper.make_node("Neg", ["y:0"], ["z"]),
    ]
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xwb"]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("y:0", "z")]
    weights = [numpy_helper.from_array(np.float32([1, 2, 3]), "w")]
    graph = helper.make_graph(nodes, "three", inputs, outputs, weights)
    return onnx_backend.prepare(helper.make_model(graph))


X, B, W = np.float32([1, 1, 2]), np.float32([0, 5, -1]), np.float32([1, 2, 3])
WANTED = np.float32([1, 7, 5])


@pytest.mark.parametrize("inputs", [[X, B], (X, W, B), {"x": X, "b": B}, {"b": B, "w": W, "x": X}])
def test_inputs_by_order_and_by_name(network, inputs):
    result = network.run(inputs)
    np.testing.assert_array_equal(result[0], WANTED)
    np.testing.assert_array_equal(result["y:0"], WANTED)
    np.testing.assert_array_equal(result.z, -WANTED)


def test_results_are_not_overwritten(network):
    first = network.run([X, B])
    network.run([X * 2, B])
    np.testing.assert_array_equal(first.z, -WANTED)


def test_too_few_inputs(network):
    with pytest.raises(ValueError, match="1 inputs are given; the model has x, b"):
        network.run([X])


def test_unknown_input(network):
    with pytest.raises(KeyError, match="the inputs are x, b"):
        network.run({"x": X, "c": B})


def test_unknown_run_option(network):
    with pytest.raises(TypeError, match="options go to prepare"):
        network.run([X, B], target="host")


def test_devices():
    assert onnx_backend.supports_device("CPU")
    assert onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("CUDA")
    assert not onnx_backend.supports_device("NPU")
    with pytest.raises(ValueError, match="device CUDA is not supported"):
        onnx_backend.prepare(onnx.ModelProto(), "CUDA")


def test_a_node():
    node = helper.make_node("Clip", ["x", "", "most"], ["y"])
    (y,) = onnx_backend.run_node(node, [X, np.float32(1.5)])
    np.testing.assert_array_equal(y, np.float32([1, 1, 1.5]))
    info = [(np.float32, (3,))]
    (y,) = onnx_backend.run_node(
        node, {"x": X, "most": np.float32(1)}, outputs_info=info, opset_version=12
    )
    np.testing.assert_array_equal(y, np.float32([1, 1, 1]))


def test_node_that_cannot_be_compiled():
    node = helper.make_node("ImageDecoder", ["x"], ["y"])
    with pytest.raises(UnsupportedError, match="ImageDecoder"):
        onnx_backend.run_node(node, [np.zeros(4, np.uint8)])
