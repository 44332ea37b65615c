"""Regions as TensorFlow Lite files: what LiteRT makes of them is what the network says."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import tvmrt
from tvmrt.conformance import operators
from tvmrt.devices.base import Refusal
from tvmrt.devices.region_json import region_text
from tvmrt.devices.to_tflite import FORMS, region_to_tflite
from tvmrt.error import UnsupportedError

interpreter = pytest.importorskip("ai_edge_litert.interpreter")


class ByLiteRt(tvmrt.devices.PythonDevice):
    """Runs what has a form."""

    name = "by_litert"

    def supports(self, node):
        return None if node.op in FORMS else f"no form for {node.op}"

    def evaluate(self, region):
        try:
            text, constants = region_text([region], self.name)
            region_to_tflite(json.loads(text)["regions"][0], constants)
        except UnsupportedError as problem:
            return Refusal(str(problem), region.nodes[problem.place])
        return None

    def absent(self):
        return None

    def enter_runtime(self):
        def pre_run(symbol, text, constants, options):
            data = region_to_tflite(json.loads(str(text)), bytes(constants))
            net = interpreter.Interpreter(model_content=data)
            net.allocate_tensors()
            inputs = [row["index"] for row in net.get_input_details()]
            outputs = [row["index"] for row in net.get_output_details()]

            def run(symbol, *given):
                for index, x in zip(inputs, given):
                    net.set_tensor(index, x.numpy())
                net.invoke()
                for index, y in zip(outputs, given[len(inputs) :]):
                    y.copyfrom(net.get_tensor(index))

            return run

        tvmrt.register_func("device.by_litert.pre_run", pre_run, override=True)
        tvmrt.register_func("device.by_litert.run", lambda *_: None, override=True)


@pytest.fixture(scope="module")
def by_litert():
    tvmrt.devices.register(ByLiteRt())
    yield tvmrt.devices.get("by_litert")
    tvmrt.devices.unregister("by_litert")


NAMES = ("Conv", "MatMul", "Softmax", "Concat", "ReduceMean")


def test_operators_mean_the_same(by_litert):
    """The kit's networks, offered to the device operator by operator."""
    found = operators.check(by_litert, 1e-5, only=NAMES)
    assert not [f for f in found if not f.passed]
    assert set(NAMES) <= {f.subject for f in found}


def layers() -> onnx.ModelProto:
    """Padded, strided, depthwise and dilated convolutions, a residual, pools, a classifier."""
    rng = np.random.default_rng(2)
    shapes = {"w0": (8, 3, 3, 3), "b0": (8,), "w1": (16, 1, 3, 3), "w2": (8, 16, 1, 1),
              "w3": (8, 8, 3, 3), "w4": (8, 10)}  # fmt: skip
    held = [
        numpy_helper.from_array((rng.normal(size=s) / 3).astype(np.float32), n)
        for n, s in shapes.items()
    ]
    held.append(numpy_helper.from_array(np.array([2, 8]), "flat"))
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], pads=[0, 1, 1, 1], strides=[2, 1]),
        node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1"], ["c1"], group=8, pads=[1, 1, 1, 1]),
        node("Conv", ["c1", "w2"], ["c2"]),
        node("Add", ["c2", "r0"], ["a"]),
        node("Conv", ["a", "w3"], ["c3"], dilations=[2, 1], pads=[2, 1, 2, 1]),
        node("Concat", ["c3", "a"], ["j"], axis=2),
        node("MaxPool", ["j"], ["p"], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]),
        node("GlobalAveragePool", ["p"], ["g"]),
        node("Reshape", ["g", "flat"], ["f"]),
        node("MatMul", ["f", "w4"], ["m"]),
        node("Softmax", ["m"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "layers", [value("x", 1, (2, 3, 12, 10))], [value("y", 1, (2, 10))], held
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_network_is_one_file(by_litert, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model = layers()
    compiled = tvmrt.compile(model, devices=["by_litert"])
    assert [row.device for row in compiled.summary.regions] == ["by_litert"]
    assert {row.device for row in compiled.summary.nodes} <= {"by_litert", "none"}
    compiled.export_library(tmp_path / "n.so")
    x = np.random.default_rng(4).normal(size=(2, 3, 12, 10)).astype(np.float32)
    module = tvmrt.runtime.load_module(tmp_path / "n.so")["default"](tvmrt.cpu(0))
    net = tvmrt.contrib.graph_executor.GraphModule(module)
    net.run(x=x)
    (golden,) = runtime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(net.get_output(0).numpy(), golden, rtol=1e-4, atol=1e-6)


REGION = {
    "name": "r",
    "tensors": [{"name": n, "dtype": "float32", "shape": [1, 2, 4, 4]} for n in "xy"],
    "inputs": [0],
    "outputs": [1],
}
POOL = {"kernel": [2, 2], "strides": [1, 1], "dilations": [1, 1], "pads_before": [1, 1],
        "pads_after": [0, 0], "count_pads": 0}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "attrs", "why"),
    [
        ("erf", {}, "erf has no form in TensorFlow Lite here"),
        ("avg_pool", POOL, "it leaves padding out of its averages"),
        ("max_pool", {**POOL, "dilations": [2, 2]}, "its windows are dilated"),
        ("softmax", {"axis": 2}, "its axis is not the last one"),
    ],
)
def test_what_has_no_form_is_refused(op, attrs, why):
    node = {"op": op, "name": "n", "inputs": [0], "outputs": [1], "attrs": attrs}
    with pytest.raises(UnsupportedError, match=f"n: {why}") as raised:
        region_to_tflite({**REGION, "nodes": [node]}, b"")
    assert raised.value.place == 0


def test_other_types_are_refused():
    node = {"op": "neg", "name": "n", "inputs": [0], "outputs": [1], "attrs": {}}
    rows = [{**row, "dtype": "int8"} for row in REGION["tensors"]]
    with pytest.raises(UnsupportedError, match="another type than float32"):
        region_to_tflite({**REGION, "tensors": rows, "nodes": [node]}, b"")
