"""Quantised operators of ONNX and of onnxruntime, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from quant_case import LAYERS, TYPES, Net, scalar, zero

MS = "com.microsoft"


@pytest.mark.slow
def test_qlinear_conv(tmp_path):
    net = Net(16, 13)
    for number, (layer, (shape, weights, attrs)) in enumerate(LAYERS.items()):
        types = list(TYPES)[number % len(TYPES)]
        kind, point, w_kind, w_point = TYPES[types]
        channels, taps = weights[0], int(np.prod(weights[1:]))
        w_scale = net.rng.uniform(0.005, 0.02, () if types == "u8-u8" else channels)
        w_zero = np.full(w_scale.shape, w_point, w_kind)
        x = net.input(net.bytes(kind, *shape))
        y = net.node(
            "QLinearConv", x, scalar(0.03), zero(kind, point),
            net.bytes(w_kind, *weights), w_scale.astype(np.float32), w_zero,
            scalar(0.04 * np.sqrt(taps)), zero(kind, point),
            net.rng.integers(-3000, 3000, channels).astype(np.int32), **attrs,
        )  # fmt: skip
        net.output(y, f"{layer} {types}")
    net.check(tmp_path)


def test_qlinear_matmul(tmp_path):
    net = Net(17)
    for kind, w_kind in (("uint8", "uint8"), ("uint8", "int8"), ("int8", "int8")):
        a, point = net.bytes(kind, 6, 33), zero(kind, 100)
        b, w_point = net.bytes(w_kind, 33, 20), zero(w_kind, 0 if w_kind == "int8" else 120)
        last = scalar(0.9), zero(kind, 100)
        args = [net.input(a), scalar(0.05), point]
        y = net.node("QLinearMatMul", *args, b, scalar(0.02), w_point, *last)
        net.output(y, f"{kind} x {w_kind} weights")
        y = net.node("QLinearMatMul", *args, net.input(b), scalar(0.02), w_point, *last)
        net.output(y, f"{kind} x {w_kind} computed")
        scales = net.rng.uniform(0.01, 0.03, 20).astype(np.float32)
        y = net.node("QLinearMatMul", *args, b, scales, np.full(20, w_point), *last)
        net.output(y, f"{kind} x {w_kind} by column")
    net.check(tmp_path)


def test_matmul_integer(tmp_path):
    net = Net(18)
    for rows, depth, columns in ((5, 40, 9), (1, 640, 128), (4, 700, 3)):
        a, b = net.bytes("uint8", rows, depth), net.bytes("int8", depth, columns)
        x, label = net.input(a), f"{rows} x {depth} x {columns}"
        net.output(net.node("MatMulInteger", x, b), f"no zero points {label}")
        fixed = zero("uint8", 130), zero("int8", 3)
        net.output(net.node("MatMulInteger", x, b, *fixed), f"constant zero points {label}")
        point = net.input(zero("uint8", 200))
        y = net.node("MatMulInteger", x, b, point, zero("int8", 3))
        net.output(y, f"computed zero {label}")
        y = net.node("MatMulInteger", x, net.input(b), point, zero("int8", 3))
        net.output(y, f"computed factor {label}")
    net.check(tmp_path, steps=0)


def test_conv_integer(tmp_path):
    net = Net(19)
    for layer in ("3x3", "3x3-stride-2", "1x1", "grouped"):
        shape, weights, attrs = LAYERS[layer]
        x, w = net.input(net.bytes("uint8", *shape)), net.bytes("uint8", *weights)
        args = zero("uint8", 99), zero("uint8", 120)
        net.output(net.node("ConvInteger", x, w, *args, **attrs), layer)
        point = net.input(zero("uint8", 33))
        y = net.node("ConvInteger", x, w, point, zero("uint8", 120), **attrs)
        net.output(y, f"{layer}, zero point computed")
    net.check(tmp_path, steps=0)


def test_dynamically_quantised_matmul(tmp_path):
    net = Net(20, 13)
    x = net.input(net.numbers(4, 64))
    b = net.bytes("int8", 64, 24)
    scales = net.rng.uniform(0.01, 0.03, 24).astype(np.float32)
    bias = net.numbers(24)
    y = net.node("DynamicQuantizeMatMul", x, b, scales, np.zeros(24, np.int8), bias, domain=MS)
    net.output(y, "DynamicQuantizeMatMul")
    q = net.input(net.bytes("uint8", 4, 64))
    y = net.node(
        "MatMulIntegerToFloat", q, b, scalar(0.03), scales, zero("uint8", 120),
        np.zeros(24, np.int8), bias, domain=MS,
    )  # fmt: skip
    net.output(y, "MatMulIntegerToFloat")
    net.check(tmp_path)


def test_qgemm(tmp_path):
    net = Net(21, 13)
    a = net.input(net.bytes("uint8", 5, 30))
    left = [a, scalar(0.03), zero("uint8", 100)]
    b = net.bytes("int8", 30, 14)
    bias = net.rng.integers(-4000, 4000, 14).astype(np.int32)
    right = [b, scalar(0.01), zero("int8"), bias]
    flipped = [b.T.copy(), *right[1:]]
    last = [scalar(0.3), zero("uint8", 90)]
    net.output(net.node("QGemm", *left, *right, *last, domain=MS), "plain")
    net.output(net.node("QGemm", *left, *flipped, *last, domain=MS, transB=1), "transB")
    net.output(net.node("QGemm", *left, *right, domain=MS), "float result")
    net.check(tmp_path)


AVERAGES = {
    "halves": {"kernel_shape": [2, 2], "strides": [2, 2]},
    "padded": {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]},
    "counted": {"kernel_shape": [4, 2], "pads": [1, 1, 2, 0], "count_include_pad": 1},
    "last": {"kernel_shape": [2, 4], "channels_last": 1},
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_operators_of_onnxruntime(tmp_path, kind):
    net = Net(22, 13)
    point = zero(kind, 17)

    def x(*shape):
        return [net.input(net.bytes(kind, *shape)), scalar(0.0517), point]

    def out(op, inputs, label="", scale=0.0431, at=3, **attrs):
        y = [scalar(scale), zero(kind, at)]
        net.output(net.node(op, *inputs, *y, domain=MS, **attrs), label or op)

    constant = [net.bytes(kind, 1, 8, 1, 1), scalar(0.03), point]
    out("QLinearAdd", [*x(2, 8, 3, 3), *x(2, 8, 3, 3)])
    out("QLinearAdd", [*x(2, 8, 3, 3), *constant], "QLinearAdd broadcast")
    out("QLinearMul", [*x(2, 8, 3, 3), *x(1, 8, 1, 1)], scale=0.2)
    out("QLinearSigmoid", x(4, 33), scale=1 / 256, at=0)
    out("QLinearLeakyRelu", x(4, 33), alpha=0.3)
    out("QLinearGlobalAveragePool", x(1, 8, 7, 7), channels_last=0)
    out("QLinearGlobalAveragePool", x(1, 7, 7, 8), "channels last", channels_last=1)
    out("QLinearAveragePool", x(1, 8, 8, 8), kernel_shape=[2, 2], strides=[2, 2])
    y = [scalar(0.06), zero(kind, 5)]
    other = [net.input(net.bytes(kind, 2, 4)), scalar(0.09), zero(kind, 2)]
    net.output(net.node("QLinearConcat", *y, *x(2, 3), *other, domain=MS, axis=1), "QLinearConcat")
    net.check(tmp_path, share=0.02)


@pytest.mark.parametrize("target", ["native", "host"])
def test_average_pool_adds_its_zero_point_before_it_rounds(tmp_path, target):
    """Means of four int8 values at an equal scale: a quarter of them are ties."""
    net = Net(24, 13)
    for kind, at in [("uint8", 3), ("uint8", 128), ("uint8", 0), ("int8", -5), ("int8", 17)]:
        for name, attrs in AVERAGES.items():
            x = [net.input(net.bytes(kind, 2, 6, 8, 8)), scalar(0.1), zero(kind, 6)]
            y = [scalar(0.1), zero(kind, at)]
            net.output(net.node("QLinearAveragePool", *x, *y, domain=MS, **attrs), f"{kind} {name}")
    net.check(tmp_path, steps=0, share=0, target=target)


def test_qlinear_softmax(tmp_path):
    net = Net(23, 13)
    for kind in ("int8", "uint8"):
        x = [net.input(net.bytes(kind, 3, 12)), scalar(0.05), zero(kind, 17)]
        y = [scalar(1 / 256), zero(kind, -128 if kind == "int8" else 0)]
        net.output(net.node("QLinearSoftmax", *x, *y, domain=MS, opset=13, axis=-1), kind)
    net.check(tmp_path, share=0.2)
