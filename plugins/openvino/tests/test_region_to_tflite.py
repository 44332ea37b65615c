"""Test regions exported as TensorFlow Lite files: LiteRT computes what the network defines."""

from __future__ import annotations

import json
from pathlib import Path

import kit
import numpy as np
import pytest
from int8_case import bytes_network
from onnx_case import judge, network, normal
from quantised_case import quantised_layers, step_by_step
from sample_devices import run_library

import tvmrt
from tvmrt.compiler.devices.base import Refusal
from tvmrt.compiler.devices.region_json import region_text
from tvmrt.error import UnsupportedError
from tvmrt.plugins.region_writers.to_tflite import FORMS, region_to_tflite

interpreter = pytest.importorskip("ai_edge_litert.interpreter")


class ByLiteRt(tvmrt.devices.PythonDevice):
    """Runs the supported regions with LiteRT."""

    name = "by_litert"

    def supports(self, node):
        return None if node.op in FORMS else f"no form for {node.op}"

    def evaluate(self, region):
        try:
            text, constants = region_text([region], self.name)
            region_to_tflite(json.loads(text)["regions"][0], constants)
        except UnsupportedError as problem:
            return Refusal(str(problem), region.nodes[problem.node_index])
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


NAMES = ("Conv", "MatMul", "MaxPool")


def test_operators_mean_the_same(by_litert):
    """Offer the networks of the conformance kit to the device, operator by operator."""
    found = kit.check("operators", by_litert, 1e-5, only=NAMES)
    # LiteRT rounds some 8-bit layers to the other side, and its XNNPACK rejects some products of
    # int8 matrices in batches
    wrong = [text for f in found if not f.passed for text in f.detail.split("; ")]
    assert not [
        text for text in wrong if not text.endswith("is off by 1") and "prepare" not in text
    ]
    assert {f"{name} of int8" for name in NAMES} <= {f.subject for f in found}


REGION = {
    "name": "r",
    "tensors": [{"name": n, "dtype": "int8", "shape": [1, 2, 4, 4]} for n in "xy"],
    "inputs": [0],
    "outputs": [1],
}
POOL = {"kernel": [2, 2], "strides": [1, 1], "dilations": [1, 1], "pads_before": [1, 1],
        "pads_after": [0, 0], "count_pads": 0, "to": "int8", "low": -128, "high": 127,
        "x_scale": 1.0, "x_zero": 0, "y_scale": 1.0, "y_zero": 0}  # fmt: skip


@pytest.mark.parametrize(
    ("op", "attrs", "why"),
    [
        ("erf", {}, "erf cannot be written as TensorFlow Lite"),
        ("qavg_pool", POOL, "it excludes padding from averages"),
        ("qmax_pool", {**POOL, "dilations": [2, 2]}, "its windows are dilated"),
        ("softmax", {"axis": 2}, "it is supported along the last axis only"),
    ],
)
def test_unsupported_operators_are_refused(op, attrs, why):
    node = {"op": op, "name": "n", "inputs": [0], "outputs": [1], "attrs": attrs}
    with pytest.raises(UnsupportedError, match=f"n: {why}") as raised:
        region_to_tflite({**REGION, "nodes": [node]}, b"")
    assert raised.value.node_index == 0


def test_other_types_are_refused():
    node = {"op": "reshape", "name": "n", "inputs": [0], "outputs": [1], "attrs": {}}
    rows = [{**row, "dtype": "float32"} for row in REGION["tensors"]]
    with pytest.raises(UnsupportedError, match="n: it has tensors of float32"):
        region_to_tflite({**REGION, "tensors": rows, "nodes": [node]}, b"")


def run_one(model, feeds, folder):
    """Return the one result of a network that is one region."""
    compiled = tvmrt.compile(model, devices=["by_litert"])
    assert [row.device for row in compiled.summary.regions] == ["by_litert"]
    assert {row.device for row in compiled.summary.nodes} <= {"by_litert", "none"}
    compiled.export_library(folder / "n.so")
    (found,) = run_library(folder / "n.so", "graph", dict(feeds))
    return found


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_int8_network_is_one_file(by_litert, tmp_path, kind):
    """Weights of the unsigned network have a zero point."""
    scales = np.float32(4e-3) if kind == "uint8" else np.linspace(2e-3, 1e-2, 6, dtype="f")
    model, feeds = bytes_network(kind, 120 if kind == "uint8" else 0, scales)
    found = run_one(model, feeds, tmp_path)
    (exact,) = judge(model, feeds)
    assert np.ptp(exact.astype(int)) > 20, "the results are nearly constant"
    assert np.abs(found.astype(int) - exact.astype(int)).max() <= 1


