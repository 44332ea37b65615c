"""Test what the device dnnl refuses: nodes that stay on the CPU, and damaged libraries."""

from __future__ import annotations

import json

import numpy as np
import pytest
from onnx import helper
from onnx_case import network, normal
from onnx_graph import model

import tvmrt
from tvmrt import devices
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.error import TVMError

pytestmark = pytest.mark.usefixtures("dnnl")


REFUSED = {
    "where": ([("Where", ["m", "x", "x"], "y", {})], "oneDNN has no where here"),
    "pool": ([("MaxPool", ["i"], "y", {"kernel_shape": [2, 2]})], "oneDNN has no max_pool here"),
    "outer sum": ([("Add", ["x", "column"], "y", {})], "oneDNN broadcasts one operand of two"),
    "bounds": ([("Max", ["x", "row"], "y", {})], "oneDNN's bounds are constant numbers"),
    "no number": ([("Max", ["x", "nan"], "y", {})], "oneDNN's bounds are constant numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_unsupported_by_onednn_is_refused_with_the_reason(case):
    nodes, reason = REFUSED[case]
    feeds = {"x": normal(1, 3), "i": normal(1, 2, 4, 4)}
    weights = {
        "m": np.array([[True, False, True]]),
        "column": normal(4, 1),
        "row": normal(3),
        "nan": np.float32([np.nan]),
    }
    used = {name for _, names, _, _ in nodes for name in names}
    feeds, weights = ({k: v for k, v in d.items() if k in used} for d in (feeds, weights))
    graph = import_model(network(nodes, feeds, weights, {"y": "float32"}), None)
    assert reason in [devices.get("dnnl").supports(node) for node in graph.nodes]


@pytest.mark.parametrize("before", [[], [("MatMul", ["x", "w"], "p", {})]], ids=["alone", "shared"])
def test_regions_without_matmuls_return_to_the_cpu(before):
    feeds = {"x": normal(3, 3)}
    nodes = [*before, ("Relu", ["p" if before else "x"], "r", {}), ("Exp", ["r"], "y", {})]
    nodes += [("Exp", ["p"], "z", {})] if before else []
    outputs = {"y": "float32", "z": "float32"} if before else {"y": "float32"}
    model = network(nodes, feeds, {"w": normal(3, 3)} if before else {}, outputs)
    rows = tvmrt.compile(model, devices=["dnnl"]).summary.nodes
    (relu,) = [row for row in rows if row.op_type == "Relu"]
    assert relu.device == "cpu"
    assert "dnnl does not support relu at this position" in relu.reason


WINDOW = {"strides": [2, 2], "dilations": [1, 1], "pads_before": [0, 0]}
HUGE_WINDOWS = {
    **{name: ({name: [2, 2**63 - 1]}, 2) for name in WINDOW},
    "result": ({}, 2**31 - 1),
    "padding": ({"strides": [2, 2**28]}, 2**28),
}


@pytest.mark.parametrize("op", ["conv", "conv_transpose"])
@pytest.mark.parametrize("name", HUGE_WINDOWS)
def test_a_huge_window_is_refused(op, name):
    """A damaged library may contain such a window: oneDNN would overflow and divide by zero."""
    changed, width = HUGE_WINDOWS[name]
    shapes = {"x": [1, 2, 4, 4], "w": [2, 2, 2, 2], "y": [1, 2, 2, width]}
    with pytest.raises(TVMError, match=r"2\^28"):
        load_node(op, {**WINDOW, **changed}, shapes)


@pytest.mark.parametrize("op", ["conv_transpose", "conv"])
@pytest.mark.parametrize("shape", [[4], [2, 2, 4], [1, 1, 2, 4, 4]], ids=str)
def test_windows_over_other_axes_are_refused(op, shape):
    """A damaged library may contain such a window: oneDNN copies as many extents as the result
    has."""
    with pytest.raises(TVMError, match="must have the same rank"):
        load_node(op, WINDOW, {"x": shape, "w": [2, 2, 2, 2], "y": [1, 2, 2, 2]})


@pytest.mark.parametrize(
    ("shape", "dtype"), [([1, 2, 0, 2**63 - 1], "float32"), ([1, 2, 4, 2**63 - 1], "")], ids=str
)
def test_extents_of_empty_tensors_are_bounded(shape, dtype):
    """Strides are computed as products of extents."""
    shapes = {"x": shape, "w": [2, 2, 1, 1], "y": [1, 2, 3, 3]}
    with pytest.raises(ValueError, match="more memory than can be addressed"):
        load_node("conv", WINDOW, shapes, dtype)


@pytest.mark.parametrize("lacking", ["strides", "dilations", "pads_before"])
@pytest.mark.parametrize("value", [None, [4]], ids=["missing", "short"])
def test_windows_without_numbers_are_refused(lacking, value):
    """A damaged library may contain such a window: one number per axis is read from each list."""
    attrs = {k: v for k, v in {**WINDOW, lacking: value}.items() if v is not None}
    shapes = {"x": [1, 2, 4, 4], "w": [2, 2, 2, 2], "y": [1, 2, 1, 1]}
    with pytest.raises(TVMError, match=f"attribute {lacking} has . integers"):
        load_node("conv", attrs, shapes)


def load_node(op: str, attrs: dict, shapes: dict, dtype: str = "float32") -> None:
    """Load a region of one node that computes y from x and the weights w."""
    tensors = [{"name": k, "dtype": "float32", "shape": v} for k, v in shapes.items()]
    tensors[0]["dtype"] = dtype
    tensors[1] |= {"offset": 0, "bytes": 64}
    node = {"op": op, "name": "n", "inputs": [0, 1], "outputs": [2], "attrs": attrs}
    region = {"symbol": "r", "tensors": tensors, "nodes": [node], "inputs": [0], "outputs": [2]}
    head = {"format": "tvmrt-regions", "version": 1, "device": "dnnl", "regions": [region]}
    tvmrt.get_global_func("tvmrt.device.load_regions")(json.dumps(head), bytearray(64))


def test_empty_matmuls_stay_on_the_cpu(tmp_path):
    """oneDNN divides by the extents of matrices."""
    network = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": np.zeros((0, 3), np.float32)},
        ["y"],
        {"w": np.ones((3, 2), np.float32)},
    )
    tvmrt.compile(network, devices=["dnnl"]).export_library(tmp_path / "net.so")
    factory = tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0))
    run = tvmrt.contrib.graph_executor.GraphModule(factory)
    run.run()
    assert run.get_output(0).numpy().shape == (0, 2)
