"""Test ``tvmrt verify`` for onnxruntime's int8 operators, whose ties round either way, and for
matmuls whose activations onnxruntime may round to 8 bits."""

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
        ("mine", False, {"read"}),
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


DEPTH, COLUMNS, BLOCK = 128, 32, 32  # of int4 weights


def write_matmuls(path, rows):
    """Write matmuls that permit int8 activations: one node, one in an If, and one of a function.
    Return their weights."""
    rng, value = np.random.default_rng(3), helper.make_tensor_value_info
    numbers = rng.integers(0, 256, (COLUMNS, DEPTH // BLOCK, BLOCK // 2)).astype(np.uint8)
    scales = rng.uniform(0.01, 0.03, COLUMNS * DEPTH // BLOCK).astype(np.float32)
    initial = [numpy_helper.from_array(numbers, "w"), numpy_helper.from_array(scales, "s")]

    def matmul(x, result):
        return helper.make_node(
            "MatMulNBits", [x, "w", "s"], [result], domain="com.microsoft", K=DEPTH, N=COLUMNS,
            bits=4, block_size=BLOCK, accuracy_level=4,
        )  # fmt: skip

    shape = (rows, COLUMNS)
    branches = {
        f"{name}_branch": helper.make_graph(
            [matmul(x, name)], name, [], [value(name, TensorProto.FLOAT, shape)]
        )
        for name, x in (("then", "x"), ("else", "x2"))
    }
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    function = helper.make_function(
        "mine", "Project", ["x", "w", "s"], ["f"], [matmul("x", "f")], opsets
    )
    nodes = [
        helper.make_node("Neg", ["x"], ["x2"]),
        matmul("x", "a"),
        helper.make_node("If", ["c"], ["b"], **branches),
        helper.make_node("Project", ["x", "w", "s"], ["d"], domain="mine"),
    ]
    inputs = [value("x", TensorProto.FLOAT, (rows, DEPTH)), value("c", TensorProto.BOOL, ())]
    outputs = [value(name, TensorProto.FLOAT, shape) for name in "abd"]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial)
    imports = [*opsets, helper.make_opsetid("mine", 1)]
    onnx.save(
        helper.make_model(graph, opset_imports=imports, ir_version=8, functions=[function]), path
    )
    pairs = np.stack([numbers & 15, numbers >> 4], axis=-1).reshape(COLUMNS, -1, BLOCK)
    return ((pairs - 8.0) * scales.reshape(COLUMNS, -1, 1)).reshape(COLUMNS, DEPTH).T


def write_dequantised_matmul(path, rows):
    """Write a matmul with dequantised weights, which onnxruntime's optimiser makes one node of.
    Return its weights."""
    rng, value = np.random.default_rng(4), helper.make_tensor_value_info
    numbers = rng.integers(-8, 8, DEPTH * COLUMNS)
    scales = rng.uniform(0.01, 0.03, (DEPTH // BLOCK, COLUMNS)).astype(np.float32)
    initial = [
        helper.make_tensor("w", TensorProto.INT4, (DEPTH, COLUMNS), numbers.tolist()),
        numpy_helper.from_array(scales, "s"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["v"], axis=0, block_size=BLOCK),
        helper.make_node("MatMul", ["x", "v"], ["a"]),
    ]
    x = value("x", TensorProto.FLOAT, (rows, DEPTH))
    a = value("a", TensorProto.FLOAT, (rows, COLUMNS))
    graph = helper.make_graph(nodes, "g", [x], [a], initial)
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return numbers.reshape(DEPTH, COLUMNS) * scales.repeat(BLOCK, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "rows", "results"),
    [
        pytest.param(write_matmuls, 1, set("abd"), id="a-row"),
        pytest.param(write_matmuls, 20, set("abd"), id="rows"),
        pytest.param(write_dequantised_matmul, 8, {"a"}, id="dequantised-weights"),
    ],
)
def test_permitted_rounding_widens_no_tolerance(tmp_path, capsys, write, rows, results):
    path, inputs = tmp_path / "net.onnx", tmp_path / "in.npz"
    weights = write(path, rows)
    x = np.random.default_rng(5).standard_normal((rows, DEPTH)).astype(np.float32)
    choice = {"c": np.array(False)} if len(results) > 1 else {}
    np.savez(inputs, x=x, **choice)
    assert main(["verify", str(path), "--inputs", str(inputs), "--json"]) == 0
    tensors = json.loads(capsys.readouterr().out)["tensors"]
    verdicts = [row["verdict"] for row in tensors if row["tensor"] in results]
    assert len(verdicts) == 2 * len(results), "of each result as output and alone"
    # rounding of x to 8 bits changes results by more than 0.3 % of the largest
    largest = np.abs(x.astype(np.float64) @ weights).max()
    assert all(verdict["error"] < 1e-5 * largest for verdict in verdicts)
    assert all(verdict["allowed"] < 1.2e-3 * largest for verdict in verdicts)
