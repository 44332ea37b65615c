"""Quantised operators (QuantizeLinear to DequantizeLinear), compared with onnxruntime."""

from __future__ import annotations

import re

import numpy as np
import pytest
from quant_case import LAYERS, TYPES, Net, scalar, zero

import tvmrt

# ---- conversions ----


@pytest.mark.parametrize("opset", [10, 13, 19, 21])
def test_quantize_and_dequantize_per_tensor(tmp_path, opset):
    net = Net(1, opset)
    kinds = {"int8": -5, "uint8": 130}
    if opset >= 21:
        kinds |= {"int16": -300, "uint16": 4000}
    for kind, point in kinds.items():
        x = net.input(net.numbers(3, 50, spread=20.0))
        q = net.quantize(x, scalar(0.37), zero(kind, point))
        net.output(q, f"quantize to {kind}")
        net.output(net.dequantize(q, scalar(0.37), zero(kind, point)), f"dequantize {kind}")
    x = net.input(net.numbers(40))
    q = net.quantize(x, scalar(0.05), None)
    net.output(q, "no zero point")
    net.output(net.dequantize(q, scalar(0.05)), "dequantize without zero point")
    sums = net.input(net.rng.integers(-(2**24), 2**24, 60).astype(np.int32))
    net.output(net.dequantize(sums, scalar(0.001)), "dequantize int32")
    net.check(tmp_path, steps=0)


