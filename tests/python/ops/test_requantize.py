"""Quantised layers with integer-only requantisation."""

from __future__ import annotations

import re

import numpy as np
import pytest
from boards import BOARDS, run_network
from crt_program import run_archive
from nn_case import build_model, case, reference_outputs
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


@pytest.mark.slow
@pytest.mark.parametrize("w_scale", [0.013, 2.7, 7.6], ids=["usual", "above a half", "above 1"])
@pytest.mark.parametrize("target", ["native", "cortex-m4"])
def test_results_match_the_quantized_multiplier(target, w_scale, tmp_path):
    net = Net(32)
    x, w = net.bytes("int8", 5, 16), net.bytes("int8", 16, 7)
    w = w if w_scale < 1 else np.sign(w)
    y = net.node(
        "QLinearMatMul", net.input(x), scalar(0.02), zero("int8", -3), w, scalar(w_scale),
        zero("int8"), scalar(0.09), zero("int8", 11),
    )  # fmt: skip
    net.output(y)
    if target == "native":
        found = run_for(target, net.model(), net.feeds, tmp_path, **FIXED)[y]
    elif BOARDS[target].missing_tool():
        pytest.skip(f"{BOARDS[target].missing_tool()} is not installed")
    else:
        library = tvmrt.compile(
            net.model(), target=target, interface_api="c", module_name="net", **FIXED
        )
        found = run_network(BOARDS[target], library, net.feeds, tmp_path).outputs[y]
    real = np.float32(0.02) * np.float32(w_scale) / np.float32(0.09)
    sums = (x.astype(int) + 3) @ w.astype(int)
    wanted = np.array([[scaled(int(s), real) + 11 for s in row] for row in sums])
    np.testing.assert_array_equal(found, np.clip(wanted, -128, 127).astype(np.int8))


@pytest.mark.parametrize(("options", "fixed"), [(FIXED, True), ({}, False)], ids=["fixed", "float"])
def test_board_operators_use_no_floats(options, fixed):
    net = Net(33)
    y = convolution(net, "1x1", "s8-s8")
    net.output(y)
    library = tvmrt.compile(net.model(), target="cortex-m0plus", interface_api="c", **options)
    files = [text for name, text in library.sources.files.items() if re.search(r"_lib\d\.c$", name)]
    code = re.sub(r"/\*.*?\*/", "", "\n".join(files), flags=re.DOTALL)
    assert not (fixed and re.search(r"\bfloat\b|\bdouble\b", code))
    assert ("TVMRT_MICRO_TWICE" in code) == fixed


def rounded_twice(sums: np.ndarray, w_scale: np.ndarray) -> np.ndarray:
    """Return the bytes of channels-first sums with the scales and zero points of ``layers``."""
    real = np.float32(0.02) * w_scale / np.float32(0.09)
    found = [[scaled(int(s), r) + 5 for s in row.flat] for row, r in zip(sums, real)]
    return np.clip(found, -128, 127).reshape(sums.shape)


