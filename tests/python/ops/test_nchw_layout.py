"""Host convolutions with few input channels that read NCHW images directly."""

from __future__ import annotations

import platform

import numpy as np
import onnxruntime
import pytest
from ml_dtypes import bfloat16
from onnx import helper, numpy_helper
from onnx_graph import model as make_model

import tvmrt
from tvmrt.runtime.executor import AotModule

# channels, extents, kernel, strides, pads: on every side, none, at the end only, most of a window
CASES = [
    (3, (33, 41), (3, 3), (2, 2), (1, 1, 1, 1)),
    (3, (24, 40), (6, 6), (2, 2), (2, 2, 2, 2)),
    (4, (19, 17), (3, 5), (1, 1), (0, 0, 0, 0)),
    (2, (16, 23), (1, 3), (1, 2), (0, 0, 0, 2)),
    (3, (40, 40), (7, 7), (4, 3), (6, 3, 2, 1)),
]
TARGETS = {
    "plain": {"target": "host"},
    "native": {"target": "native"},
    "v3": {"target": "x86-64", "levels": ["v3"]},
}


def network(cases=CASES, batch: int = 1):
    """Add an input, a convolution and a depthwise convolution for each case; these form a chain."""
    rng = np.random.default_rng(11)
    nodes, weights, inputs = [], {}, {}
    for i, (channels, extents, kernel, strides, pads) in enumerate(cases):
        inputs[f"x{i}"] = rng.standard_normal((batch, channels, *extents), np.float32)
        weights[f"w{i}"] = rng.standard_normal((21, channels, *kernel), np.float32) / 6
        weights[f"b{i}"] = rng.standard_normal(21, np.float32)
        weights[f"d{i}"] = rng.standard_normal((21, 1, 3, 3), np.float32)
        first = [f"x{i}", f"w{i}", f"b{i}"]
        nodes += [
            helper.make_node("Conv", first, [f"y{i}"], strides=strides, pads=pads),
            helper.make_node("Relu", [f"y{i}"], [f"r{i}"]),
            helper.make_node("Conv", [f"r{i}", f"d{i}"], [f"z{i}"], group=21, pads=[1] * 4),
        ]
    outputs = [f"z{i}" for i in range(len(cases))]
    return make_model(nodes, inputs, outputs, weights), inputs


def results(library, path, inputs) -> list[np.ndarray]:
    library.export_library(path)
    executor = AotModule(tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0)))
    for name, x in inputs.items():
        executor.set_input(name, x)
    executor.run()
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


@pytest.mark.slow
@pytest.mark.parametrize("kind", TARGETS)
def test_nchw_agrees_with_onnxruntime(kind, tmp_path):
    if kind == "v3" and platform.machine() != "x86_64":
        pytest.skip("a level of x86-64")
    model, inputs = network()
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    found = []
    for chains in (False, True):
        options = {"executor": "aot", "row_chains": chains, **TARGETS[kind]}
        found.append(results(tvmrt.compile(model, **options), tmp_path / f"{chains}.so", inputs))
    for whole, chained, expected in zip(*found, right):
        assert np.array_equal(whole, chained)
        assert np.abs(whole - expected).max() < 2e-5 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "v3", "here"])
@pytest.mark.filterwarnings("ignore:.*no bfloat16 multiply instruction")
def test_nchw_rounds_to_bfloat16_like_nhwc(kind, tmp_path):
    if kind == "v3" and platform.machine() != "x86_64":
        pytest.skip("a level of x86-64")
    model, inputs = network()
    # products of rounded operands are exact in float32
    inputs = {name: x.astype(bfloat16).astype(np.float32) for name, x in inputs.items()}
    for tensor in model.graph.initializer:
        if tensor.name.startswith("w"):
            w = numpy_helper.to_array(tensor).astype(bfloat16).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(w, tensor.name))
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    request = tvmrt.Request(executor="aot", precision="bf16", **TARGETS.get(kind, {}))
    library = tvmrt.compile(model, request.for_here() if kind == "here" else request)
    assert {row.precision for row in library.summary.reduced} == {"bfloat16"}
    for found, expected in zip(results(library, tmp_path / "net.so", inputs), right):
        assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()


def operators(channels: int, batch: int, precision: str = "float32") -> int:
    """Return two layers, a copy of the result, and a transpose of the input."""
    model, _ = network([(channels, (16, 16), (3, 3), (1, 1), (0, 0, 0, 0))], batch)
    return len(tvmrt.compile(model, winograd=False, precision=precision).summary.operators)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.filterwarnings("ignore:.*no bfloat16 multiply instruction")
def test_no_pass_transposes_an_image(precision):
    assert [operators(channels, 1, precision) for channels in (2, 3, 4)] == [3, 3, 3]


def test_many_channels_and_several_images_are_transposed():
    assert operators(5, 1) == operators(3, 2) == 4