def test_int8_between_adds_and_means_of_other_scales(by_litert, tmp_path):
    """Many results are halfway between two steps, where different roundings accumulate."""
    model, feeds = quantised_layers("uint8", 1, False)
    found, golden = run_one(model, feeds, tmp_path), step_by_step(model, feeds)
    assert np.ptp(golden) > 1
    np.testing.assert_allclose(found, golden, atol=2 / 32)  # steps


def movements(kind):
    """Return data movement, a product, channels with their own scales."""
    rng = np.random.default_rng(5)
    zero = np.array(3 if kind == "int8" else 130, kind)
    weights = {
        "s": np.float32(0.03), "z": zero, "t": np.float32(0.05), "perm": np.array([1, 3, 8]),
        "ws": np.linspace(0.002, 0.006, 4, dtype=np.float32), "wz": np.zeros(4, np.int8),
        "w": rng.integers(-99, 99, (4, 3, 2, 2)).astype(np.int8),
    }  # fmt: skip
    nodes = [
        ("QuantizeLinear", ["x", "s", "z"], "a", {}),
        ("DequantizeLinear", ["a", "s", "z"], "b", {}),
        ("DequantizeLinear", ["w", "ws", "wz"], "v", {"axis": 0}),
        ("Conv", ["b", "v"], "c", {}),
        ("QuantizeLinear", ["c", "s", "z"], "d", {}),
        ("MaxPool", ["d"], "h", {"kernel_shape": [2, 2]}),
        ("Transpose", ["h"], "i", {"perm": [0, 2, 1, 3]}),
        ("DequantizeLinear", ["i", "s", "z"], "j", {}),
        ("Mul", ["j", "j"], "k", {}),
        ("QuantizeLinear", ["k", "t", "z"], "l", {}),
        ("DequantizeLinear", ["l", "t", "z"], "y", {}),
    ]
    feeds = {"x": normal(1, 3, 6, 7)}
    return network(nodes, feeds, weights, {"y": "float32"}), feeds


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_data_movement(by_litert, tmp_path, kind):
    model, feeds = movements(kind)
    found, (golden,) = run_one(model, feeds, tmp_path), judge(model, feeds)
    assert np.ptp(golden) > 0.3
    np.testing.assert_allclose(found, golden, atol=0.0501)  # a step


@pytest.mark.parametrize("name", [
    "kws_dscnn_int8", pytest.param("resnet8_int8", marks=pytest.mark.slow),
])  # fmt: skip
def test_quantised_networks_are_the_same_to_the_bit(by_litert, models_dir, tmp_path, name):
    stored = np.load(models_dir / f"{name}.npz")
    feeds = {key: stored[key] for key in stored.files if not key.startswith("out:")}
    (golden,) = (stored[key] for key in stored.files if key.startswith("out:"))
    assert np.ptp(golden.astype(int)) > 200
    np.testing.assert_array_equal(run_one(models_dir / f"{name}.onnx", feeds, tmp_path), golden)


def described(dtypes, nodes, arrays=()):
    """Return a region of matmuls from tensor 0 to tensor 1, its constants and their bytes."""
    rows = [{"name": f"t{i}", "dtype": kind, "shape": [1, 4]} for i, kind in enumerate(dtypes)]
    data = b""
    for array in arrays:
        row = {"name": f"t{len(rows)}", "dtype": array.dtype.name, "shape": list(array.shape)}
        rows.append({**row, "offset": len(data), "bytes": array.nbytes})
        data += array.tobytes()
    named = [{"name": "n", "attrs": {}, **node} for node in nodes]
    return {"name": "r", "tensors": rows, "inputs": [0], "outputs": [1], "nodes": named}, data


