"""Value names of a network: duplicate, undefined and late definitions are refused."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.compiler.frontend.onnx import import_model


def info(name: str, shape=(4,), kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(text: str, name: str = "", **attributes) -> onnx.NodeProto:
    """Parse ``"a b = Add c d"`` as a node."""
    outputs, call = text.split("=")
    op, *inputs = call.split()
    return helper.make_node(op, inputs, outputs.split(), name, **attributes)


def weights(name: str, *values: float) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.float32), name)


def network(*texts, inputs=("x",), outputs=("y",), initializer=()) -> onnx.ModelProto:
    nodes = [node(t) if isinstance(t, str) else t for t in texts]
    graph = helper.make_graph(
        nodes,
        "net",
        [i if isinstance(i, onnx.ValueInfoProto) else info(i) for i in inputs],
        [o if isinstance(o, onnx.ValueInfoProto) else info(o) for o in outputs],
        list(initializer),
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def branch(*texts, result: onnx.ValueInfoProto | None = None) -> onnx.GraphProto:
    nodes = [node(t) if isinstance(t, str) else t for t in texts]
    return helper.make_graph(nodes, "arm", [], [result or info("b")])


def conditional(then: onnx.GraphProto, other: onnx.GraphProto, *before: str) -> onnx.ModelProto:
    choice = helper.make_node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)
    return network(*before, choice, inputs=["x", info("c", (), TensorProto.BOOL)])


FOUR = weights("w", 1, 2, 3, 4)
REFUSED = {
    "two nodes make one tensor": (
        network("a = Neg x", "a = Abs x", "y = Neg a"),
        r"node Abs_a \(Abs\) produces a, which is already produced by node Neg_a \(Neg\)",
    ),
    "two inputs of one name": (
        network("y = Neg x", inputs=["x", "x"]),
        "two inputs of graph net are named x",
    ),
    "two weights of one name": (
        network("y = Add x w", initializer=[FOUR, weights("w", 5, 6, 7, 8)]),
        "two weights of graph net are named w",
    ),
    "a node makes an input": (
        network("x = Neg x", "y = Abs x"),
        "produces x, which is already an input",
    ),
    "a node makes weights": (
        network("w = Neg x", "y = Abs w", initializer=[FOUR]),
        "produces w, which is already weights",
    ),
    "a branch makes a name again": (
        conditional(branch("a = Neg x", "b = Neg a"), branch("b = Abs x"), "a = Abs x"),
        "produces a, which is already a tensor of the enclosing graph",
    ),
    "what nothing makes": (
        network("y = Add x z"),
        r"node Add_y \(Add\) reads z, which no earlier node produces",
    ),
    "a cycle": (network("a = Add x b", "b = Neg a", "y = Neg a"), "form a cycle"),
    "a reader of a cycle": (network("y = Neg a", "a = Add x b", "b = Neg a"), "form a cycle"),
    "a cycle through a branch": (
        conditional(branch("b = Neg t"), branch("b = Abs x"), "t = Neg y"),
        "form a cycle",
    ),
    "an output of nothing": (
        network("a = Neg x"),
        "output y of graph net is not produced by any node",
    ),
    "an output of another type": (
        network("y = Neg x", outputs=[info("y", (4,), TensorProto.INT64)]),
        "output y is declared int64, its elements are float32",
    ),
    "an input whose weights have another shape": (
        network("y = Add x w", inputs=["x", info("w", (1,))], initializer=[FOUR]),
        r"input w is declared \[1\], its weights are float32\[4\]",
    ),
    "an input whose weights have another type": (
        network(
            "y = Add x w", inputs=["x", info("w", (4,), TensorProto.INT64)], initializer=[FOUR]
        ),
        "input w is declared int64, its weights are float32",
    ),
    "an input without a type": (
        network("y = Neg x", inputs=[onnx.ValueInfoProto(name="x")]),
        "input x has no type",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradiction_is_refused(name):
    model, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        import_model(model)


def without_name(model: onnx.ModelProto) -> onnx.ModelProto:
    model.graph.name = ""
    return model


TAKEN = {
    "declared shape of a result that is wrong": network("y = Neg x", outputs=[info("y", (5, 5))]),
    "declared result without a shape": network("y = Neg x", outputs=[info("y", None)]),
    "declared result without a type": network(
        "y = Neg x", outputs=[helper.make_empty_tensor_value_info("y")]
    ),
    "graph without a name": without_name(network("y = Neg x")),
    "weights that are no input in an old file": network("y = Add x w", initializer=[FOUR]),
    "node of ai.onnx": network(helper.make_node("Neg", ["x"], ["y"], domain="ai.onnx")),
    "one name in two branches": conditional(branch("b = Neg x"), branch("b = Abs x")),
    "results of branches without types": conditional(
        branch("b = Neg x", result=helper.make_empty_tensor_value_info("b")),
        branch("b = Abs x", result=helper.make_empty_tensor_value_info("b")),
    ),
    "results of branches without shapes": conditional(
        branch("b = Neg x", result=info("b", None)), branch("b = Abs x", result=info("b", None))
    ),
}
TAKEN["weights that are no input in an old file"].ir_version = 3


@pytest.mark.parametrize("name", TAKEN)
def test_networks_that_onnxruntime_accepts_are_accepted(name):
    assert import_model(TAKEN[name]).outputs


def test_nodes_of_equal_names_are_distinguished():
    then = branch(node("a = Neg x", "m"), node("b = Abs a", "m"))
    model = conditional(
        then, branch("b = Floor x"),
        node("t = Exp x", "n"), node("u = Sin t", "n_2"), node("v = Cos u", "n"),
    )  # fmt: skip
    model.graph.output.append(info("v"))
    before = model.SerializeToString()
    types = import_model(model).op_types
    assert model.SerializeToString() == before  # it belongs to the caller
    assert {name: types[name] for name in ("n", "n_2", "n_3", "m", "m_2")} == {
        "n": "Exp", "n_2": "Sin", "n_3": "Cos", "m": "Neg", "m_2": "Abs",
    }  # fmt: skip


@pytest.mark.parametrize("unknown", [-1, "?", "*", "-1"])
def test_unknown_extents_are_dynamic(unknown):
    shape = (unknown, 3, unknown, unknown)
    model = network("y = Neg x", inputs=[info("x", shape)], outputs=[info("y", shape)])
    assert import_model(model, shapes={"x": (2, 3, 5, 7)}).outputs[0].shape == (2, 3, 5, 7)
    with pytest.raises(ValueError, match=r"\[x_0, 3, x_2, x_3\], where x_0, x_2, x_3 are"):
        import_model(model)


def test_declared_type_between_nodes_is_checked():
    model = network("a = Neg x", "y = Abs a")
    model.graph.value_info.append(info("a", (4,), TensorProto.INT64))
    with pytest.raises(ValueError, match="inferred elem type differs from existing elem type"):
        import_model(model)


def test_function_with_undefined_values_is_refused():
    model = network(helper.make_node("Fn", ["x"], ["y"], domain="f"))
    model.opset_import.append(helper.make_opsetid("f", 1))
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(
        helper.make_function("f", "Fn", ["a"], ["b"], [node("b = Add a z")], opsets)
    )
    with pytest.raises(ValueError, match="reads z, which no earlier node produces"):
        import_model(model)


@pytest.mark.parametrize(
    ("inputs", "outputs", "text"),
    [(["x", "x"], ["y"], "2 inputs, and the function Fn has 1"),
     (["x"], ["y", "z"], "2 outputs, and the function Fn has 1")],
)  # fmt: skip
def test_call_with_more_operands_than_the_function_is_refused(inputs, outputs, text):
    model = network(helper.make_node("Fn", inputs, outputs, domain="f"))
    model.opset_import.append(helper.make_opsetid("f", 1))
    opsets = [helper.make_opsetid("", 17)]
    model.functions.append(
        helper.make_function("f", "Fn", ["a"], ["b"], [node("b = Abs a")], opsets)
    )
    with pytest.raises(ValueError, match=text):
        import_model(model)


def test_reference_to_an_attribute_outside_of_functions_is_refused():
    model = network(node("y = Concat x x", "cat", axis=0), outputs=[info("y", (8,))])
    model.graph.node[0].attribute[0].ref_attr_name = "q"
    with pytest.raises(ValueError, match="axis refers to q of a function, and the node is in none"):
        import_model(model)


def test_file_format_of_the_future_names_the_onnx_package():
    model = network("y = Neg x")
    model.ir_version = 99
    with pytest.raises(ValueError, match=r"IR version 99; onnx .* a newer onnx"):
        import_model(model)


def test_model_without_opset_is_refused():
    model = network("y = Neg x")
    del model.opset_import[:]
    with pytest.raises(ValueError, match="does not declare its opset"):
        import_model(model)


def test_one_symbol_is_one_extent():
    model = network(
        "y = Add a b", inputs=[info("a", ("batch", 4)), info("b", ("batch", 4))],
        outputs=[info("y", None)],
    )  # fmt: skip
    with pytest.raises(ValueError, match="batch is 2 in input a and 1 in input b"):
        import_model(model, shapes={"a": (2, 4), "b": (1, 4)})
    assert import_model(model, shapes={"a": (2, 4), "b": (2, 4)}).outputs[0].shape == (2, 4)
