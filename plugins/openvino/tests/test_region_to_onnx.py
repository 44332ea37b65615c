"""Test regions exported as ONNX: onnxruntime and OpenVINO compute what the network defines."""

from __future__ import annotations

import importlib.util
import json

import kit
import numpy as np
import onnx
import pytest
from onnx_case import judge, network, normal
from sample_devices import run_library

import tvmrt
from tvmrt.error import UnsupportedError
from tvmrt.plugins.openvino.device import OpenVinoDevice
from tvmrt.plugins.region_writers.onnx_writer import Writer
from tvmrt.plugins.region_writers.to_onnx import region_to_onnx
from tvmrt.runtime.executor import AotModule, GraphModule

runtime = pytest.importorskip("onnxruntime")
EXECUTORS = {"graph": GraphModule, "aot": AotModule}
with_openvino = pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="the package openvino is not installed"
)


class ByOnnxRuntime(OpenVinoDevice):
    """Runs the same regions with onnxruntime, with any operators."""

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


@pytest.mark.slow
def test_every_operator_means_the_same_in_onnx(by_onnxruntime):
    """Offer all networks of the conformance kit to the device, operator by operator."""
    found = kit.check("operators", by_onnxruntime, 1e-5)
    assert not [f for f in found if not f.passed]
    assert {"Conv", "MatMul", "Gemm", "MaxPool", "Pad", "Slice", "Transpose"} <= {
        f.subject for f in found
    }
    assert len(found) > 40


@with_openvino
@pytest.mark.parametrize("check", [
    "operators", "tensors", pytest.param("threads", marks=pytest.mark.slow),
])  # fmt: skip
def test_openvino_passes_the_kit(check):
    device = tvmrt.devices.get("openvino")
    found = kit.check(check, device, 1e-3, ("Conv: padded", "MatMul", "Gemm"))
    assert found
    assert not [f for f in found if not f.passed]


SOME = ("mnist_cnn_f32", "resnet8_f32", "go1_policy_f32", "yunet_n_320_f32", "gtcrn_f32")


@with_openvino
@pytest.mark.parametrize(("name", "executor"), [
    *((name, "graph") for name in SOME), ("yunet_n_320_f32", "aot"),
])  # fmt: skip
def test_networks_on_openvino(name, executor, models_dir, tmp_path):
    """Most nodes are accepted, and results are correct in a first and a second run."""
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


@pytest.mark.parametrize(
    "device", ["by_onnxruntime", pytest.param("openvino", marks=with_openvino)]
)
def test_transposed_convolutions_and_a_gather(by_onnxruntime, tmp_path, device):
    strided = {"group": 2, "strides": [2, 3]}
    nodes = [
        ("ConvTranspose", ["image", "k", "bias"], "strided", strided),
        ("ConvTranspose", ["image", "k"], "padded", {
            **strided, "pads": [1, 0, 1, 2], "output_padding": [1, 0],
        }),
        ("Gather", ["strided", "places"], "gathered", {"axis": 3}),
    ]  # fmt: skip
    held = {"k": normal(4, 3, 3, 2), "bias": normal(6), "places": np.array([0, -2, 4])}
    feeds = {"image": normal(1, 4, 5, 4)}
    model = network(nodes, feeds, held, dict.fromkeys(("padded", "gathered"), "float32"))
    library = tvmrt.compile(model, devices=[device])
    assert {row.device for row in library.summary.nodes} == {device}
    library.export_library(tmp_path / "net.so")
    found = run_library(tmp_path / "net.so", "graph", feeds)
    for array, golden in zip(found, judge(model, feeds)):
        np.testing.assert_allclose(array, golden, 1e-4, 1e-5)


def test_quantised_layers_and_cells_stay_on_the_cpu(by_onnxruntime):
    held = {"s": np.float32(0.1), "z": np.int8(0), "w": np.ones((4, 3), np.int8)}
    held |= {"g": normal(1, 12, 3), "r": normal(1, 12, 4)}
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], "q", {}),
        ("DequantizeLinear", ["q", "s", "z"], "d", {}),
        ("DequantizeLinear", ["w", "s", "z"], "v", {}),
        ("Gemm", ["d", "v"], "m", {"transB": 1}),
        ("QuantizeLinear", ["m", "s", "z"], "y", {}),
        ("GRU", ["steps", "g", "r"], "cell", {"hidden_size": 4}),
    ]
    feeds = {"x": normal(2, 3), "steps": normal(5, 2, 3)}
    model = network(nodes, feeds, held, {"y": "int8", "cell": "float32"})
    rows = {row.name: row for row in tvmrt.compile(model, devices=["by_onnxruntime"]).summary.nodes}
    assert rows["n3"].device == "cpu"
    assert "cpu" in rows["n5"].device.split(", ")  # its product with the inputs is a layer


NEAREST = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
RESIZED = {
    "whole steps": ({**NEAREST, "nearest_mode": "floor"}, [1, 1, 2, 3], "Resize"),
    "other places": ({**NEAREST, "nearest_mode": "ceil"}, [1, 1, 1.5, 2], "Gather"),
}


