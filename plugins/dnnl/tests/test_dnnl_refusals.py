"""What the device dnnl refuses: of networks, which stay on the CPU, and of damaged libraries."""

from __future__ import annotations

import json

import numpy as np
import pytest
from dnnl_case import network, normal
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt import devices
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.error import TVMError

pytestmark = pytest.mark.usefixtures("dnnl")


REFUSED = {
    "where": ([("Where", ["m", "x", "x"], "y", {})], "oneDNN has no where"),
    "expand": ([("Expand", ["x", "shape"], "y", {})], "oneDNN has no expand"),
    "backwards": (
        [("Slice", ["x", "minus", "far", "axis", "minus"], "y", {})],
        "oneDNN does not read backwards",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_onednn_cannot_do_is_refused_with_the_reason(case):
    nodes, reason = REFUSED[case]
    feeds = {"x": normal(2, 3)}
    weights = {
        "m": np.array([[True, False, True]]),
        "shape": np.array([4, 2, 3]),
        "minus": np.array([-1]),
        "far": np.array([-100]),
        "axis": np.array([1]),
    }
    used = {name for _, names, _, _ in nodes for name in names}
    model = network(nodes, feeds, {k: v for k, v in weights.items() if k in used}, {"y": "float32"})
    node = import_model(model, None).nodes[-1]
    assert devices.get("dnnl").supports(node) == reason


def test_region_without_work_returns_to_the_cpu():
    feeds = {"x": normal(2, 3)}
    model = network([("Relu", ["x"], "y", {})], feeds, {}, {"y": "float32"})
    library = tvmrt.compile(model, devices=["dnnl"])
    assert not library.partition.regions


WINDOW = {"kernel": [2, 2], "strides": [2, 2], "dilations": [1, 1], "pads_before": [0, 0]}
HUGE_WINDOWS = {
    **{name: ({name: [2, 2**63 - 1]}, 2) for name in WINDOW},
    "result": ({}, 2**31 - 1),
    "padding": ({"strides": [2, 2**28], "kernel": [2, 2]}, 2**28),
}


@pytest.mark.parametrize(
    ("op", "name"),
    [("max_pool", name) for name in HUGE_WINDOWS]
    + [("conv", name) for name in HUGE_WINDOWS if name != "kernel"],  # a weights' shape says it
)
def test_a_huge_window_is_refused(op, name):
    """As a damaged library may have it: oneDNN would overflow, and divide by the zero it gets."""
    changed, width = HUGE_WINDOWS[name]
    shapes = {"x": [1, 2, 4, 4], "w": [2, 2, 2, 2], "y": [1, 2, 2, width]}
    with pytest.raises(TVMError, match=r"2\^28"):
        load_node(op, {**WINDOW, **changed}, shapes)


@pytest.mark.parametrize("op", ["avg_pool", "conv"])
@pytest.mark.parametrize("shape", [[4], [2, 2, 4], [1, 1, 2, 4, 4]], ids=str)
def test_windows_over_other_axes_are_refused(op, shape):
    """As a damaged library may have it: oneDNN copies as many extents as the result has."""
    with pytest.raises(TVMError, match="differ in their axes"):
        load_node(op, WINDOW, {"x": shape, "w": [2, 2, 2, 2], "y": [1, 2, 2, 2]})


@pytest.mark.parametrize(
    ("shape", "dtype"), [([1, 2, 0, 2**63 - 1], "float32"), ([1, 2, 4, 2**63 - 1], "")], ids=str
)
def test_extents_of_nothing_are_bounded_too(shape, dtype):
    """Strides are products of them."""
    shapes = {"x": shape, "w": [2, 2, 1, 1], "y": [1, 2, 3, 3]}
    with pytest.raises(ValueError, match="more memory than can be addressed"):
        load_node("conv", WINDOW, shapes, dtype)


@pytest.mark.parametrize("lacking", ["kernel", "pads_before", "pads_after"])
@pytest.mark.parametrize("value", [None, [4]], ids=["missing", "short"])
def test_averages_of_bytes_over_windows_without_numbers_are_refused(lacking, value):
    """As a damaged library may have it: each list is read by as many numbers as there are axes."""
    window = {**WINDOW, "kernel": [4, 4], "pads_after": [0, 0]} | {lacking: value}
    attrs = {name: numbers for name, numbers in window.items() if numbers is not None}
    shapes = {"x": [1, 2, 4, 4], "w": [2, 2, 2, 2], "y": [1, 2, 1, 1]}
    if lacking == "pads_after":  # only tells whether the window is the whole image
        load_node("qavg_pool", attrs, shapes, "uint8", "uint8")
        return
    with pytest.raises(TVMError, match=f"attribute {lacking} has . integers"):
        load_node("qavg_pool", attrs, shapes, "uint8", "uint8")


def load_node(
    op: str, attrs: dict, shapes: dict, dtype: str = "float32", result: str = "float32"
) -> None:
    """Load a region of one node that computes y of x, and of the weights w if it is a conv."""
    tensors = [{"name": k, "dtype": "float32", "shape": v} for k, v in shapes.items()]
    tensors[0]["dtype"] = dtype
    tensors[2]["dtype"] = result
    tensors[1] |= {"offset": 0, "bytes": 64}
    inputs = [0, 1] if op == "conv" else [0]
    node = {"op": op, "name": "n", "inputs": inputs, "outputs": [2], "attrs": attrs}
    region = {"symbol": "r", "tensors": tensors, "nodes": [node], "inputs": [0], "outputs": [2]}
    head = {"format": "tvmrt-regions", "version": 1, "device": "dnnl", "regions": [region]}
    tvmrt.get_global_func("tvmrt.device.load_regions")(json.dumps(head), bytearray(64))


def test_products_of_nothing_stay_on_the_cpu(tmp_path):
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
