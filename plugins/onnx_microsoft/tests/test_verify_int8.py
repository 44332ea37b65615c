"""Test ``tvmrt verify`` for onnxruntime's int8 operators, whose ties round either way."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.cli import main, onnx_reference

pytest.importorskip("onnxruntime")

# For some pairs of int8 inputs the sum is so close to halfway between two steps that onnxruntime,
# which adds the zero point before it rounds, rounds to the other step.
SCALES = {"as": 0.012480457, "bs": 0.011478198, "ys": 0.015334968}
ZEROS = {"az": 120, "bz": 130, "yz": 121}


@pytest.fixture
def network(tmp_path):
    """Write a network that adds, transposes and dequantises int8 tensors, and its inputs."""
    numbers = {name: np.float32(scale) for name, scale in SCALES.items()}
    numbers |= {name: np.uint8(zero) for name, zero in ZEROS.items()}
    sums = ["a", "as", "az", "b", "bs", "bz", "ys", "yz"]
    nodes = [
        helper.make_node("QLinearAdd", sums, ["sum"], "add", domain="com.microsoft"),
        helper.make_node("Transpose", ["sum"], ["turned"], "turn", perm=[1, 0]),
        helper.make_node("DequantizeLinear", ["turned", "ys", "yz"], ["floats"], "widen"),
        helper.make_node("Relu", ["floats"], ["y"], "relu"),
    ]
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.UINT8, (256, 256)) for name in "ab"]
    outputs = [value(name, TensorProto.FLOAT, (256, 256)) for name in ("floats", "y")]
    initial = [numpy_helper.from_array(each, name) for name, each in numbers.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "bytes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    a, b = np.mgrid[:256, :256].astype(np.uint8)
    np.savez(tmp_path / "in.npz", a=a, b=b)
    return path, tmp_path / "in.npz"


def test_each_node_is_compared_with_a_tolerance_of_one_step(network, capsys):
    path, inputs = network
    assert main(["verify", str(path), "--inputs", str(inputs), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tensors"]
    every = {row["tensor"]: row for row in rows if row["part"] == "every node"}
    assert {"sum", "turned", "floats", "y"} <= every.keys()
    assert every["sum"]["dtype"] == "uint8" and every["sum"]["verdict"]["error"] <= 1
    assert every["floats"]["verdict"]["error"] == 0, "what is made of our bytes is the same number"


def test_tolerance_of_one_step_is_for_int8_only(network):
    model = onnx.load(network[0])
    assert onnx_reference.dequantize_scales(model) == dict.fromkeys(
        ["floats", "y"], np.float32(SCALES["ys"])
    )
    model.graph.initializer[5].CopyFrom(numpy_helper.from_array(np.uint16(121), "yz"))
    assert onnx_reference.dequantize_scales(model) == {}


@pytest.mark.parametrize(
    ("domain", "untyped", "seen"),
    [
        ("com.microsoft", False, {"read"}),
        ("mine", False, set()),
        ("mine", True, {"read", "unread"}),
    ],
)
def test_tensors_without_a_type_are_observed(domain, untyped, seen):
    nodes = [
        helper.make_node("Halves", ["x"], ["read", "unread"], domain=domain),
        helper.make_node("Relu", ["read"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=opsets)
    observed = onnx_reference.with_all_tensors_as_outputs(model, untyped)
    assert {output.name for output in observed.graph.output} == {"y"} | seen