def window_sums(x: np.ndarray, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the exact sums of a convolution of one image with padding 1 or none; ``w`` with one
    input channel is depthwise."""
    pad, groups = w.shape[2] // 2, len(x) // w.shape[1]
    padded = np.pad(x.astype(np.int64) - 5, [(0, 0), (pad, pad), (pad, pad)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (1, 2))
    if groups > 1:
        sums = np.einsum("chwij,cij->chw", windows, w[:, 0].astype(np.int64))
    else:
        sums = np.einsum("chwij,ocij->ohw", windows, w.astype(np.int64))
    return sums + bias[:, None, None]


def layers(channels: int) -> tuple[Net, dict[str, np.ndarray]]:
    """Return a dense layer, a depthwise one and a dense one plus the first, and their bytes."""
    net, expected = Net(41), {}
    x = net.bytes("int8", 1, channels, 7, 6)
    value, name, first = x[0], net.input(x), ""
    for kind, shape in (("dense", (channels, channels, 1, 1)), ("depthwise", (channels, 1, 3, 3)),
                        ("dequantised", (channels, channels, 1, 1)),
                        ("residual", (channels, channels, 1, 1))):  # fmt: skip
        w = net.bytes("int8", *shape)
        w_scale = np.exp2(net.rng.uniform(-9, -4, channels)).astype(np.float32)
        bias = net.rng.integers(-3000, 3000, channels).astype(np.int32)
        if kind == "dequantised":
            w_scale[:] = 0.01
        more = {"group": channels, "pads": [1, 1, 1, 1]} if kind == "depthwise" else {}
        y = net.node(
            "QLinearConv", name, scalar(0.02), zero("int8", 5), w, w_scale,
            np.zeros(channels, np.int8), scalar(0.09), zero("int8", 5), bias, **more,
        )  # fmt: skip
        result = rounded_twice(window_sums(value, w, bias), w_scale)
        if kind == "dequantised":
            y = net.dequantize(y, scalar(0.09), zero("int8", 5))
            expected[y] = (result - 5).astype(np.float32) * np.float32(0.09)
            net.output(y)
            continue
        name, value = y, result
        # the next layer reads the bytes as if in steps of 0.02
        if kind == "residual":
            parts = zip((name, first), (0.09, 0.05))
            total = net.node(
                "Add", *(net.dequantize(q, scalar(s), zero("int8", 5)) for q, s in parts)
            )
            name = net.quantize(total, scalar(0.11), zero("int8", -3))
            value = exact_sum(value, expected[first])
        expected[name], first = value, first or name
        net.output(name)
    return net, expected


def exact_sum(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the bytes of a sum of operands in steps of 0.09 and 0.05, in fixed point."""
    scales = [float(np.float32(s)) for s in (0.09, 0.05, 0.11)]
    twice, found = 2 * scales[0], []
    for pair in zip(own.flat, other.flat):
        total = sum(scaled((int(q) - 5) << 20, s / twice) for q, s in zip(pair, scales))
        found.append(scaled(total, twice / (scales[2] * (1 << 20))) - 3)
    return np.clip(found, -128, 127).reshape(own.shape)


@pytest.mark.slow
@pytest.mark.parametrize("channels", [12, 9])
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m4", "riscv32", "rv32imac_zve32x"])
def test_boards_equal_the_quantized_multiplier(target, channels, tmp_path):
    net, expected = layers(channels)
    library = tvmrt.compile(
        net.model(), target=target, interface_api="c", module_name="net", **FIXED
    )
    code = "".join(library.sources.files.values())
    assert "tvmrt_micro_residual" in code and "tvmrt_fixed_scale" not in code
    found = run_network(BOARDS[target], library, net.feeds, tmp_path).outputs
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name][0], value, name)


@pytest.mark.slow
def test_fixed_point_takes_as_many_instructions_as_float_scales(tmp_path):
    board = BOARDS["cortex-m4"]
    counts = []
    for i, options in enumerate((FIXED, {})):
        net, _ = layers(32)
        library = tvmrt.compile(
            net.model(), target="cortex-m4", interface_api="c", module_name="net", **options
        )
        counts.append(run_network(board, library, net.feeds, tmp_path / str(i), counted=True))
    fixed, floats = (outcome.instructions for outcome in counts)
    assert fixed <= 1.1 * floats


SLOW = [pytest.param(t, marks=pytest.mark.slow) for t in ("cortex-m0plus", "cortex-m55", "riscv32")]


@pytest.mark.parametrize("target", ["cortex-m4", *SLOW])
def test_multipliers_whose_bits_are_those_of_nan(target, tmp_path):
    rng = np.random.default_rng(37)
    x = rng.integers(-128, 128, (1, 256)).astype(np.int8)
    w = rng.integers(-128, 128, (256, 18)).astype(np.int8)
    w[:, :9] = np.clip(w[:, :9] // 2 + x.reshape(-1, 1) * rng.choice([-1, 1], 9), -128, 127)
    fixed = [zero("int8", 0), w], [zero("int8", 0), scalar(1), zero("int8", 3)]
    scales = np.float32([1.0778184e-04, 5.5245313e-05, 9.9646248e-05, 6.6648907e-05])
    cases = [
        case(f"{scale}", "QLinearMatMul", [x, scalar(1), *fixed[0], scale, *fixed[1]], range(1, 8))
        for scale in scales
    ]
    model, feeds = build_model(cases, 21)
    library = tvmrt.compile(model, target=target, interface_api="c", module_name="net")
    for each, found in zip(cases, run_archive(library, feeds, tmp_path).values()):
        (wanted,) = reference_outputs(each, 21, "onnxruntime")
        assert np.ptp(wanted.astype(np.int32)) > 100
        np.testing.assert_array_equal(found, wanted)
