"""Models that contradict themselves are refused by a sentence that names the node."""

from __future__ import annotations

import contextlib

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_graph import model

import tvmrt
from tvmrt.error import UnexpectedImportError

IMAGE = np.zeros((1, 4, 4, 4), np.float32)
ROWS = np.zeros((2, 3), np.float32)
LARGE = 2**31


def node(op: str, inputs: list[str], **attrs) -> onnx.NodeProto:
    return helper.make_node(op, inputs, ["y"], "bad", **attrs)


def without(found: onnx.NodeProto, name: str) -> onnx.NodeProto:
    """Return the node without one of its attributes."""
    kept = [a for a in found.attribute if a.name != name]
    del found.attribute[:]
    found.attribute.extend(kept)
    return found


def branch() -> onnx.GraphProto:
    value = helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3])
    return helper.make_graph([helper.make_node("Neg", ["x"], ["b"])], "branch", [], [value])


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


CASES = {
    "Einsum without equation": (node("Einsum", ["x"]), ROWS, {}, "equation is missing"),
    "If without then": (
        without(node("If", ["c"], then_branch=branch(), else_branch=branch()), "then_branch"),
        ROWS,
        {"c": np.array(True)},
        "then_branch is missing",
    ),
    "Loop without body": (node("Loop", ["n", ""]), ROWS, {"n": ints(2)}, "body is missing"),
    "axis as text": (node("Softmax", ["x"], axis="last"), ROWS, {}, "axis is not of type int"),
    "axes as fractions": (
        node("ReduceMax", ["x"], axes=[0.5]),
        ROWS,
        {},
        "axes is not of type ints",
    ),
    "Range without delta": (
        node("Range", ["a", "b", ""]),
        ROWS,
        {"a": np.array(0), "b": np.array(5)},
        r"input 2 \(delta\) is missing",
    ),
    "Range without end": (
        node("Range", ["a", "b", "d"]),
        ROWS,
        {"a": np.float32(0), "b": np.float32(np.inf), "d": np.float32(1)},
        "is infinite",
    ),
    "Range of billions": (
        node("Range", ["a", "b", "d"]),
        ROWS,
        {"a": np.array(0), "b": np.array(LARGE), "d": np.array(1)},
        "2147483648 elements",
    ),
    "DepthToSpace of nothing": (
        node("DepthToSpace", ["x"], blocksize=0),
        IMAGE,
        {},
        "blocksize is 0",
    ),
    "SpaceToDepth of nothing": (
        node("SpaceToDepth", ["x"], blocksize=0),
        IMAGE,
        {},
        "blocksize must be positive",
    ),
    "ConvTranspose of stride 0": (
        node("ConvTranspose", ["x", "w"], strides=[2, 0]),
        IMAGE,
        {"w": np.zeros((4, 2, 2, 2), np.float32)},
        r"strides is \[2, 0\]",
    ),
    "Resize to billions": (
        node("Resize", ["x", "", "", "s"], mode="linear"),
        IMAGE,
        {"s": ints(1, 4, 4, LARGE)},
        "2147483648 elements",
    ),
    "OneHot of billions": (
        node("OneHot", ["i", "d", "v"]),
        ROWS,
        {"i": ints(1), "d": ints(LARGE), "v": np.array([0, 1], np.float32)},
        "2147483648 elements",
    ),
    "GRU without weights": (
        node("GRU", ["x", "", "r"], hidden_size=1),
        np.zeros((2, 1, 3), np.float32),
        {"r": np.zeros((1, 3, 1), np.float32)},
        r"input 1 \(W\) is missing",
    ),
    "LRN of integers": (
        node("LRN", ["x"], size=3),
        np.zeros((1, 4, 4, 4), np.int32),
        {},
        r"input 0 \(X\) is int32; opset 17 allows bfloat16, double, float, float16",
    ),
    "LSTM of integers": (
        node("LSTM", ["x", "w", "w"], hidden_size=1),
        np.zeros((2, 1, 1), np.int64),
        {"w": np.zeros((1, 4, 1), np.int64)},
        r"input 0 \(X\) is int64",
    ),
    "And of numbers": (
        node("And", ["x", "x"]),
        ROWS,
        {},
        r"input 0 \(A\) is float32; opset 17 allows bool",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_node_is_refused_by_name(case):
    bad, x, weights, match = CASES[case]
    with pytest.raises(ValueError, match=f"node bad .*{match}"):
        tvmrt.compile(model([bad], {"x": x}, ["y"], weights))


def test_function_that_calls_itself_is_refused():
    network = model([node("Again", ["x"], domain="own")], {"x": ROWS}, ["y"], domains=["own"])
    body = [helper.make_node("Again", ["a"], ["b"], "inner", domain="own")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    network.functions.append(helper.make_function("own", "Again", ["a"], ["b"], body, opsets))
    with pytest.raises(ValueError, match="the function Again calls itself"):
        tvmrt.compile(network)


@pytest.mark.parametrize("element_type", [0, 99])
def test_input_of_no_element_type_is_refused(element_type):
    network = model([node("Relu", ["x"])], {"x": ROWS}, ["y"])
    network.graph.input[0].type.tensor_type.elem_type = element_type
    with pytest.raises(tvmrt.error.UnsupportedError, match=f"input x has .* {element_type}, which"):
        tvmrt.compile(network)


def test_output_that_is_left_out_is_refused():
    left_out = helper.make_node("Dropout", ["x"], ["y", ""])
    network = model([left_out], {"x": ROWS}, ["y"])
    network.graph.output[0].name = ""
    with pytest.raises(ValueError, match="is not produced by any node"):
        tvmrt.compile(network)


@pytest.mark.parametrize("name", [b"act", b"Relu", b"graph_of_the_test"])
def test_name_that_is_not_utf8_is_refused(tmp_path, name):
    network = model([helper.make_node("Relu", ["x"], ["y"], "act")], {"x": ROWS}, ["y"])
    network.graph.name = "graph_of_the_test"
    data = network.SerializeToString()
    assert data.count(name) == 1
    path = tmp_path / "net.onnx"
    path.write_bytes(data.replace(name, b"\xff" * len(name)))
    with pytest.raises(ValueError, match=r"invalid name|not an ONNX model"):
        tvmrt.compile(path)


def test_half_operand_of_an_operator_without_operands():
    """The error is about the number of operands, although their type is undefined."""
    constant = helper.make_node("Constant", ["x"], ["y"], "bad", value_float=1.0)
    network = model([constant], {"x": np.zeros(2, np.float16)}, ["y"], {})
    with contextlib.suppress(ValueError, tvmrt.TVMError):
        assert tvmrt.compile(network).sources


@pytest.mark.parametrize(
    "bad", [node("Cast", ["x"], to=1, saturate=-2), node("Attention", ["x", "x", "x"], is_causal=3)]
)
def test_boolean_other_than_0_and_1_is_refused(bad):
    network = model([bad], {"x": IMAGE}, ["y"], {})
    network.opset_import[0].version = 23
    with pytest.raises(ValueError, match="expected 0 or 1"):
        tvmrt.compile(network)


def _refused_by_onnxruntime(network: onnx.ModelProto) -> bool:
    try:
        onnxruntime.InferenceSession(network.SerializeToString())
    except Exception:  # the test's own kinds, by error
        return True
    return False


def test_operator_that_came_later_is_refused_with_its_opset():
    network = model([node("LessOrEqual", ["x", "x"])], {"x": ROWS}, ["y"])
    network.opset_import[0].version = 7
    network.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    assert _refused_by_onnxruntime(network)
    with pytest.raises(ValueError, match=r"bad \(LessOrEqual\): opset 7 .* added in opset 12"):
        tvmrt.compile(network)


def test_output_without_element_type_is_refused():
    network = model([node("Neg", ["x"])], {"x": ROWS}, ["y"])
    network.graph.output[0].type.tensor_type.elem_type = TensorProto.UNDEFINED
    assert _refused_by_onnxruntime(network)
    with pytest.raises(ValueError, match="output y is declared as a tensor without element type"):
        tvmrt.compile(network)


@pytest.mark.parametrize(
    ("shape", "attributes", "words"),
    [
        ((1, 2, 3, 4), {"softcap": np.nan}, "softcap is nan, expected a number not below 0"),
        ((1, 2, 3, 4, 1), {}, r"operand q is float32\[1, 2, 3, 4, 1\], expected any\[N,"),
    ],
)
def test_malformed_attention_is_refused(shape, attributes, words):
    attention = helper.make_node("Attention", ["x", "x", "x"], ["y"], "bad", **attributes)
    network = model([attention], {"x": np.zeros(shape, np.float32)}, ["y"], opset=23)
    with pytest.raises(ValueError, match=words):
        tvmrt.compile(network)


@pytest.mark.parametrize("number", [65536, -1, 99, 0])
@pytest.mark.parametrize("place", ["weights", "attribute", "sparse", "function"])
def test_element_types_that_onnx_does_not_define(place, number):
    """For any tensor of the model, the error has the number of the type."""
    tensor = numpy_helper.from_array(np.ones(4, np.float32), "w")
    tensor.data_type = number
    nodes, weights, more = [helper.make_node("Mul", ["x", "w"], ["y"])], [], {}
    constant = helper.make_node("Constant", [], ["w"], value=tensor)
    if place == "weights":
        weights.append(tensor)
    elif place == "attribute":
        nodes.insert(0, constant)
    elif place == "sparse":
        indices = numpy_helper.from_array(np.arange(4), "w_indices")
        sparse = onnx.SparseTensorProto(values=tensor, indices=indices, dims=[4])
        more["sparse_initializer"] = [sparse]
    else:
        own = [helper.make_opsetid("", 17)]
        nodes = [helper.make_node("Own", ["x"], ["y"], domain="own")]
        body = [constant, helper.make_node("Mul", ["x", "w"], ["y"])]
        function = helper.make_function("own", "Own", ["x"], ["y"], body, own)
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:], weights, **more)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    network = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    if place == "function":
        network.functions.append(function)
    with pytest.raises(ValueError, match=rf"{number}\b.* which ONNX does not define") as raised:
        tvmrt.compile(network)
    assert not isinstance(raised.value, UnexpectedImportError)