@pytest.mark.parametrize(
    "device", ["by_onnxruntime", pytest.param("openvino", marks=with_openvino)]
)
@pytest.mark.parametrize("case", RESIZED)
def test_nearest_neighbour_resize(by_onnxruntime, tmp_path, monkeypatch, device, case):
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


def test_a_seventh_of_the_columns(by_onnxruntime, tmp_path):
    """With a size instead of scales, onnxruntime selects columns next to those of the exact
    coordinates."""
    attrs = {**NEAREST, "nearest_mode": "floor"}
    nodes = [("Conv", ["x", "w"], "c", {}), ("Resize", ["c", "", "", "s"], "y", attrs)]
    feeds = {"x": normal(1, 2, 4, 224)}
    held = {"w": normal(3, 2, 1, 1), "s": np.array([1, 3, 4, 32], np.int64)}
    library = tvmrt.compile(
        network(nodes, feeds, held, {"y": "float32"}), devices=["by_onnxruntime"]
    )
    assert {row.device for row in library.summary.nodes} == {"by_onnxruntime"}
    library.export_library(tmp_path / "net.so")
    (found,) = run_library(tmp_path / "net.so", "graph", feeds)
    wide = network(nodes[:1], feeds, {"w": held["w"]}, {"c": "float32"})
    np.testing.assert_allclose(found, judge(wide, feeds)[0][..., ::7], rtol=1e-5, atol=1e-6)


def region(op, attrs, x, y, name="n"):
    tensors = [{"name": n, "dtype": "float32", "shape": list(s)} for n, s in (("x", x), ("y", y))]
    node = {"op": op, "name": name, "inputs": [0], "outputs": [1], "attrs": attrs}
    return {"name": "r", "tensors": tensors, "nodes": [node], "inputs": [0], "outputs": [1]}


WINDOW = {"kernel": [2], "strides": [2], "dilations": [1], "pads_before": [0], "pads_after": [0]}
REFUSED = {
    "operator": (region("nms", {}, [1], [1]), "n: nms cannot be written as ONNX"),
    "backwards": (
        region("slice", {"starts": [2], "steps": [-1]}, [3], [3]),
        "its step is negative",
    ),
    "window": (region("max_pool", WINDOW, [1, 1, 5], [1, 1, 3]), "exceeds the padding"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_unsupported_nodes_are_refused_by_name(text, said):
    with pytest.raises(UnsupportedError, match=said):
        region_to_onnx(text, b"")


def test_attributes_that_are_left_out_have_their_defaults():
    (node,) = region_to_onnx(region("softmax", {"axis": 1}, [1, 3], [1, 3]), b"").graph.node
    assert (node.op_type, node.attribute[0].i) == ("Softmax", 1)


def test_without_the_package_nodes_stay_on_the_cpu(monkeypatch):
    monkeypatch.setattr(
        OpenVinoDevice, "absent", lambda self: "the package openvino is not installed"
    )
    model = pytest.importorskip("tvmrt.conformance.cases").drawn("Conv")[0].model()
    (row,) = tvmrt.compile(model, devices=["openvino"]).summary.nodes
    assert row.device == "cpu"
    assert "the package openvino is not installed" in row.reason


def plain_region(op, attrs, *shapes):
    """Return a region of one operator on float32 tensors; the last shape is of the result."""
    tensors = [{"dtype": "float32", "shape": list(shape)} for shape in shapes]
    count = len(shapes) - 1
    node = {"op": op, "name": "n", "attrs": attrs, "inputs": [*range(count)], "outputs": [count]}
    places = {"inputs": [*range(count)], "outputs": [count], "constants": []}
    return {"name": "r", "tensors": tensors, "nodes": [node], **places}


PLAIN = {
    "CumSum": (
        plain_region("cumulative_sum", {"axis": 1, "exclusive": 1, "reverse": 0}, [2, 3], [2, 3]),
        lambda x: np.cumsum(x, 1) - x,
    ),
    "ReduceSumSquare": (
        plain_region("reduce_sum_square", {"axes": [0], "keepdims": 1}, [2, 3], [1, 3]),
        lambda x: np.square(x).sum(0, keepdims=True),
    ),
    "Transpose": (plain_region("transpose", {"perm": [1, 0]}, [2, 3], [3, 2]), np.transpose),
    "Atanh": (plain_region("atanh", {}, [2, 3], [2, 3]), np.arctanh),
}


@pytest.mark.parametrize("name", PLAIN)
def test_operator_is_written_by_the_name_and_attributes_of_its_declaration(name):
    text, compute = PLAIN[name]
    model = region_to_onnx(text, b"")
    assert [node.op_type for node in model.graph.node] == [name]
    session = runtime.InferenceSession(model.SerializeToString())
    x = np.linspace(-0.9, 0.8, 6, dtype=np.float32).reshape(2, 3)
    (y,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(y, compute(x), rtol=1e-5)
