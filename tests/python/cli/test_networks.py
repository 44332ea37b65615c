"""Inputs, and the reference values for compiled networks."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvmrt.cli import onnx_reference
from tvmrt.cli.onnx_reference import TensorInfo
from tvmrt.cli.onnxruntime_session import onnxruntime_session, run_onnxruntime

IMAGE = TensorInfo("image", "float32", (1, 1, 8, 8))


@pytest.fixture(scope="module")
def model(digits):
    return onnx_reference.load_model(digits / "digits_int8.onnx")


def _symbolic_model() -> onnx.ModelProto:
    values = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3]),
    ]
    node = helper.make_node("Relu", ["x"], ["y"])
    return helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]))


def test_network_inputs_exclude_weights(model):
    assert onnx_reference.input_infos(model, {}) == [IMAGE]


def test_symbolic_dimension_must_be_bound():
    with pytest.raises(ValueError, match=r"dynamic dimension batch; .* --shape x=1,3"):
        onnx_reference.input_infos(_symbolic_model(), {})
    assert onnx_reference.input_infos(_symbolic_model(), {"x": (7, 3)})[0].shape == (7, 3)


def test_shape_of_an_unknown_input_is_refused():
    with pytest.raises(KeyError, match="unknown input z; the inputs are x"):
        onnx_reference.input_infos(_symbolic_model(), {"z": (1,)})


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 127), ("uint8", 0, 255), ("int64", 0, 1), ("bool", False, True)],
)
def test_random_integers_suit_their_operator(dtype, low, high):
    array = onnx_reference.random_inputs([TensorInfo("x", dtype, (40, 100))])["x"]
    assert (array.dtype, array.shape) == (np.dtype(dtype), (40, 100))
    assert (array.min(), array.max()) == (low, high)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_random_floats_are_normal_and_reproducible(dtype):
    info = TensorInfo("x", dtype, (1000,))
    first, again = (onnx_reference.random_inputs([info])["x"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert first.dtype == dtype
    assert abs(float(first.mean())) < 0.2
    assert 0.8 < float(first.std()) < 1.2


def test_random_strings_are_not_supported():
    with pytest.raises(ValueError, match="input x: no values can be made up for type string"):
        onnx_reference.random_inputs([TensorInfo("x", "string", (2,))])


@pytest.mark.parametrize(
    ("arrays", "error", "text"),
    [
        pytest.param({}, KeyError, "f: input 'image' is missing; the inputs are image", id="none"),
        pytest.param({"a": 0}, KeyError, "f: the network has no input 'a'", id="unknown"),
        pytest.param(
            {"image": np.zeros((8, 8), np.float32)},
            ValueError,
            r"f: input 'image' must have shape \[1, 1, 8, 8\], not \[8, 8\]",
            id="shape",
        ),
        pytest.param(
            {"image": np.zeros((1, 1, 8, 8), np.uint8)},
            TypeError,
            r"f: input 'image' must be float32, not uint8; convert it with \.astype\('float32'\)",
            id="type",
        ),
    ],
)
def test_mismatched_inputs_have_distinct_errors(arrays, error, text):
    with pytest.raises(error, match=text):
        onnx_reference.check_inputs(arrays, [IMAGE], "f")


def test_every_tensor_becomes_one_output(model):
    kept = onnx_reference.with_all_tensors_as_outputs(model)
    names = [output.name for output in kept.graph.output]
    made = {name for node in model.graph.node for name in node.output}
    assert names[0] == "probabilities"
    assert set(names) == made
    assert len(names) == len(made)
    onnx.checker.check_model(kept)


def test_single_nodes_use_their_given_inputs(model):
    """A changed tensor fails the nodes that write and read it, and no later node."""
    kept = onnx_reference.with_all_tensors_as_outputs(model)
    inputs = onnx_reference.random_inputs([IMAGE])
    values = run_onnxruntime(kept, inputs, optimise=False)
    values["relu2_quantised"] = values["relu2_quantised"] ^ np.int8(64)
    apart, feeds = onnx_reference.isolate_nodes(kept, {**inputs, **values})
    alone = run_onnxruntime(apart, feeds, optimise=False)
    wrong = [
        name for name, value in alone.items()
        if not np.array_equal(value, values[name[len(onnx_reference.ISOLATED_PREFIX) :]])
    ]  # fmt: skip
    assert wrong == [
        f"{onnx_reference.ISOLATED_PREFIX}relu2_quantised",
        f"{onnx_reference.ISOLATED_PREFIX}relu2_dequantised",
    ]


def test_single_nodes_of_branches_are_reached():
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "y")]
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    inner = helper.make_tensor_value_info("inner", TensorProto.FLOAT, [2])
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(op, ["doubled"], ["inner"])], name, [], [inner]
        )
        for name, op in [("then", "Relu"), ("else", "Neg")]
    }
    nodes = [
        helper.make_node("Add", ["x", "x"], ["doubled"]),
        helper.make_node("If", ["flag"], ["y"], **branches),
    ]
    graph = helper.make_graph(nodes, "g", [values[0], flag], [values[1]])
    opset = [helper.make_opsetid("", 17)]
    kept = onnx_reference.with_all_tensors_as_outputs(
        helper.make_model(graph, opset_imports=opset, ir_version=8)
    )
    x = np.array([-1, 2], np.float32)
    known = {"x": x, "flag": np.array(False), "doubled": 10 * x, "y": x}
    apart, feeds = onnx_reference.isolate_nodes(kept, known)
    alone = run_onnxruntime(apart, feeds, optimise=False)
    np.testing.assert_array_equal(alone[f"{onnx_reference.ISOLATED_PREFIX}doubled"], 2 * x)
    np.testing.assert_array_equal(alone[f"{onnx_reference.ISOLATED_PREFIX}y"], -10 * x)


@pytest.mark.parametrize("hide_onnxruntime", [False, True], ids=["onnxruntime", "onnx"])
def test_both_references_agree(digits, monkeypatch, hide_onnxruntime):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = digits / "digits_f32.onnx"
    inputs = onnx_reference.random_inputs([IMAGE])
    expected = onnxruntime.InferenceSession(str(path)).run(None, inputs)[0]
    if hide_onnxruntime:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    reference, values = onnx_reference.expected_outputs(onnx_reference.load_model(path), inputs)
    assert reference == ("onnx reference" if hide_onnxruntime else "onnxruntime")
    np.testing.assert_allclose(values["probabilities"].value, expected, atol=1e-5)


def test_unsupported_reference_is_reported(model, monkeypatch):
    """The reference evaluator does not implement the DequantizeLinear opset of the int8 network."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"cannot run the network .*pip install onnxruntime"):
        onnx_reference.expected_outputs(model, onnx_reference.random_inputs([IMAGE]))


def test_missing_onnxruntime_says_how_to_install_it(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="pip install onnxruntime"):
        onnxruntime_session(model, threads=1)
