"""Quantised layers with integer-only requantisation."""

from __future__ import annotations

import re

import numpy as np
import pytest
from quant_case import LAYERS, TYPES, Net, bytes_overflow, run_for, scalar, zero

import tvmrt

FIXED = {"requantize": "fixed-point"}


def convolution(net: Net, layer: str, types: str, x: str | None = None) -> str:
    """Return an int8 QLinearConv with per-channel scales and a bias."""
    shape, weights, attrs = LAYERS[layer]
    kind, point, w_kind, w_point = TYPES[types]
    channels = weights[0]
    w_scale = net.rng.uniform(0.005, 0.02, channels).astype(np.float32)
    w_zero = np.full(channels, w_point, w_kind)
    if w_point:
        w_scale, w_zero = w_scale[0], w_zero[0]
    return net.node(
        "QLinearConv", x or net.input(net.bytes(kind, *shape)), scalar(0.03), zero(kind, point),
        net.bytes(w_kind, *weights), w_scale, w_zero, scalar(0.11), zero(kind, point),
        net.rng.integers(-3000, 3000, channels).astype(np.int32), **attrs,
    )  # fmt: skip


@pytest.mark.slow
def test_layers_are_within_one_step_of_float(tmp_path):
    net = Net(31)
    for types in TYPES:
        for layer in ("1x1", "3x3-stride-2", "depthwise", "grouped", "1-d"):
            if layer == "1-d" and bytes_overflow():
                continue  # ONNX's evaluator, the reference here, adds biases to images only
            net.output(convolution(net, layer, types), f"{layer} {types}")
    for kind, point in (("int8", 5), ("uint8", 119)):
        a, b = (
            net.dequantize(net.input(net.bytes(kind, 3, 40)), scalar(s), zero(kind, z))
            for s, z in ((0.031, point), (0.12, 2))
        )
        for op in ("Add", "Mul"):
            y = net.quantize(net.node(op, a, b), scalar(0.2), zero(kind, point))
            net.output(y, f"{op} {kind}")
        y = net.node(
            "QLinearMatMul", net.input(net.bytes(kind, 6, 32)), scalar(0.02), zero(kind, point),
            net.bytes("int8", 32, 9), scalar(0.013), zero("int8"), scalar(0.09), zero(kind, 7),
        )  # fmt: skip
        net.output(y, f"QLinearMatMul {kind}")
    net.check(tmp_path, steps=1, share=1.0, **FIXED)


def scaled(total: int, real: float) -> int:
    """Apply gemmlowp's quantized multiplier in Python integers: 31 bits, rounded high half of the
    product, then a rounding shift with ties away from zero."""
    fraction, exponent = np.frexp(np.float64(real))
    m = int(np.floor(fraction * 2**31 + 0.5))
    high = (total * (1 << max(int(exponent), 0)) * m + (1 << 30)) >> 31
    n = max(-int(exponent), 0)
    if n == 0:
        return high
    return (abs(high) + (1 << (n - 1)) >> n) * (1 if high >= 0 else -1)


def test_results_match_the_quantized_multiplier(tmp_path):
    net = Net(32)
    x, w = net.bytes("int8", 5, 16), net.bytes("int8", 16, 7)
    y = net.node(
        "QLinearMatMul", net.input(x), scalar(0.02), zero("int8", -3), w, scalar(0.013),
        zero("int8"), scalar(0.09), zero("int8", 11),
    )  # fmt: skip
    net.output(y)
    found = run_for("native", net.model(), net.feeds, tmp_path, **FIXED)[y]
    real = np.float32(0.02) * np.float32(0.013) / np.float32(0.09)
    sums = (x.astype(int) + 3) @ w.astype(int)
    wanted = np.array([[scaled(int(s), real) + 11 for s in row] for row in sums])
    np.testing.assert_array_equal(found, np.clip(wanted, -128, 127).astype(np.int8))


@pytest.mark.parametrize(
    ("options", "floats"), [(FIXED, False), ({}, True)], ids=["fixed", "float"]
)
def test_board_operators_use_no_floats(options, floats):
    net = Net(33)
    y = convolution(net, "1x1", "s8-s8")
    net.output(y)
    library = tvmrt.compile(net.model(), target="cortex-m0plus", interface_api="c", **options)
    files = [text for name, text in library.sources.files.items() if re.search(r"_lib\d\.c$", name)]
    code = re.sub(r"/\*.*?\*/", "", "\n".join(files), flags=re.DOTALL)
    assert bool(re.search(r"\bfloat\b|\bdouble\b", code)) == floats
    assert ("TVMRT_MICRO_TWICE" in code) != floats
