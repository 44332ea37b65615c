"""Regions as ONNX: what onnxruntime and OpenVINO make of them is what the network says."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import onnx
import pytest
from dnnl_case import judge, network, normal
from sample_devices import run_library

import tvmrt
from tvmrt.conformance import forms, operators, shapes, tensors, threads
from tvmrt.devices.onnx_writer import Writer
from tvmrt.devices.openvino import OpenVino
from tvmrt.devices.to_onnx import region_to_onnx
from tvmrt.error import UnsupportedError
from tvmrt.runtime.executor import AotModule, GraphModule

runtime = pytest.importorskip("onnxruntime")
EXECUTORS = {"graph": GraphModule, "aot": AotModule}
with_openvino = pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="the package openvino is not installed"
)


class ByOnnxRuntime(OpenVino):
    """The same regions, run by another library; of any operators."""

    name = "by_onnxruntime"
    heavy = frozenset()

    def absent(self):
        return None

    def enter_runtime(self):
        def pre_run(symbol, text, constants, options):
            region = json.loads(str(text))
            model = region_to_onnx(region, bytes(constants)).SerializeToString()
            session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
            names = [value.name for value in session.get_inputs()]

            def run(symbol, *given):
                feeds = {name: x.numpy() for name, x in zip(names, given)}
                for y, found in zip(given[len(names) :], session.run(None, feeds)):
                    y.copyfrom(found)

            return run

        tvmrt.register_func("device.by_onnxruntime.pre_run", pre_run, override=True)
        tvmrt.register_func("device.by_onnxruntime.run", lambda *_: None, override=True)


@pytest.fixture
def by_onnxruntime():
    tvmrt.devices.register(ByOnnxRuntime())
    yield tvmrt.devices.get("by_onnxruntime")
    tvmrt.devices.unregister("by_onnxruntime")


def test_every_operator_means_the_same_in_onnx(by_onnxruntime):
    """All of the kit's networks, offered to the device operator by operator."""
    found = operators.check(by_onnxruntime, 1e-5)
    assert not [f for f in found if not f.passed]
    assert {"Conv", "MatMul", "Gemm", "MaxPool", "Pad", "Slice", "Transpose"} <= {
        f.subject for f in found
    }
    assert len(found) > 40


@with_openvino
@pytest.mark.parametrize("check", [
    operators, forms, tensors, shapes, pytest.param(threads, marks=pytest.mark.slow),
])  # fmt: skip
def test_openvino_passes_the_kit(check):
    device = tvmrt.devices.get("openvino")
    found = check.check(device, 1e-3, ("Conv: padded", "MatMul", "Gemm"))
    assert found
    assert not [f for f in found if not f.passed]


SOME = ("mnist_cnn_f32", "resnet8_f32", "go1_policy_f32", "yunet_n_320_f32", "gtcrn_f32")


@with_openvino
@pytest.mark.parametrize(("name", "executor"), [
    *((name, "graph") for name in SOME), ("yunet_n_320_f32", "aot"),
])  # fmt: skip
def test_networks_on_openvino(name, executor, models_dir, tmp_path):
    """Most nodes are taken, and results are right, in a second run as in the first."""
    library = tvmrt.compile(models_dir / f"{name}.onnx", devices=["openvino"], executor=executor)
    library.export_library(str(tmp_path / "net.so"))
    taken = [row.device == "openvino" for row in library.summary.nodes]
    assert sum(taken) > 0.7 * len(taken)
    stored = np.load(models_dir / f"{name}.npz")
    outputs = [o.name for o in onnx.load(models_dir / f"{name}.onnx").graph.output]
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    network = EXECUTORS[executor](module["default"](tvmrt.cpu(0)))
    for _ in range(2):
        for key in stored.files:
            if not key.startswith("out:"):
                network.set_input(key, stored[key])
        network.run()
        for i, output in enumerate(outputs):
            golden = stored[f"out:{output}"]
            scale = float(np.abs(golden).max(initial=1e-6))
            np.testing.assert_allclose(network.get_output(i).numpy(), golden, atol=1e-4 * scale)


NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
RESIZED = {
    "whole steps": ({**NEAREST, "nearest_mode": "floor"}, [1, 1, 2, 3], "Resize"),
    "other places": ({**NEAREST, "nearest_mode": "ceil"}, [1, 1, 1.5, 2], "Gather"),
}


@pytest.mark.parametrize(
    "device", ["by_onnxruntime", pytest.param("openvino", marks=with_openvino)]
)
@pytest.mark.parametrize("case", RESIZED)
def test_nearest_neighbours(by_onnxruntime, tmp_path, monkeypatch, device, case):
    attrs, scales, form = RESIZED[case]
    nodes = [("Conv", ["x", "w"], "c", {}), ("Resize", ["c", "", "s"], "y", attrs)]
    feeds, written = {"x": normal(1, 2, 4, 3)}, []
    held = {"w": normal(3, 2, 1, 1), "s": np.array(scales, np.float32)}
    model = network(nodes, feeds, held, {"y": "float32"})
    add = Writer.add

    def noted(writer, op, *operands, **attributes):
        written.append(op)
        add(writer, op, *operands, **attributes)

    monkeypatch.setattr(Writer, "add", noted)
    library = tvmrt.compile(model, devices=[device])
    assert {row.device for row in library.summary.nodes} == {device}
    assert form in written
    library.export_library(tmp_path / "net.so")
    (found,) = run_library(tmp_path / "net.so", "graph", feeds)
    np.testing.assert_allclose(found, judge(model, feeds)[0], rtol=1e-5, atol=1e-6)


def region(op, attrs, x, y, name="n"):
    tensors = [{"name": n, "dtype": "float32", "shape": list(s)} for n, s in (("x", x), ("y", y))]
    node = {"op": op, "name": name, "inputs": [0], "outputs": [1], "attrs": attrs}
    return {"name": "r", "tensors": tensors, "nodes": [node], "inputs": [0], "outputs": [1]}


WINDOW = {"kernel": [2], "strides": [2], "dilations": [1], "pads_before": [0], "pads_after": [0]}
REFUSED = {
    "operator": (region("lstm", {}, [1], [1]), "n: lstm has no form in ONNX here"),
    "backwards": (region("slice", {"starts": [2], "steps": [-1]}, [3], [3]), "goes backwards"),
    "window": (region("max_pool", WINDOW, [1, 1, 5], [1, 1, 3]), "beyond the padding"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_form_is_refused_by_its_node(text, said):
    with pytest.raises(UnsupportedError, match=said):
        region_to_onnx(text, b"")


def test_attributes_that_are_left_out_have_their_defaults():
    (node,) = region_to_onnx(region("softmax", {"axis": 1}, [1, 3], [1, 3]), b"").graph.node
    assert (node.op_type, node.attribute[0].i) == ("Softmax", 1)


def test_without_the_package_nodes_stay_on_the_cpu(monkeypatch):
    monkeypatch.setattr(OpenVino, "absent", lambda self: "the package openvino is not installed")
    from tvmrt.conformance.cases import all_cases

    model = next(case for case in all_cases() if case.name == "Conv: 3x3").model()
    (row,) = tvmrt.compile(model, devices=["openvino"]).summary.nodes
    assert row.device == "cpu"
    assert "the package openvino is not installed" in row.reason
