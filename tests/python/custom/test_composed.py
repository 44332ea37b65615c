"""Composed operators: one node with an inner graph, kept as a whole for a device or expanded."""

from __future__ import annotations

import numpy as np
import pytest
from custom_case import compiled, example, onnx_model, run
from onnx import TensorProto, helper

import tvmrt
from tvmrt.compiler.devices.region_json import describe_graph
from tvmrt.compiler.ir import CSource
from tvmrt.custom import GraphBuilder, composed
from tvmrt.devices import Device

RNG = np.random.default_rng(5)
STEPS, BATCH, WIDE, HIDDEN = 4, 2, 3, 5


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


RNN = {
    "x": floats(STEPS, BATCH, WIDE),
    "w": floats(1, HIDDEN, WIDE),
    "r": floats(1, HIDDEN, HIDDEN),
    "b": floats(1, 2 * HIDDEN),
    "state": floats(1, BATCH, HIDDEN),
}


def rnn_model(domain: str):
    """Return the recurrence as ONNX's RNN, or as the composed operator of a domain."""
    weights = {k: RNN[k] for k in "wrb"}
    inputs = {k: RNN[k] for k in ("x", "state")}
    if domain:
        node = helper.make_node(
            "Rnn", ["x", "w", "r", "b", "state"], ["y", "last"], "rnn", domain=domain
        )
    else:
        node = helper.make_node(
            "RNN", ["x", "w", "r", "b", "", "state"], ["y", "last"], "rnn", hidden_size=HIDDEN
        )
    return onnx_model([node], inputs, {"y": "f4", "last": "f4"}, weights), inputs


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_recurrent_cell_matches_onnxruntime_rnn(tmp_path, executor):
    ort = pytest.importorskip("onnxruntime")
    standard, inputs = rnn_model("")
    expected = ort.InferenceSession(standard.SerializeToString()).run(None, inputs)
    model, _ = rnn_model("example.recurrent")
    operators = [example("rnn_cell").rnn]
    found = compiled(model, inputs, tmp_path, operators=operators, executor=executor)
    for got, golden in zip(found, expected):
        assert got.shape == golden.shape
        np.testing.assert_allclose(got, golden, 1e-5, 1e-6)


def test_cell_converts_its_output_to_the_declared_type(tmp_path):
    """Fully connected, tanh and conversion to int8 in the quantisation of the activation."""
    g = GraphBuilder()
    x, state = g.input("x", (BATCH, WIDE)), g.input("state", (BATCH, HIDDEN))
    w, r = 10 * RNN["w"][0], RNN["r"][0]
    output, new_state = g.add(
        example("rnn_cell").rnn_cell, x, state, w, r, output_type=TensorProto.INT8
    )
    g.output("output", output)
    g.output("state", new_state)
    feeds = {"x": RNN["x"][0], "state": RNN["state"][0]}
    found = compiled(g, feeds, tmp_path)
    expected = np.tanh(feeds["x"] @ w.T + feeds["state"] @ r.T)
    np.testing.assert_allclose(found[1], expected, 1e-5, 1e-6)
    assert found[0].dtype == np.int8
    np.testing.assert_array_equal(found[0], np.trunc(found[1]))


def test_inner_connections_are_made_when_inputs_and_outputs_are_bound():
    cell = example("rnn_cell").rnn_cell
    g = GraphBuilder()
    instance = cell.create(output_type=TensorProto.FLOAT)
    assert instance.outputs is None
    x, state = g.input("x", (BATCH, WIDE)), g.input("state", (BATCH, HIDDEN))
    instance.bind_inputs(g, x, state, RNN["w"][0], RNN["r"][0])
    assert g.graph().nodes == []
    instance.bind_outputs("hidden", "next")
    assert [v.name for v in instance.outputs] == ["hidden", "next"]
    (node,) = g.graph().nodes
    inside = [inner.op for inner in node.attrs["graph"].nodes]
    assert (inside.count("matmul"), inside.count("tanh")) == (2, 1)
    assert node.attrs["graph"].outputs[1].shape == (BATCH, HIDDEN)


def test_inputs_are_bound_in_a_graph():
    x = GraphBuilder().input("x", (BATCH, WIDE))
    with pytest.raises(
        ValueError, match=r"RNNCell: the first argument is %x.*; pass a GraphBuilder"
    ):
        example("rnn_cell").rnn_cell.create(output_type=1).bind_inputs(x)


def test_bound_instance_refuses_a_second_binding_and_a_clone_accepts_it():
    cell = example("rnn_cell").rnn_cell
    g, other = GraphBuilder("one"), GraphBuilder("two")

    def inputs(graph):
        return graph.input("x", (BATCH, WIDE)), graph.input("s", (BATCH, HIDDEN)), RNN["w"][0]

    theirs = inputs(other)
    instance = cell.create(output_type=1).bind_inputs(g, *inputs(g), RNN["r"][0])
    with pytest.raises(ValueError, match=r"RNNCell: the inputs are bound already; clone\(\) it"):
        instance.bind_inputs(other, *theirs, RNN["r"][0])
    copy = instance.clone().bind_inputs(other, *theirs, RNN["r"][0]).bind_outputs("a", "b")
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


