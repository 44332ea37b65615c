"""Test ``tvmrt verify`` for networks whose state onnxruntime rounds to int8 at each step; tvmrt
keeps floats."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.cli import main

pytest.importorskip("onnxruntime")

STEPS, SIZE = 7, 9


def layer(rng, x: str, width: int, number: int):
    """A node, its weights, and the name of its result: both ways, as the quantiser writes it.

    Of seven bits: without VNNI onnxruntime's sums of two products of eight overflow.
    """
    weights = {
        f"w{number}": rng.integers(-64, 64, (2, width, 4 * SIZE)).astype(np.int8),
        f"r{number}": rng.integers(-64, 64, (2, SIZE, 4 * SIZE)).astype(np.int8),
        f"ws{number}": np.full(2, 0.012, np.float32),
        f"wz{number}": np.zeros(2, np.int8),
        f"rs{number}": np.full(2, 0.012, np.float32),
        f"rz{number}": np.zeros(2, np.int8),
    }
    w, r, *scales = weights
    inputs = [x, w, r, "", "", "", "", "", *scales]
    made = helper.make_node(
        "DynamicQuantizeLSTM", inputs, [f"h{number}"], f"lstm{number}", domain="com.microsoft",
        direction="bidirectional", hidden_size=SIZE,
    )  # fmt: skip
    return made, [numpy_helper.from_array(value, name) for name, value in weights.items()]


@pytest.fixture
def network(tmp_path):
    rng = np.random.default_rng(3)
    nodes, weights = zip(layer(rng, "a", 5, 1), layer(rng, "b", 2 * SIZE, 2))
    turn = helper.make_node("Transpose", ["h1"], ["t"], "turn", perm=[0, 2, 1, 3])
    join = helper.make_node("Reshape", ["t", "shape"], ["b"], "join")
    nodes = [helper.make_node("Tanh", ["x"], ["a"], "tanh"), nodes[0], turn, join, nodes[1]]
    shape = numpy_helper.from_array(np.int64([STEPS, 3, 2 * SIZE]), "shape")
    value = helper.make_tensor_value_info
    kept = [  # as the quantiser records for tensors between nodes
        value("h1", TensorProto.FLOAT, (STEPS, 2, 3, SIZE)),
        value("b", TensorProto.FLOAT, (STEPS, 3, 2 * SIZE)),
    ]
    inputs = [value("x", TensorProto.FLOAT, (STEPS, 3, 5))]
    outputs = [
        value("h2", TensorProto.FLOAT, (STEPS, 2, 3, SIZE)),
        value("a", TensorProto.FLOAT, (STEPS, 3, 5)),
    ]
    initial = [*weights[0], *weights[1], shape]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initial, value_info=kept)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "states.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.mark.slow
def test_float_states_pass_and_other_tolerances_stay(network, capsys):
    assert main(["verify", str(network), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["tensors"]
    parts = {(row["part"], row["tensor"]): row["verdict"] for row in rows}
    for part, loose in (("outputs", "h2"), ("every node", "h1"), ("every node", "h2")):
        verdict = parts[part, loose]
        assert verdict["error"] > 2e-4, "nearer than bytes are: the bound of others would do"
        assert verdict["relative"] < 2**-6
    for near in (("outputs", "a"), ("every node", "a"), ("every node", "b")):
        assert parts[near]["allowed"] < 2e-3