def test_ties_round_to_even_and_ends_saturate(tmp_path):
    net = Net()
    ties = np.arange(-300, 300, dtype=np.float32) * 0.25
    ends = np.array([np.inf, -np.inf, 1e30, -1e30, 3e9], np.float32)
    x = net.input(np.concatenate([ties, ends]))
    for kind, point in {"int8": 3, "uint8": 128}.items():
        net.output(net.quantize(x, scalar(0.5), zero(kind, point)), kind)
    net.check(tmp_path, steps=0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_conversions_per_axis(tmp_path, axis):
    net = Net(2)
    shape = (4, 5, 6)
    x = net.input(net.numbers(*shape))
    scales = net.rng.uniform(0.01, 0.1, shape[axis]).astype(np.float32)
    points = net.bytes("int8", shape[axis])
    q = net.quantize(x, scales, points, axis=axis)
    net.output(q, "quantize")
    net.output(net.dequantize(q, scales, points, axis=axis), "dequantize")
    net.check(tmp_path, steps=0)


def test_blocked_conversions(tmp_path):
    net = Net(3)
    x = net.input(net.numbers(4, 10))
    scales = net.rng.uniform(0.01, 0.1, (4, 4)).astype(np.float32)
    points = net.bytes("uint8", 4, 4)
    q = net.quantize(x, scales, points, axis=1, block_size=3)
    net.output(q, "quantize")
    net.output(net.dequantize(q, scales, points, axis=1, block_size=3), "dequantize")
    net.check(tmp_path, steps=0)


def test_parameters_computed_at_run_time(tmp_path):
    net = Net(4)
    x, scale = net.input(net.numbers(5, 7)), net.input(scalar(0.04))
    point = net.input(zero("uint8", 77))
    q = net.quantize(x, scale, point)
    net.output(q, "quantize")
    net.output(net.dequantize(q, scale, point), "dequantize")
    net.check(tmp_path, steps=0)


def test_dynamic_quantize_linear(tmp_path):
    net = Net(5)
    for label, array in {
        "both signs": net.numbers(3, 40),
        "positive": np.abs(net.numbers(50)) + 1,
        "negative": -np.abs(net.numbers(50)) - 1,
        "zeros": np.zeros(9, np.float32),
    }.items():
        for i, name in enumerate(net.node("DynamicQuantizeLinear", net.input(array), count=3)):
            net.output(name, f"{label} output {i}")
    net.check(tmp_path)


# ---- convolutions between conversions ----


def conv_with_conversions(net: Net, layer: str, types: str, bias: str, after, result="int8"):
    """Add DequantizeLinear, Conv, ``after(net, y)``, QuantizeLinear."""
    shape, weights, attrs = LAYERS[layer]
    kind, point, w_kind, w_point = TYPES[types]
    channels, taps = weights[0], int(np.prod(weights[1:]))
    x_scale = 0.03
    w_scale = net.rng.uniform(0.005, 0.02, channels).astype(np.float32)
    w_zero = np.full(channels, w_point, w_kind)
    if types == "u8-u8":
        w_scale, w_zero = w_scale[0], w_zero[0]
    x = net.dequantize(net.input(net.bytes(kind, *shape)), scalar(x_scale), zero(kind, point))
    w = net.dequantize(net.bytes(w_kind, *weights), w_scale, w_zero, axis=0)
    inputs = [x, w]
    if bias == "int":
        scale = (np.float32(x_scale) * w_scale).astype(np.float32)
        values = net.rng.integers(-3000, 3000, channels).astype(np.int32)
        points = np.zeros_like(scale, np.int32)
        inputs.append(net.dequantize(values, scale, points, axis=0))
    elif bias == "float":
        inputs.append(net.const(net.numbers(channels)))
    y = after(net, net.node("Conv", *inputs, **attrs))
    spread = 73.0 * x_scale * 73 * float(np.mean(w_scale)) * np.sqrt(taps)
    if result is None:
        return y
    return net.quantize(y, scalar(spread / 50), zero(result, 12))


@pytest.mark.slow
@pytest.mark.parametrize("types", TYPES)
def test_convolutions(tmp_path, types):
    net = Net(6)
    for number, layer in enumerate(LAYERS):
        bias = ("int", "none")[number % 2]
        y = conv_with_conversions(net, layer, types, bias, lambda net, y: y)
        net.output(y, f"{layer} bias {bias}")
    net.check(tmp_path)


def leaky(net: Net, y: str) -> str:
    return net.node("LeakyRelu", y, alpha=0.1)


AFTER = {
    "relu": lambda net, y: net.node("Relu", y),
    "relu6": lambda net, y: net.node("Clip", y, scalar(0), scalar(6)),
    "band": lambda net, y: net.node("Clip", y, scalar(-1), scalar(2)),
    "leaky": leaky,
    "sigmoid": lambda net, y: net.node("Mul", y, net.node("Sigmoid", y)),
    "add": lambda net, y: net.node("Relu", net.node("Add", y, net.numbers(1))),
}


@pytest.mark.slow
@pytest.mark.parametrize("bias", ["int", "float"])
def test_work_between_convolution_and_quantisation(tmp_path, bias):
    net = Net(7)
    for name, after in AFTER.items():
        for layer in ("3x3", "depthwise", "1x1"):
            y = conv_with_conversions(net, layer, "u8-s8", bias, after, "uint8")
            net.output(y, f"{layer} {name}")
    net.check(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("bias", ["int", "float", "none"])
def test_convolutions_with_float_results(tmp_path, bias):
    net = Net(8)
    for layer in ("3x3", "depthwise", "grouped", "1-d"):
        y = conv_with_conversions(net, layer, "s8-s8", bias, AFTER["relu"], None)
        net.output(y, layer)
    net.check(tmp_path)


def test_weights_quantised_in_the_graph(tmp_path):
    net = Net(9)
    x = net.dequantize(net.input(net.bytes("uint8", 1, 8, 6, 6)), scalar(0.02), zero("uint8", 128))
    scale = np.full(12, 0.01, np.float32)
    w = net.quantize(net.const(net.numbers(12, 8, 3, 3, spread=0.3)), scale, None, axis=0)
    w = net.dequantize(w, scale, np.zeros(12, np.uint8), axis=0)
    y = net.node("Conv", x, w, net.numbers(12))
    net.output(net.quantize(y, scalar(0.05), zero("uint8", 100)))
    net.check(tmp_path)


def test_residual_blocks(tmp_path):
    net = Net(10)
    x = net.input(net.bytes("int8", 1, 16, 8, 8))
    shortcut = net.dequantize(x, scalar(0.05), zero("int8", 4))

    def conv(y):
        w = net.dequantize(net.bytes("int8", 16, 16, 3, 3), scalar(0.004), zero("int8"))
        return net.node("Conv", y, w, pads=[1, 1, 1, 1])

    def again(y, scale, point):
        point = zero("int8", point)
        return net.dequantize(net.quantize(y, scalar(scale), point), scalar(scale), point)

    first = again(net.node("Relu", conv(shortcut)), 0.06, -128)
    second = again(conv(first), 0.11, 3)
    total = net.quantize(
        net.node("Relu", net.node("Add", shortcut, second)), scalar(0.07), zero("int8", -128)
    )
    net.output(total, "sum of quantised tensors")
    direct = net.node("Add", conv(shortcut), first)
    net.output(net.quantize(direct, scalar(0.1), zero("int8", 1)), "sum before quantisation")
    # a step of an inner tensor is up to two steps of the sum
    net.check(tmp_path, steps=2)


def test_every_kernel_on_any_isa_of_this_architecture(tmp_path):
    net = Net(25)
    s, z = scalar(0.05), zero("int8", 4)
    x = net.dequantize(net.input(net.bytes("int8", 1, 20, 9, 9)), s, z)
    w = net.dequantize(net.bytes("int8", 20, 20, 3, 3), scalar(0.004), zero("int8"))
    y = net.node("LeakyRelu", net.node("Conv", x, w, pads=[1, 1, 1, 1]), alpha=0.3)
    y = net.dequantize(net.quantize(y, s, z), s, z)
    d = net.dequantize(net.bytes("int8", 20, 1, 3, 3), scalar(0.02), zero("int8"))
    d = net.node("Conv", y, d, pads=[1, 1, 1, 1], group=20)
    d = net.dequantize(net.quantize(d, s, z), s, z)
    total = net.quantize(net.node("Add", d, y), scalar(0.0713), z)
    net.output(total, "sum")
    total = net.dequantize(total, scalar(0.0713), z)
    mean = net.quantize(net.node("GlobalAveragePool", total), scalar(0.0111), z)
    net.output(mean, "average")
    net.output(net.quantize(net.node("Sigmoid", total), scalar(1 / 256), zero("int8")), "table")
    flat = net.node("Flatten", net.dequantize(mean, scalar(0.0111), z))
    m = net.dequantize(net.bytes("int8", 20, 9), scalar(0.02), zero("int8"))
    net.output(net.node("MatMul", flat, m), "product")
    net.check(tmp_path, steps=2, share=0.02, target="host")


def test_convolutions_write_into_a_concatenation(tmp_path):
    net = Net(24)
    x = net.dequantize(net.input(net.bytes("int8", 1, 12, 9, 9)), scalar(0.05), zero("int8", 4))
    parts = []
    for channels in (20, 7, 16):
        w = net.bytes("int8", channels, 12, 3, 3)
        w = net.dequantize(w, scalar(0.004), zero("int8"))
        y = net.node("Relu", net.node("Conv", x, w, pads=[1, 1, 1, 1]))
        y = net.quantize(y, scalar(0.06), zero("int8", -128))
        parts.append(net.dequantize(y, scalar(0.06), zero("int8", -128)))
    y = net.node("Concat", *parts, axis=1)
    w = net.dequantize(net.bytes("int8", 10, 43, 1, 1), scalar(0.003), zero("int8"))
    y = net.node("LeakyRelu", net.node("Conv", y, w), alpha=0.3)
    net.output(net.quantize(y, scalar(0.1), zero("int8", 9)))
    net.check(tmp_path)


def kernels(net: Net) -> str:
    """Return the kernel calls and headers in the network's C code."""
    files = tvmrt.compile(net.model(), target="native").sources.files
    return "\n".join(re.findall(r"tvmrt_\w+|[\w/]+\.h", "\n".join(map(str, files.values()))))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 12, 9, 7), (2, 5, 11), (1, 6, 3, 4, 5)], ids=len)
