"""Branches that are invalid for the network's extents, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.error import TvmrtWarning

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
RATES = {8000: 4, 16000: 6}  # and the lengths of their windows


def info(name: str, shape: list, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def branch(rate: int, result: str) -> onnx.GraphProto:
    """Return a branch that multiplies a window of the rate's length with weights."""
    weights = np.random.default_rng(rate).standard_normal((RATES[rate], 3)).astype(np.float32)
    nodes = [
        helper.make_node("Tanh", ["x"], [f"{result}_t"], f"tanh_{rate}"),
        helper.make_node("MatMul", [f"{result}_t", f"{result}_w"], [result], f"product_{rate}"),
    ]
    kept = [numpy_helper.from_array(weights, f"{result}_w")]
    return helper.make_graph(nodes, f"of_{rate}", [], [info(result, [None, 3])], kept)


def asks(rate: int) -> list[onnx.NodeProto]:
    constant = numpy_helper.from_array(np.int64(rate), "rate")
    return [
        helper.make_node("Constant", [], [f"rate_{rate}"], value=constant),
        helper.make_node("Equal", ["sr", f"rate_{rate}"], [f"is_{rate}"]),
    ]


def two_rates(first: int, nested: bool = False) -> onnx.ModelProto:
    """Return a network for both rates; ``first`` is the then-branch of the condition."""
    other = next(rate for rate in RATES if rate != first)
    otherwise = branch(other, "no")
    if nested:  # the other rate remains
        inner = helper.make_node(
            "If", [f"is_{other}"], ["inner"], "inner", then_branch=branch(other, "no"),
            else_branch=branch(first, "third"),
        )  # fmt: skip
        otherwise = helper.make_graph(
            [*asks(other), inner], "otherwise", [], [info("inner", [None, 3])]
        )
    node = helper.make_node(
        "If", [f"is_{first}"], ["y"], "rate", then_branch=branch(first, "yes"),
        else_branch=otherwise,
    )  # fmt: skip
    graph = helper.make_graph(
        [*asks(first), node, helper.make_node("Neg", ["y"], ["z"])], "rates",
        [info("x", [1, "length"]), info("sr", [], INT64)], [info("z", [None, 3])],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("nested", [False, True], ids=["plain", "nested"])
@pytest.mark.parametrize("first", RATES)
@pytest.mark.parametrize("rate", RATES)
def test_valid_branch_runs_and_invalid_branch_ends_the_run(rate, first, nested):
    model = two_rates(first, nested)
    with pytest.warns(TvmrtWarning, match="is invalid at the shapes .* a run that takes it fails"):
        net = tvmrt.load(model, shapes={"x": (1, RATES[rate])}, cache=False)
    x = np.random.default_rng(1).standard_normal((1, RATES[rate])).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    feeds = {"x": x, "sr": np.array(rate)}
    np.testing.assert_allclose(net(**feeds), session.run(None, feeds)[0], rtol=1e-5, atol=1e-6)
    other = next(each for each in RATES if each != rate)
    with pytest.raises(ValueError, match=r"condition: the run has .*branch is invalid"):
        net(x, np.int64(other))
    with pytest.raises(Exception, match="MatMul"):  # the run also ends there
        session.run(None, feeds | {"sr": np.array(other)})


def test_network_without_a_valid_branch_is_refused_by_node():
    with (
        pytest.warns(TvmrtWarning),
        pytest.raises(
            ValueError, match=r"node rate \(If\): node product_16000 \(MatMul\): matmul: operand b"
        ),
    ):
        tvmrt.load(two_rates(8000), shapes={"x": (1, 5)}, cache=False)


def test_shape_independent_errors_are_refused():
    model = two_rates(8000)
    model.graph.node[2].attribute[1].g.node[1].input[0] = "nowhere"
    with pytest.raises(ValueError, match="nowhere"):
        tvmrt.load(model, shapes={"x": (1, 4)}, cache=False)


def test_functions_of_a_dropped_branch_are_kept_for_the_other():
    """Both branches call one model function, which is invalid in one of them."""
    model = two_rates(8000)
    body = [helper.make_node("MatMul", ["a", "b"], ["c"], "inside")]
    function = helper.make_function(
        "here", "Product", ["a", "b"], ["c"], body, [helper.make_opsetid("", 17)]
    )
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("here", 1))
    for attribute in model.graph.node[2].attribute:
        product = attribute.g.node[1]
        product.op_type, product.domain = "Product", "here"
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for rate, length in RATES.items():
        with pytest.warns(TvmrtWarning, match="is invalid at the shapes"):
            net = tvmrt.load(model, shapes={"x": (1, length)}, cache=False)
        x = np.random.default_rng(2).standard_normal((1, length)).astype(np.float32)
        expected = session.run(None, {"x": x, "sr": np.array(rate)})[0]
        np.testing.assert_allclose(net(x, np.int64(rate)), expected, rtol=1e-5, atol=1e-6)
