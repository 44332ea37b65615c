"""Files that deviate from the standard as exporters write them run, with onnxruntime's results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_check_ssa import branch, conditional, info, network, node

import tvmrt
from tvmrt.compiler.frontend.onnx.sanitize_model import sanitize_model

onnxruntime = pytest.importorskip("onnxruntime")

X = np.array([1.5, -2, 3, -0.25], np.float32)


def expected(model: onnx.ModelProto, feeds: dict) -> list[np.ndarray]:
    """Return onnxruntime's outputs, in the order of the model's outputs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


def check(model: onnx.ModelProto, feeds: dict, reference: onnx.ModelProto | None = None) -> None:
    """Compare the model with onnxruntime's run of it, or of an equal model that it accepts."""
    right = expected(reference or model, feeds)
    for executor in ("graph", "aot"):
        network_ = tvmrt.load(model, cache=False, executor=executor)
        found = list(network_(feeds).values())
        assert len(found) == len(right)
        for ours, theirs in zip(found, right):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def loop_with_repeated_outputs() -> onnx.ModelProto:
    """Return a Loop whose body gives one tensor as carried value and twice as scan output."""
    body = helper.make_graph(
        [node("n = Add v v"), node("go = Identity c")],
        "body",
        [info("i", (), TensorProto.INT64), info("c", (), TensorProto.BOOL), info("v")],
        [info("go", (), TensorProto.BOOL), info("n"), info("n"), info("n")],
    )
    loop = helper.make_node("Loop", ["trips", "", "x"], ["y", "s", "t"], body=body)
    scans = [info(name, (3, 4)) for name in "st"]
    trips = onnx.numpy_helper.from_array(np.array(3, np.int64), "trips")
    return network(loop, outputs=["y", *scans], initializer=[trips])


REPEATED = {
    "twice": network("y = Neg x", outputs=["y", "y"]),
    "three times, around another": network("y = Neg x", "z = Abs x", outputs=["y", "z", "y", "y"]),
    "read by another node": network("y = Neg x", "z = Exp y", outputs=["z", "y", "y"]),
    "its copy's name is taken": network("y = Neg x", "y_2 = Exp x", outputs=["y", "y", "y_2"]),
    "an input": network("y = Neg x", outputs=["x", "y", "x"]),
    "in the body of a Loop": loop_with_repeated_outputs(),
}


@pytest.mark.parametrize("name", REPEATED)
def test_an_output_listed_twice_is_returned_twice(name):
    check(REPEATED[name], {"x": X})


CHAIN = ["a = Neg x", "b = Exp a", "c = Add a b", "d = Abs c", "y = Sub d b"]


@pytest.mark.parametrize("seed", range(4))
def test_nodes_are_sorted(seed):
    order = np.random.default_rng(seed).permutation(len(CHAIN))
    model = network(*(CHAIN[i] for i in order))
    before = model.SerializeToString()
    check(model, {"x": X}, network(*CHAIN))
    assert model.SerializeToString() == before  # the caller's model is not changed


def test_nodes_that_a_branch_reads_come_before_its_node():
    arms = branch("b = Add e t", "e = Neg x"), branch("b = Abs x")
    model = conditional(*arms, "t = Exp x")
    exported = onnx.ModelProto()
    exported.CopyFrom(model)
    first, choice = (onnx.NodeProto.FromString(n.SerializeToString()) for n in model.graph.node)
    del exported.graph.node[:]
    exported.graph.node.extend([choice, first])
    sorted_arms = branch("e = Neg x", "b = Add e t"), branch("b = Abs x")
    for condition in (True, False):
        feeds = {"x": X, "c": np.array(condition)}
        check(exported, feeds, conditional(*sorted_arms, "t = Exp x"))


def test_a_sorted_model_keeps_its_order_and_is_not_copied():
    model = network("b = Exp x", "a = Neg x", "y = Add a b")
    assert sanitize_model(model) is model
