"""Loops with a counter as condition, whose trip count is known, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_graph import model

import tvmrt

X = np.arange(24, dtype=np.float32).reshape(12, 2) - 7


def info(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def while_network(
    limit: int | None, last: int, first: int = 0, step: int = 1, squared: bool = False, go=True
) -> onnx.ModelProto:
    """Return a TensorFlow-style loop: a counter runs to ``last`` or is squared; rows of x are
    accumulated and stacked."""
    count = ("Mul", ["n", "n"]) if squared else ("Add", ["n", "step"])
    body = helper.make_graph(
        [
            helper.make_node(*count, ["n_out"]),
            helper.make_node("Cast", ["i"], ["i32"], to=TensorProto.INT32),
            helper.make_node("Less", ["i32", "many"], ["few"]),
            helper.make_node("Cast", ["n_out"], ["n_float"], to=TensorProto.FLOAT),
            helper.make_node("Less", ["n_float", "last"], ["below"]),
            helper.make_node("And", ["few", "below"], ["c_out"]),
            helper.make_node("Gather", ["x", "i"], ["row"]),
            helper.make_node("Add", ["s", "row"], ["s_out"]),
            helper.make_node("Mul", ["s_out", "s"], ["kept"]),
        ],
        "body",
        [
            info("i", [], TensorProto.INT64),
            info("c", [], TensorProto.BOOL),
            info("n", [], TensorProto.INT32),
            info("s", [2]),
        ],
        [
            info("c_out", [], TensorProto.BOOL),
            info("n_out", [], TensorProto.INT32),
            info("s_out", [2]),
            info("kept", [2]),
        ],
    )
    ends = ["limit" if limit is not None else "", "go"]
    node = helper.make_node("Loop", [*ends, "n0", "s0"], ["n", "s", "all"], "while", body=body)
    weights = {
        "go": np.array(go),
        "n0": np.array(first, np.int32),
        "step": np.array(step, np.int32),
        "many": np.array(1 << 20, np.int32),
        "last": np.array(last, np.float32),
        "s0": np.ones(2, np.float32),
    }
    if limit is not None:
        weights["limit"] = np.array(limit)
    return model([node], {"x": X}, ["n", "s", "all"], weights)


NETWORKS = {
    "maximum trip count": while_network(10, 10),
    "fewer iterations": while_network(12, 9),
    "condition only": while_network(None, 11),
    "counting down": while_network(12, 5, first=4, step=-1),
    "step 3": while_network(10, 26, first=3, step=3),
    "few iterations": while_network(10, 3),
    "one condition that always holds": while_network(12, 9, step=0),
    "once": while_network(10, -5),
    "never": while_network(10, 9, go=False),
    "no iterations": while_network(0, 9),
}


@pytest.mark.everyday(2)
@pytest.mark.parametrize("name", NETWORKS)
def test_matches_onnxruntime(name, tmp_path):
    network = NETWORKS[name]
    session = onnxruntime.InferenceSession(network.SerializeToString())
    wanted = session.run(None, {"x": X})
    tvmrt.compile(network).export_library(tmp_path / "net.so")
    found = tvmrt.load(tmp_path / "net.so")(X)
    for a, b in zip(found, wanted):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(a, b)


def time_network(less: int, begins: int = 0) -> onnx.ModelProto:
    """Return a recurrent layer over a dynamic axis as TensorFlow exports it. It has one iteration
    per row; the condition counts to ``less`` fewer in float32 and starts above ``begins`` rows."""
    found = while_network(1, 1)
    body = found.graph.node[0].attribute[0].g
    for node in body.node:
        for i, name in enumerate(node.input):
            node.input[i] = {"last": "ends", "many": "rows"}.get(name, name)
    outside = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["limit64"]),
        helper.make_node("Cast", ["limit64"], ["rows"], to=TensorProto.INT32),
        helper.make_node("Sub", ["rows", "less"], ["fewer"]),
        helper.make_node("Cast", ["fewer"], ["ends"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["rows"], ["rows_float"], to=TensorProto.FLOAT),
        helper.make_node("Less", ["begins", "rows_float"], ["some"]),
        helper.make_node("And", ["some", "some"], ["goes"]),
    ]
    loop = found.graph.node[0]
    loop.input[0], loop.input[1] = "limit64", "goes"
    inputs = {"x": X}
    weights = {
        "zero": np.array(0),
        "less": np.array(less, np.int32),
        "begins": np.array(begins, np.float32),
        "n0": np.array(0, np.int32),
        "step": np.array(1, np.int32),
        "s0": np.ones(2, np.float32),
    }
    network = model([*outside, loop], inputs, ["n", "s", "all"], weights)
    network.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "time"
    return network


@pytest.mark.everyday(1)
@pytest.mark.parametrize(("less", "begins"), [(0, 0), (2, 0), (-3, 0), (0, 6)])
def test_trip_count_is_a_dynamic_row_count(less, begins, tmp_path):
    """The trip count is known at run time only."""
    network = time_network(less, begins)
    session = onnxruntime.InferenceSession(network.SerializeToString())
    tvmrt.compile(network, dims={"time": (1, 12)}).export_library(tmp_path / "net.so")
    net = tvmrt.load(tmp_path / "net.so")
    for rows in (12, 1, 7, 6, 3):
        for a, b in zip(net(X[:rows]), session.run(None, {"x": X[:rows]})):
            assert a.shape == b.shape
            np.testing.assert_array_equal(a, b)


def test_dynamic_rows_bound_the_loop():
    """Without another condition, results have the extent of the input."""
    shapes = {
        case: tvmrt.compile(time_network(*case), dims={"time": (1, 12)}).summary.outputs[2].shape
        for case in [(0, 0), (2, 0)]
    }
    assert str(shapes[0, 0][0]) == "time"
    assert str(shapes[2, 0][0]) != "time"


def test_zero_iterations_keep_the_result_shapes(tmp_path):
    """A dynamic dimension also fixes the result shape of zero iterations."""
    network = while_network(0, 9)
    body = network.graph.node[0].attribute[0].g
    body.node[-1].CopyFrom(helper.make_node("Mul", ["x", "s"], ["kept"]))
    body.output[-1].CopyFrom(info("kept", ["rows", 2]))
    network.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    tvmrt.compile(network, dims={"rows": (1, 20)}).export_library(tmp_path / "net.so")
    number, total, kept = tvmrt.load(tmp_path / "net.so")(X)
    assert (int(number), total.tolist(), kept.shape) == (0, [1, 1], (0, 12, 2))


def test_unbounded_loop_is_reported():
    with pytest.raises(tvmrt.error.UnsupportedError, match="its trip count is known only"):
        tvmrt.compile(while_network(None, 60000, first=2, squared=True))


def test_body_with_too_few_results_is_reported():
    network = while_network(12, 9)
    del network.graph.node[0].attribute[0].g.output[1:]
    with pytest.raises(ValueError, match=r"while \(Loop\)"):
        tvmrt.compile(network)