@pytest.mark.parametrize("block", [2, 3])
def test_transposed_convolutions_of_separate_blocks_stay_int8(tmp_path, shape, block):
    net = Net(len(shape))
    channels, spatial = shape[1], len(shape) - 2
    x = net.dequantize(net.input(net.bytes("uint8", *shape)), scalar(0.05), zero("uint8", 100))
    steps = {"strides": [block] * spatial}
    for last in ("channels", "tensor", "bounded"):
        w = net.bytes("int8", channels, 8, *[block] * spatial)
        if last == "channels":
            scales = net.rng.uniform(0.002, 0.006, 8).astype(np.float32)
            w = net.dequantize(w, scales, np.zeros(8, np.int8), axis=1)
        else:
            w = net.dequantize(w, scalar(0.004), zero("int8"))
        bias = () if last == "tensor" else (net.numbers(8),)
        y = net.node("ConvTranspose", x, w, *bias, **steps)
        y = net.node("Relu", y) if last == "bounded" else y
        net.output(net.quantize(y, scalar(0.05), zero("uint8", 120)), last)
    net.check(tmp_path)
    assert "conv_transpose" not in kernels(net)


@pytest.mark.slow
def test_tables_of_rows_are_one_call(tmp_path):
    net = Net(31)
    x = net.dequantize(net.input(net.bytes("uint8", 1, 8, 50, 56)), scalar(0.05), zero("uint8", 9))
    parts = []
    for channels, scale in ((24, 0.05), (40, 0.06), (130, 0.07)):
        w = net.dequantize(net.bytes("int8", channels, 8, 1, 1), scalar(0.004), zero("int8"))
        y = net.quantize(net.node("Conv", x, w), scalar(scale), zero("uint8", 100))
        parts.append(net.dequantize(y, scalar(scale), zero("uint8", 100)))
    s, z = scalar(0.08), zero("uint8", 3)
    y = net.dequantize(net.quantize(net.node("Concat", *parts, axis=1), s, z), s, z)
    w = net.dequantize(net.bytes("int8", 10, 194, 1, 1), scalar(0.003), zero("int8"))
    net.output(net.quantize(net.node("Conv", y, w), scalar(0.1), zero("uint8", 99)))
    net.check(tmp_path)
    assert "tvmrt_table_i8_rows_run" in kernels(net)


