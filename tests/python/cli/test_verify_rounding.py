"""Test the tolerances of ``tvmrt verify`` for layers that round their operands."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.cli import main

pytest.importorskip("onnxruntime")

ROWS, WIDTH, FEW = 32, 64, 4  # a product with few columns stays in float32
FLOATS, VALUE = TensorProto.FLOAT, helper.make_tensor_value_info

# Tensors that layers in bfloat16 compute, and results of nodes that contain such layers.
LAYERS, NETWORKS, EXACT = {"a", "b", "c"}, {"d", "e"}, {"r", "s", "y"}


def _branch(kind: str, inputs: list[str], result: str, name: str) -> onnx.GraphProto:
    node = helper.make_node(kind, inputs, [result], name)
    return helper.make_graph([node], result, [], [VALUE(result, FLOATS, (ROWS, WIDTH))])


def _write_network(path, names: dict[str, str]) -> None:
    """Write products, an If and a function with a product inside; ``names`` of nodes by result."""

    def node(kind: str, inputs: list[str], result: str, **attributes):
        return helper.make_node(kind, inputs, [result], names.get(result, ""), **attributes)

    rng = np.random.default_rng(5)
    arrays = {f"w{i}": rng.standard_normal((WIDTH, WIDTH)) / 8 for i in range(3)}
    arrays["few"] = rng.standard_normal((WIDTH, FEW))
    weights = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in arrays.items()]
    product = _branch("MatMul", ["r", "w0"], "then", names.get("then", ""))
    other = _branch("Relu", ["r"], "else", names.get("else", ""))
    nodes = [
        node("MatMul", ["x", "w0"], "a"),
        node("MatMul", ["a", "w1"], "b"),
        node("Gemm", ["b", "w2"], "c"),
        node("Relu", ["c"], "r"),
        node("If", ["choice"], "d", then_branch=product, else_branch=other),
        node("Project", ["d", "w1"], "e", domain="mine"),
        node("Relu", ["e"], "s"),
        node("MatMul", ["s", "few"], "y"),
    ]
    opset, mine = helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)
    inner = helper.make_node("MatMul", ["u", "v"], ["p"])
    function = helper.make_function("mine", "Project", ["u", "v"], ["p"], [inner], [opset])
    inputs = [VALUE("x", FLOATS, (ROWS, WIDTH)), VALUE("choice", TensorProto.BOOL, ())]
    inner_shape = [VALUE("e", FLOATS, (ROWS, WIDTH))]
    graph = helper.make_graph(
        nodes, "g", inputs, [VALUE("y", FLOATS, (ROWS, FEW))], weights, value_info=inner_shape
    )
    made = helper.make_model(graph, opset_imports=[opset, mine], ir_version=8, functions=[function])
    onnx.save(made, path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        pytest.param({}, id="unnamed"),
        pytest.param({name: f"node {name}" for name in "abcdersy"}, id="named"),
    ],
)
def test_rounding_is_allowed_exactly_for_nodes_that_round(tmp_path, capsys, names):
    path, inputs = tmp_path / "net.onnx", tmp_path / "in.npz"
    _write_network(path, names)
    x = np.random.default_rng(6).standard_normal((ROWS, WIDTH)).astype(np.float32)
    np.savez(inputs, x=x, choice=np.array(True))
    command = ["verify", str(path), "--inputs", str(inputs), "--precision", "bf16", "--json"]
    code = main(command)
    rows = json.loads(capsys.readouterr().out)["tensors"]
    nodes = {row["tensor"]: row["verdict"] for row in rows if row["part"] == "every node"}
    assert nodes.keys() == LAYERS | NETWORKS | EXACT
    for name in LAYERS | NETWORKS:
        assert nodes[name]["relative"] > 1e-4, f"{name} was computed in float32"
    for name in EXACT:
        assert nodes[name]["error"] < 1e-4 and nodes[name]["allowed"] < 0.02, name
    assert code == 0, [name for name, verdict in nodes.items() if verdict["excess"] > 1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize("seed", range(3))
def test_recurrent_layers_amplify_the_rounding_of_their_inputs(kind, seed, tmp_path, capsys):
    rng, gates = np.random.default_rng(seed), {"GRU": 3, "LSTM": 4}[kind]
    arrays = {
        "w": rng.standard_normal((1, 4 * gates, 32)),
        "r": rng.standard_normal((1, 4 * gates, 4)),
    }
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=4)
    graph = helper.make_graph(
        [node], "g", [VALUE("x", FLOATS, (20, 1, 32))], [VALUE("y", FLOATS, (20, 1, 1, 4))],
        [numpy_helper.from_array(each.astype(np.float32), name) for name, each in arrays.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    assert main(["verify", str(tmp_path / "net.onnx"), "--precision", "bf16"]) == 0
    assert "2 of 2 tensors agree" in capsys.readouterr().out