def test_nested_operators_expand_to_the_last(tmp_path):
    g = GraphBuilder()
    x = np.arange(3, dtype=np.float32)
    g.output("y", g.add(nested, g.input("x", (3,)), name="all"))
    library = tvmrt.compile(g)
    assert all(n.op != "composed" for s in library.program.steps for n in s.group.nodes)
    assert {s for step in library.program.steps for s in step.sources} == {"all"}
    np.testing.assert_array_equal(run(library, {"x": x}, tmp_path)[0], 7 * x)


def test_operators_inside_are_registered_with_the_graph():
    g = GraphBuilder()
    g.add(nested, g.input("x", (3,)))
    assert set(g.graph().operators) == {"d::Nested", "d::Twice"}


def test_composed_operator_keeps_its_documentation_and_name():
    assert nested.name == "d::Nested"
    assert nested.doc == "Return two levels of nested operators."


def test_composed_operator_of_custom_kernels(tmp_path):
    hard_swish = example("hard_swish").hard_swish

    @composed("SwishTwice", domain="d")
    def swish_twice(g, x):
        return g.add(hard_swish, g.add(hard_swish, x))

    g = GraphBuilder()
    x = np.linspace(-5, 5, 9, dtype=np.float32)
    g.output("y", g.add(swish_twice, g.input("x", x.shape)))
    (y,) = compiled(g, {"x": x}, tmp_path)
    once = x * np.clip(x / 6 + 0.5, 0, 1)
    np.testing.assert_allclose(y, once * np.clip(once / 6 + 0.5, 0, 1), 1e-5, 1e-6)


def test_composed_operator_overrides_a_built_in_one(tmp_path):
    @composed("Relu", overrides=True)
    def leaky(g, x):
        return g.LeakyRelu(x, alpha=0.5)

    x = np.array([-2, 2], np.float32)
    model = onnx_model([helper.make_node("Relu", ["x"], ["y"])], {"x": x}, {"y": "f4"})
    (y,) = compiled(model, {"x": x}, tmp_path, operators=[leaky])
    np.testing.assert_array_equal(y, [-1, 2])


class SymInt(Device):
    """Device that takes one composed operator by name; its code is written by hand."""

    name = "whole"

    def supports(self, node):
        taken = node.op == "composed" and node.attrs["operator"].name == "d::Twice"
        return None if taken else "only d::Twice is known here"

    def codegen(self, regions, context):
        return CSource("#include <stdint.h>\n" + "".join(map(self.function, regions)))

    def function(self, region) -> str:
        """Return a function of one loop over the elements of each tensor."""
        names = {
            v: f"v{i}" for i, v in enumerate([*region.inputs, *(n.output for n in region.nodes)])
        }
        parameters = [f"const float *in{i}" for i in range(len(region.inputs))]
        parameters += [f"float *out{i}" for i in range(len(region.outputs))]
        lines = [f"float {names[v]} = in{i}[i];" for i, v in enumerate(region.inputs)]
        for node in region.nodes:
            factor = node.attrs["values"]["factor"]
            lines.append(f"float {names[node.output]} = {names[node.inputs[0]]} * {factor}f;")
        lines += [f"out{i}[i] = {names[v]};" for i, v in enumerate(region.outputs)]
        return (
            f"int32_t {region.symbol}({', '.join(parameters)}) {{\n"
            f"  for (int i = 0; i < {region.outputs[0].type.size}; ++i) {{ {' '.join(lines)} }}\n"
            "  return 0;\n}\n"
        )


def test_device_claims_a_nested_named_node(tmp_path):
    g = GraphBuilder()
    x = np.arange(3, dtype=np.float32)
    v = g.input("x", (3,))
    g.output("y", g.add(nested, g.add(twice, v, factor=5.0)))
    library = tvmrt.compile(g, devices=[SymInt()])
    taken = [n.op for r in library.partition.regions for n in r.nodes]
    assert taken == ["composed"] * 4
    np.testing.assert_array_equal(run(library, {"x": x}, tmp_path)[0], 35 * x)


def test_refused_region_is_expanded_on_the_cpu(tmp_path):
    class Fickle(SymInt):
        def evaluate(self, region):
            return "not today"

    g = GraphBuilder()
    x = np.arange(3, dtype=np.float32)
    g.output("y", g.add(twice, g.input("x", (3,))))
    library = tvmrt.compile(g, devices=[Fickle()])
    assert library.partition.regions == []
    np.testing.assert_array_equal(run(library, {"x": x}, tmp_path)[0], 2 * x)


def test_regions_name_an_unexpanded_operator():
    """Devices in C get the qualified name and the attributes, not the inner graph."""
    g = GraphBuilder()
    g.output("y", g.add(twice, g.input("x", (3,)), factor=5.0))
    described = describe_graph(g.graph(), None)
    (node,) = described["nodes"]
    assert node["op"] == "d::Twice"
    assert node["attrs"] == {"factor": 5.0}