# ---- operators between convolutions ----


def test_moved_elements_stay_int8(tmp_path):
    net = Net(11)
    s, z = scalar(0.1), zero("uint8", 60)
    other, other_zero = scalar(0.07), zero("uint8", 20)

    def x(*shape):
        return net.dequantize(net.input(net.bytes("uint8", *shape)), s, z)

    def out(y, label, scale=s, point=z):
        net.output(net.quantize(y, scale, point), label)

    out(net.node("Transpose", x(2, 3, 4), perm=[2, 0, 1]), "transpose")
    out(net.node("Reshape", x(2, 3, 4), np.array([6, 4])), "reshape")
    out(net.node("Concat", x(1, 2, 3), x(1, 4, 3), axis=1), "concat")
    mixed = net.dequantize(net.input(net.bytes("uint8", 1, 4, 3)), other, other_zero)
    out(net.node("Concat", x(1, 2, 3), mixed, axis=1), "concat of two scales")
    out(net.node("MaxPool", x(1, 3, 8, 8), kernel_shape=[2, 2], strides=[2, 2]), "max pool")
    out(net.node("MaxPool", x(1, 3, 8, 8), kernel_shape=[3, 3], pads=[1, 1, 1, 1]), "max pool 3x3")
    pads = np.array([0, 0, 1, 1, 0, 0, 2, 1])
    out(net.node("Pad", x(1, 2, 4, 4), pads), "pad with zeros")
    out(net.node("Slice", x(5, 6), np.array([1]), np.array([4]), np.array([0])), "slice")
    out(net.node("Relu", x(4, 5)), "relu")
    out(x(4, 5), "other scale", other, other_zero)
    net.check(tmp_path)


def test_functions_between_conversions(tmp_path):
    net = Net(12)
    s, z = scalar(0.05), zero("int8", -10)
    x = net.dequantize(net.input(net.bytes("int8", 4, 64)), s, z)
    y = net.dequantize(net.input(net.bytes("int8", 4, 64)), scalar(0.02), zero("int8", 7))
    unit, low = scalar(1 / 256), zero("int8", -128)
    net.output(net.quantize(net.node("Sigmoid", x), unit, low), "sigmoid")
    net.output(net.quantize(net.node("Tanh", x), scalar(1 / 128), zero("int8")), "tanh")
    net.output(net.quantize(net.node("HardSwish", x), s, z), "hard swish")
    net.output(net.quantize(net.node("LeakyRelu", x, alpha=0.2), s, z), "leaky relu")
    net.output(net.quantize(net.node("Add", x, y), scalar(0.06), z), "add")
    net.output(net.quantize(net.node("Mul", x, y), scalar(0.2), z), "mul")
    net.output(net.quantize(net.node("Softmax", x, axis=-1), unit, low), "softmax")
    gate = net.dequantize(net.quantize(net.node("Sigmoid", x), unit, low), unit, low)
    net.output(net.quantize(net.node("Mul", x, gate), s, z), "product with its own sigmoid")
    net.check(tmp_path)


