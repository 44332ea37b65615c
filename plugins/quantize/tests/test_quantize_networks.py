"""``tvmrt quantize`` and ``tvmrt.quantize``: errors of results, and samples that do not fit."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import tvmrt

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
BENCH = Path(__file__).parents[3] / "tests" / "bench"
pytest.importorskip("onnxruntime.quantization")


@pytest.fixture(scope="module")
def digits():
    with np.load(DIGITS / "digits_test.npz") as data:
        return (data["images"][:, None] / 16).astype(np.float32), data["labels"]


def run(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tvmrt", "quantize", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def layered(rng, bias_shape=(6,), batch="n") -> onnx.ModelProto:
    """Return a network of opset 11 with a product whose results have a wide and a narrow range."""
    wide = rng.normal(0, 1, (8, 6)).astype(np.float32)
    wide[:, 0] *= 1000
    weights = {
        "w": wide,
        "b": np.zeros(bias_shape, np.float32),
        "v": rng.normal(0, 1, (6, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("MatMul", ["t", "v"], ["y"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "layered", [value("x", 1, [batch, 8])], [value("y", 1, [batch, 4])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)


def relative_error(exact, other) -> float:
    return float(np.sqrt(np.mean((exact - other) ** 2)) / np.sqrt(np.mean(exact**2)))


def test_digits_lose_less_than_a_hundredth_on_other_pictures(digits, tmp_path):
    images, labels = digits
    np.savez(tmp_path / "samples.npz", image=images[:200], digit=labels[:200])
    target = tmp_path / "int8.onnx"
    done = run(
        DIGITS / "digits_f32.onnx", "--data", tmp_path / "samples.npz", "-o", target,
        "--labels", "digit", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said = json.loads(done.stdout)
    exact, found = tvmrt.load(DIGITS / "digits_f32.onnx"), tvmrt.load(target)
    right = np.concatenate([exact(image[None]) for image in images])
    actual = np.concatenate([found(image[None]) for image in images])
    assert said["error"] == pytest.approx(relative_error(right[:200], actual[:200]), rel=1e-3)
    assert said["accuracy"] == np.mean(actual[:200].argmax(-1) == labels[:200])
    assert said["accuracy_float32"] == np.mean(right[:200].argmax(-1) == labels[:200])
    rest = [np.mean(each[200:].argmax(-1) == labels[200:]) for each in (right, actual)]
    assert rest[1] > rest[0] - 0.01
    costs = [layer["cost"] for layer in said["layers"]]
    assert costs == sorted(costs, reverse=True) and costs[0] > 0
    assert {layer["operator"] for layer in said["layers"]} >= {"Conv", "Gemm", "Softmax"}


@pytest.mark.slow
def test_trained_network_loses_less_than_a_hundredth_by_label(tmp_path, monkeypatch):
    """A DS-CNN is trained with synthesised words; others than those of the calibration count."""
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    monkeypatch.syspath_prepend(BENCH)
    model, held_out = importlib.import_module("trained_networks").write("kws", tmp_path)
    with np.load(held_out) as data:
        x, labels = data["x"], data["label"]
    np.savez(tmp_path / "samples.npz", x=x[:200], label=labels[:200])
    target = tmp_path / "int8.onnx"
    done = run(model, "--data", tmp_path / "samples.npz", "-o", target, "--labels", "label")
    assert done.returncode == 0, done.stderr
    networks = (
        tvmrt.load(model), tvmrt.load(target), tvmrt.load(target, requantize="fixed-point")
    )  # fmt: skip
    float32, *quantised = (
        np.mean([net(sample[None]).argmax() for sample in x[200:]] == labels[200:])
        for net in networks
    )
    assert 0.85 < float32 < 0.98, "a task that shows losses"
    assert min(quantised) >= float32 - 0.01


def test_weights_of_the_result_are_bytes(digits):
    images, _ = digits
    result = tvmrt.quantize(DIGITS / "digits_f32.onnx", {"image": images[:20]})
    sizes = [
        sum(each.weights_bytes for each in tvmrt.compile(network).summary.operators)
        for network in (DIGITS / "digits_f32.onnx", result.model)
    ]
    assert sizes[1] < 0.4 * sizes[0]


def test_most_expensive_layers_stay_in_float32_until_the_error_holds(digits):
    images, _ = digits
    network = DIGITS / "digits_f32.onnx"
    free = tvmrt.quantize(network, {"image": images[:64]})
    bound = free.error * 0.8
    result = tvmrt.quantize(network, {"image": images[:64]}, max_error=bound)
    assert result.error <= bound < free.error
    kept = [layer.precision == "float32" for layer in result.layers]
    assert 0 < sum(kept) < len(kept)
    assert kept == sorted(kept, reverse=True), "layers are in order of cost"
    names = {layer.name for layer in result.layers if layer.precision == "float32"}
    dequantized = {name for n in result.model.graph.node for name in n.output
                   if n.op_type == "DequantizeLinear"}  # fmt: skip
    convolutions = [n for n in result.model.graph.node if n.op_type == "Conv"]
    assert convolutions
    for node in convolutions:
        assert (node.input[1] in dequantized) == (node.name not in names)


@pytest.mark.parametrize("bias_shape", [(6,), (1, 6)])
def test_layer_with_a_wide_range_is_the_most_expensive(bias_shape):
    """The network is of an old opset, with nodes without names."""
    rng = np.random.default_rng(0)
    model = layered(rng, bias_shape)
    x = rng.normal(0, 1, (40, 8)).astype(np.float32)
    result = tvmrt.quantize(model, {"x": x})
    assert all(layer.precision == "int8" and layer.cost is not None for layer in result.layers)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    exact = np.concatenate([session.run(None, {"x": row[None]})[0] for row in x])
    network = tvmrt.load(result.model.SerializeToString())
    found = np.concatenate([network(row[None]) for row in x])
    assert result.error == pytest.approx(relative_error(exact, found), rel=1e-3)
    first = result.layers[0]
    assert first.operator == "Gemm" and first.cost > 3 * result.layers[-1].cost


def test_fixed_batches_take_as_many_samples():
    rng = np.random.default_rng(1)
    model = layered(rng, batch=4)
    result = tvmrt.quantize(model, {"x": rng.normal(0, 1, (12, 8)).astype(np.float32)})
    assert result.samples == 3
    with pytest.raises(ValueError, match=r"float32\[10 x 8\]; the network takes batches of 4"):
        tvmrt.quantize(model, {"x": np.ones((10, 8), np.float32)})


ONES = np.ones((3, 8), np.float32)
REFUSED = {
    "missing": ({"z": ONES}, {}, "no array x, an input of the network; they have z"),
    "type": ({"x": ONES.astype(np.float64)}, {}, "is float64.*; the network takes float32"),
    "shape": ({"x": ONES[:, :7]}, {}, r"float32\[3 x 7\]; the network takes \? x 8 in each run"),
    "none": ({"x": ONES[:0]}, {}, "give at least one sample"),
    "infinite": ({"x": ONES * np.inf}, {}, "has elements that are not finite"),
    "labels": ({"x": ONES}, {"labels": [1, 2]}, "there are 2 labels for 3 runs"),
    "real labels": ({"x": ONES}, {"labels": [0.5]}, "give one integer per sample"),
    "bound": ({"x": ONES}, {"max_error": 0}, "max_error=0: it must be a number above 0"),
    "too exact": ({"x": ONES}, {"max_error": 1e-12}, "no layer can be in int8 with an error of"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_samples_that_do_not_fit(case):
    data, options, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence):
        tvmrt.quantize(layered(np.random.default_rng(0)), data, **options)


def test_networks_that_are_not_float32(tmp_path):
    with pytest.raises(ValueError, match="is quantised already; give the float32 network"):
        tvmrt.quantize(DIGITS / "digits_int8.onnx", {"image": np.ones((1, 1, 8, 8), np.float32)})
    done = run(DIGITS / "digits_test.npz", "--data", DIGITS / "digits_test.npz", "-o", "y.onnx")
    assert done.returncode == 2
    assert "digits_test.npz is not an .onnx file; only ONNX networks are quantised" in done.stderr
    np.savez(tmp_path / "samples.npz", image=np.ones((2, 1, 8, 8), np.float32))
    target = tmp_path / "net.so"
    done = run(DIGITS / "digits_f32.onnx", "--data", tmp_path / "samples.npz", "-o", target)
    assert done.returncode == 2
    assert f"{target} must end in .onnx" in done.stderr and not target.exists()
