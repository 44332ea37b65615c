"""Bfloat16 transposed convolutions compared with onnxruntime on values representable in bfloat16,
whose products are exact in float32."""

from __future__ import annotations

import platform

import numpy as np
import onnxruntime
import pytest
from ml_dtypes import bfloat16
from onnx import helper
from onnx_graph import model as make_model

import tvmrt
from tvmrt.runtime.executor import AotModule

# channels, extents, kernel, strides, pads, groups
CASES = [
    ((37, 24), (9, 19), (2, 2), (2, 2), (0, 0, 0, 0), 1),
    ((16, 21), (8, 33), (3, 3), (2, 2), (1, 1, 1, 1), 1),
    ((24, 36), (5, 7), (4, 4), (2, 3), (1, 0, 2, 1), 3),
    ((70, 40), (6, 6), (3, 2), (1, 1), (0, 0, 0, 0), 1),
]
TARGETS = {
    "plain": {"target": "host"},
    "v3": {"target": "x86-64", "levels": ["v3"]},
    "here": {},
}


def representable(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, np.float32).astype(bfloat16).astype(np.float32)


def network():
    """Add a transposed convolution, a residual and bounds for each case."""
    rng = np.random.default_rng(12)
    nodes, initializers, inputs = [], {}, {}
    for i, ((ins, outs), extents, kernel, strides, pads, groups) in enumerate(CASES):
        inputs[f"x{i}"] = representable(rng, 2, ins, *extents)
        initializers[f"w{i}"] = representable(rng, ins, outs // groups, *kernel)
        initializers[f"b{i}"] = rng.standard_normal(outs, np.float32)
        attrs = {"strides": strides, "pads": pads, "group": groups}
        given = [f"x{i}", f"w{i}", f"b{i}"]
        nodes += [
            helper.make_node("ConvTranspose", given, [f"y{i}"], f"layer{i}", **attrs),
            helper.make_node("Relu", [f"y{i}"], [f"z{i}"]),
        ]
    outputs = [f"z{i}" for i in range(len(CASES))]
    return make_model(nodes, inputs, outputs, initializers), inputs


@pytest.mark.slow
@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.filterwarnings("ignore:.*no bfloat16 multiply instruction")
def test_transposed_convolutions_agree_with_onnxruntime(kind, tmp_path):
    if kind == "v3" and platform.machine() != "x86_64":
        pytest.skip("a level of x86-64")
    model, inputs = network()
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    request = tvmrt.Request(executor="aot", precision="bf16", **TARGETS[kind])
    library = tvmrt.compile(model, request.for_here() if kind == "here" else request)
    rows = library.summary.reduced
    assert [row.precision for row in rows] == ["bfloat16"] * len(CASES)
    assert any("tvmrt_conv_transpose_bf16" in text for text in library.sources.files.values())
    library.export_library(tmp_path / "net.so")
    executor = AotModule(tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0)))
    executor.run(**inputs)
    for i, expected in enumerate(right):
        found = executor.get_output(i).numpy()
        assert np.abs(found - expected).max() < 2e-5 * np.abs(expected).max()
