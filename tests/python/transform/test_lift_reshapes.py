"""Reshapes between a matmul and an add (a batch axis of one image) are moved after the add."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.transform import optimize

F32 = np.float32
RNG = np.random.default_rng(7)
INPUTS = {"x": np.zeros((10, 24), F32), "y": np.zeros((1, 10, 16), F32)}
CONSTANTS = {
    "w": RNG.normal(size=(24, 16)).astype(F32),
    "b": RNG.normal(size=16).astype(F32),
    "wide": np.array([10, 1, 16]),
    "cut": np.array([2, 5, 16]),
}


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


GEMM = node("Gemm", "x w b", "g")
# as in torch attention: rows of images, then of tokens, transposed back afterwards
BACK = [node("Reshape", "g wide", "r"), node("Transpose", "r", "t", perm=[1, 0, 2])]
ADD = node("Add", "t y", "z")


def before_add(network) -> list[str]:
    """Add the operands of the addition."""
    graph = import_model(network)
    optimize(graph, lambda name, graph: None)
    (found,) = (n for n in graph.nodes if n.op == "add")
    return [v.producer.op for v in found.inputs if v.producer is not None]


def test_bias_add_follows_its_matmul():
    network = model([GEMM, *BACK, ADD], INPUTS, ["z"], CONSTANTS)
    assert before_add(network) == ["matmul"]
    values = {name: RNG.normal(size=each.shape).astype(F32) for name, each in INPUTS.items()}
    session = onnxruntime.InferenceSession(network.SerializeToString())
    (expected,) = session.run(None, values)
    library = tvmrt.compile(network)
    found = tvmrt.load(library)(**values)
    found = found if isinstance(found, np.ndarray) else next(iter(dict(found).values()))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert len(library.program.steps) == 1


@pytest.mark.parametrize("outputs", [["z", "g"], ["z", "e"]])
def test_matmul_with_other_readers_is_kept(outputs):
    nodes = [GEMM, *BACK, ADD, node("Exp", "g", "e")]
    assert before_add(model(nodes, INPUTS, outputs, CONSTANTS)) == ["reshape"]


def test_sliced_rows_are_kept():
    nodes = [GEMM, node("Reshape", "g cut", "t"), ADD]
    inputs = {**INPUTS, "y": np.zeros((2, 5, 16), F32)}
    assert before_add(model(nodes, inputs, ["z"], CONSTANTS)) == ["reshape"]


def test_multiple_results_are_kept():
    """GRU results that are reshaped before an add."""
    network = model(
        [
            node("GRU", "x w r", "h last", hidden_size=16),
            node("Reshape", "h rows", "t"),
            node("Exp", "last", "e"),
            node("Add", "t y", "z"),
        ],
        {"x": np.zeros((10, 1, 24), F32), "y": np.zeros((1, 10, 16), F32)},
        ["z", "e"],
        {
            "w": RNG.normal(size=(1, 48, 24)).astype(F32),
            "r": RNG.normal(size=(1, 48, 16)).astype(F32),
            "rows": np.array([1, 10, 16]),
        },
    )
    assert before_add(network) == ["reshape"]