def operators_of(model):
    """Return the operator names of a file in order."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    read = schema.ModelT.InitFromObj(schema.Model.GetRootAs(model))
    names = {value: name for name, value in vars(schema.BuiltinOperator).items()}
    codes = [names[code.builtinCode] for code in read.operatorCodes]
    return [codes[op.opcodeIndex] for op in read.subgraphs[0].operators]


@pytest.mark.parametrize(("scale", "fits"), [(1 / 256, True), (1 / 255, False)])
def test_softmax_between_int8_tensors_is_int8(scale, fits):
    nodes = [
        {"op": "dequantize", "inputs": [0, 4, 5], "outputs": [2]},
        {"op": "softmax", "inputs": [2], "outputs": [3], "attrs": {"axis": 1}},
        {"op": "quantize", "inputs": [3, 6, 7], "outputs": [1]},
    ]
    numbers = [np.float32(0.1), np.int8(3), np.float32(scale), np.int8(-128)]
    arrays = [np.asarray(number) for number in numbers]
    kinds = ["int8", "int8", "float32", "float32"]
    region = described(kinds, nodes, arrays)
    if not fits:
        with pytest.raises(UnsupportedError, match=r"with scale 0\.00390625 and zero point -128"):
            region_to_tflite(*region)
        return
    assert operators_of(region_to_tflite(*region)) == ["SOFTMAX"]


RESULT = {"to": "int8", "y_zero": 0, "low": -128, "high": 127}
PAIR = {**RESULT, "y_scale": 1.0, "a_scale": 0.5, "b_scale": 0.5, "a_zero": 0, "b_zero": 0}
WEIGHTS = [np.full((4, 4), -100, np.int8), np.ones(4, np.float32), np.full(4, 90, np.int32)]


@pytest.mark.parametrize(
    ("node", "kinds", "arrays", "why"),
    [
        ({"op": "qmatmul", "inputs": [0, 2, 3], "attrs": {"x_zero": 0, "to": "int32"}},
         ["int8", "int32"], WEIGHTS[:2], "its result has type int32"),
        ({"op": "qmatmul", "inputs": [0, 2, 3, -1, 4], "attrs": {"x_zero": 0, **RESULT}},
         ["int8", "int8"], [WEIGHTS[0], np.arange(1, 5, dtype=np.float32), WEIGHTS[2]],
         "its weights have several scales, and with zero point 0 some exceed 127"),
        ({"op": "qadd", "inputs": [0, 0], "attrs": {**PAIR, "b_zero": 1}},
         ["int8", "int8"], [], "t0 has another scale or zero point for another operator"),
        ({"op": "quantize", "inputs": [0, 2, 3]}, ["float32", "int8"],
         [np.ones(4, np.float32), np.zeros(4, np.int8)], "it has several scales"),
    ],
)  # fmt: skip
def test_unsupported_int8_operators_are_refused(node, kinds, arrays, why):
    with pytest.raises(UnsupportedError, match=f"n: {why}"):
        region_to_tflite(*described(kinds, [{**node, "outputs": [1]}], arrays))


@pytest.mark.parametrize(("path", "kinds"), [
    ("examples/keras/digits_int8.tflite", {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}),
    ("tests/data/tflite/residual_int8.tflite", {"CONV_2D", "ADD"}),
])  # fmt: skip
def test_tflite_networks_round_trip(by_litert, tmp_path, path, kinds):
    """Their layers are fixed-point; LiteRT's results for the file itself are the reference."""
    path = Path(__file__).parents[3] / path
    judge = interpreter.Interpreter(model_path=str(path))
    judge.allocate_tensors()
    (x,), (y,) = judge.get_input_details(), judge.get_output_details()
    feed = np.random.default_rng(8).integers(-128, 128, x["shape"]).astype(np.int8)
    judge.set_tensor(x["index"], feed)
    judge.invoke()
    golden = judge.get_tensor(y["index"])
    compiled = tvmrt.compile(path, devices=["by_litert"])
    rows = compiled.summary.nodes
    assert kinds <= {row.op_type for row in rows if row.device == "by_litert"}
    assert not [row for row in rows if row.op_type in kinds and row.device != "by_litert"]
    compiled.export_library(tmp_path / "n.so")
    (found,) = run_library(tmp_path / "n.so", "graph", {compiled.summary.inputs[0].name: feed})
    assert np.ptp(golden.astype(int)) > 20
    assert np.abs(found.astype(int) - golden.astype(int)).max() <= 1