def test_average_pooling(tmp_path):
    net = Net(13)
    for kind, point in {"int8": -11, "uint8": 9}.items():
        x = net.dequantize(net.input(net.bytes(kind, 1, 20, 9, 8)), scalar(0.1), zero(kind, point))
        args = scalar(0.0437), zero(kind, point)
        net.output(net.quantize(net.node("GlobalAveragePool", x), *args), f"global {kind}")
        y = net.node("AveragePool", x, kernel_shape=[9, 8])
        net.output(net.quantize(y, *args), f"whole image {kind}")
        y = net.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
        net.output(net.quantize(y, *args), f"2x2 {kind}")
        y = net.node("AveragePool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        net.output(net.quantize(y, *args), f"3x3 padded {kind}")
    net.check(tmp_path, share=0.02)


# ---- matrix products ----


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 5, 40])
def test_matrix_products_between_conversions(tmp_path, columns):
    net = Net(14)
    for rows, depth in ((1, 64), (7, 30), (3, 3), (20, 129)):
        x = net.input(net.bytes("int8", rows, depth))
        x = net.dequantize(x, scalar(0.04), zero("int8", 20))
        w = net.bytes("int8", depth, columns)
        scales = net.rng.uniform(0.005, 0.02, columns).astype(np.float32)
        right = net.dequantize(w, scales, np.zeros(columns, np.int8), axis=1)
        bias = net.rng.integers(-999, 999, columns).astype(np.int32)
        bias = net.dequantize(bias, scales * np.float32(0.04), np.zeros(columns, np.int32), axis=0)
        args = scalar(0.3), zero("int8", -3)
        label = f"{rows} x {depth}"
        y = net.node("MatMul", x, right)
        net.output(net.quantize(y, *args), f"MatMul {label}")
        net.output(net.node("Add", y, bias), f"MatMul + bias, float {label}")
        y = net.node("Relu", net.node("Add", net.node("MatMul", x, right), bias))
        net.output(net.quantize(y, *args), f"MatMul + bias + Relu {label}")
        flipped = net.dequantize(w.T.copy(), scales, np.zeros(columns, np.int8), axis=0)
        y = net.node("Gemm", x, flipped, bias, transB=1)
        net.output(net.quantize(y, *args), f"Gemm {label}")
    net.check(tmp_path)


@pytest.mark.slow
def test_batched_and_computed_matmul_operands(tmp_path):
    net = Net(15)
    x = net.dequantize(net.input(net.bytes("uint8", 2, 3, 5, 16)), scalar(0.02), zero("uint8", 99))
    w = net.dequantize(net.bytes("int8", 16, 12), scalar(0.01), zero("int8"))
    args = scalar(0.1), zero("uint8", 120)
    net.output(net.quantize(net.node("MatMul", x, w), *args), "batched rows")
    y = net.dequantize(net.input(net.bytes("uint8", 2, 3, 16, 4)), scalar(0.02), zero("uint8", 9))
    net.output(net.quantize(net.node("MatMul", x, y), *args), "computed factor")
    net.output(net.node("MatMul", x, y), "computed factor, float result")
    s = net.dequantize(net.input(net.bytes("int8", 2, 3, 21, 16)), scalar(0.02), zero("int8", 9))
    turned = net.node("Transpose", s, perm=[0, 1, 3, 2])
    net.output(net.quantize(net.node("MatMul", x, turned), *args), "transposed factor")
    deep = net.dequantize(net.input(net.bytes("uint8", 6, 5, 64)), scalar(0.02), zero("uint8", 99))
    for kind, point in (("uint8", 9), ("int8", -9)):  # blocks of 16 columns by 32, and a tail
        s = net.dequantize(net.input(net.bytes(kind, 6, 40, 64)), scalar(0.02), zero(kind, point))
        y = net.node("MatMul", deep, net.node("Transpose", s, perm=[0, 2, 1]))
        net.output(net.quantize(y, *args), f"transposed {kind} factor in whole blocks")
    t = net.dequantize(net.input(net.bytes("int8", 16, 33)), scalar(0.02), zero("int8", -9))
    net.output(net.quantize(net.node("Relu", net.node("MatMul", x, t)), *args), "one for all")
    net.check(tmp_path)
