"""Composed operators: one node with an inner graph, kept as a whole for a device or expanded."""

from __future__ import annotations

import numpy as np
import pytest
from custom_case import compiled, example, onnx_model, run
from onnx import TensorProto, helper

import tvmrt
from tvmrt.custom import GraphBuilder, composed
from tvmrt.devices import PythonDevice

RNG = np.random.default_rng(5)
STEPS, BATCH, WIDE, HIDDEN = 4, 2, 3, 5


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


SEQUENCE = {"x": floats(STEPS, BATCH, WIDE), "state": floats(1, BATCH, HIDDEN)}
WEIGHTS = {"w": floats(1, HIDDEN, WIDE), "r": floats(1, HIDDEN, HIDDEN), "b": floats(1, 2 * HIDDEN)}
X, STATE, W, R = SEQUENCE["x"][0], SEQUENCE["state"][0], WEIGHTS["w"][0], WEIGHTS["r"][0]


def rnn_model(op: str, inputs: list[str], **more):
    node = helper.make_node(op, inputs, ["y", "last"], "rnn", **more)
    return onnx_model([node], SEQUENCE, {"y": "f4", "last": "f4"}, WEIGHTS)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_recurrent_cell_matches_onnxruntime_rnn(tmp_path, executor):
    ort = pytest.importorskip("onnxruntime")
    standard = rnn_model("RNN", ["x", "w", "r", "b", "", "state"], hidden_size=HIDDEN)
    expected = ort.InferenceSession(standard.SerializeToString()).run(None, SEQUENCE)
    model = rnn_model("Rnn", ["x", "w", "r", "b", "state"], domain="example.recurrent")
    operators = [example("rnn_cell").rnn]
    found = compiled(model, SEQUENCE, tmp_path, operators=operators, executor=executor)
    for got, golden in zip(found, expected):
        assert got.shape == golden.shape
        np.testing.assert_allclose(got, golden, 1e-5, 1e-6)


def cell_inputs(g: GraphBuilder) -> list:
    return [g.input("x", X.shape), g.input("state", STATE.shape), 10 * W, R]


def test_cell_converts_its_output_to_the_declared_type(tmp_path):
    """Fully connected, tanh and conversion to int8 in the quantisation of the activation."""
    g = GraphBuilder()
    cell = example("rnn_cell").rnn_cell
    output, new_state = g.add(cell, *cell_inputs(g), output_type=TensorProto.INT8)
    g.output("output", output)
    g.output("state", new_state)
    found = compiled(g, {"x": X, "state": STATE}, tmp_path)
    np.testing.assert_allclose(found[1], np.tanh(X @ (10 * W).T + STATE @ R.T), 1e-5, 1e-6)
    assert found[0].dtype == np.int8
    np.testing.assert_array_equal(found[0], np.trunc(found[1]))


def test_inner_connections_are_made_when_inputs_and_outputs_are_bound():
    g = GraphBuilder()
    instance = example("rnn_cell").rnn_cell.create(output_type=TensorProto.FLOAT)
    assert instance.outputs is None
    instance.bind_inputs(g, *cell_inputs(g))
    assert g.graph().nodes == []
    instance.bind_outputs("hidden", "next")
    assert [v.name for v in instance.outputs] == ["hidden", "next"]
    (node,) = g.graph().nodes
    inside = [inner.op for inner in node.attrs["graph"].nodes]
    assert (inside.count("matmul"), inside.count("tanh")) == (2, 1)
    assert node.attrs["graph"].outputs[1].shape == (BATCH, HIDDEN)


def test_bound_instance_refuses_a_second_binding_and_a_clone_accepts_it():
    cell = example("rnn_cell").rnn_cell
    g, other = GraphBuilder("one"), GraphBuilder("two")
    theirs = cell_inputs(other)
    with pytest.raises(
        ValueError, match=r"RNNCell: the first argument is %x.*; pass a GraphBuilder"
    ):
        cell.create(output_type=1).bind_inputs(*theirs)
    instance = cell.create(output_type=1).bind_inputs(g, *cell_inputs(g))
    with pytest.raises(ValueError, match=r"RNNCell: the inputs are bound already; clone\(\) it"):
        instance.bind_inputs(other, *theirs)
    copy = instance.clone().bind_inputs(other, *theirs).bind_outputs("a", "b")
    assert copy.attributes == instance.attributes
    assert len(other.graph().nodes) == 1
    assert g.graph().nodes == []


@composed("Twice", domain="d")
def twice(g, x, *, factor=2.0):
    """Return x times factor as one node."""
    return g.Mul(x, factor)


@composed("Nested", domain="d")
def nested(g, x):
    """Return two levels of nested operators."""
    return g.Add(g.add(twice, g.add(twice, x)), g.add(twice, x, factor=3.0))


def test_operators_inside_are_registered_with_the_graph():
    g = GraphBuilder()
    g.add(nested, g.input("x", (3,)))
    assert set(g.graph().operators) == {"d::Nested", "d::Twice"}


def test_composed_operator_keeps_its_documentation_and_name():
    assert nested.name == "d::Nested"
    assert nested.doc == "Return two levels of nested operators."


def test_composed_operator_overrides_a_built_in_one(tmp_path):
    @composed("Relu", overrides=True)
    def leaky(g, x):
        return g.LeakyRelu(x, alpha=0.5)

    x = np.array([-2, 2], np.float32)
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": x}, {"y": "f4"})
    (y,) = compiled(model, {"x": x}, tmp_path, operators=[leaky])
    np.testing.assert_array_equal(y, [-1, 2])


class Whole(PythonDevice):
    """Device that takes one composed operator by name. It gets the qualified name and the
    attributes, not the inner graph."""

    name = "whole"
    refusal = None

    def supports(self, node):
        taken = node.op == "composed" and node.attrs["operator"].name == "d::Twice"
        return None if taken else "only d::Twice is known here"

    def evaluate(self, region):
        return self.refusal

    def compute(self, node, inputs):
        assert (node.op, set(node.attrs)) == ("d::Twice", {"factor"})
        return inputs[0] * np.float32(node.attrs["factor"])


@pytest.mark.parametrize(("refusal", "taken"), [(None, 4), ("not today", 0)])
def test_device_claims_a_nested_named_node(tmp_path, refusal, taken):
    """If it refuses the regions, the operators are expanded for the CPU."""
    device = Whole()
    device.refusal = refusal
    device.enter_runtime()
    g = GraphBuilder()
    x = np.arange(3, dtype=np.float32)
    g.output("y", g.add(nested, g.add(twice, g.input("x", (3,)), factor=5.0), name="all"))
    library = tvmrt.compile(g, devices=[device])
    claimed = [n.op for r in library.partition.regions for n in r.nodes]
    assert claimed == ["composed"] * taken
    assert all(n.op != "composed" for s in library.program.steps for n in s.group.nodes)
    np.testing.assert_array_equal(run(library, {"x": x}, tmp_path)[0], 35 * x)
