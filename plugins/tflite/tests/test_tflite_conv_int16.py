"""Test convolutions of int16 activations with int8 weights: equal to LiteRT bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from boards import BOARDS, run_network
from tflite_case import Net, feeds_for, litert_runs, ours

import tvmrt


def _layer(net: Net, rng: np.random.Generator, kind: str, name: str, size: int = 90) -> None:
    """Add a layer with its own input and random sizes; weights are below ``size``."""
    groups = int(rng.integers(2, 4)) if kind == "grouped" else 1
    inputs, outputs = groups * int(rng.integers(1, 10)), groups * int(rng.integers(1, 8))
    if kind == "depthwise":
        outputs = inputs * int(rng.integers(1, 4))
    kernel = (1, 1) if kind in ("pointwise", "connected") else tuple(rng.integers(1, 6, 2))
    stride, dilation = (int(n) for n in rng.integers(1, 3, 2))
    if stride > 1 or kernel == (1, 1):
        dilation = 1
    height, width = (int(n) for n in rng.integers(5, 12, 2))
    same = int(rng.integers(2))
    if same or kind in ("pointwise", "connected"):
        spatial = [-(-n // stride) for n in (height, width)]
    else:
        kernel = tuple(min(k, (n - 1) // dilation + 1) for k, n in zip(kernel, (height, width)))
        spatial = [-(-(n - (k - 1) * dilation) // stride) for k, n in zip(kernel, (height, width))]
    shapes = (2, height, width, inputs), (2, *spatial, outputs)
    if kind == "connected":
        shapes = (3, inputs * 9), (3, outputs)
        inputs *= 9
    x = net.input(shapes[0], "int16", name=f"x_{name}", scale=0.05)
    y = net.output(shapes[1], "int16", name=f"y_{name}", scale=float(rng.uniform(0.01, 0.5)))
    axis = 3 if kind == "depthwise" else 0
    shape = (1, *kernel, outputs) if axis else (outputs, *kernel, inputs // groups)
    shape = (outputs, inputs) if kind == "connected" else shape
    w = rng.integers(-size, size, shape).astype(np.int8)
    scales = rng.uniform(1e-4, 0.01, shape[axis])
    operands = [x, net.const(w, scales, 0, axis)]
    operands.append(_bias(net, rng, outputs))
    act = int(rng.integers(3))  # none, ReLU, ReLU within -1 and 1
    if kind == "connected":
        options = {"fusedActivationFunction": act}
        net.op("FULLY_CONNECTED", operands, [y], options="FullyConnectedOptions", **options)
        return
    fields = {"strideH": stride, "strideW": stride, "padding": 1 - same}
    fields |= {"dilationHFactor": dilation, "dilationWFactor": dilation}
    fields["fusedActivationFunction"] = act
    if kind == "depthwise":
        fields["depthMultiplier"] = outputs // inputs
        net.op("DEPTHWISE_CONV_2D", operands, [y], 1, "DepthwiseConv2DOptions", **fields)
    else:
        net.op("CONV_2D", operands, [y], 1, "Conv2DOptions", **fields)


def _bias(net: Net, rng: np.random.Generator, channels: int) -> int:
    """Return a bias, in a fourth of the layers one that exceeds 32 bits with the sums."""
    most = int(rng.choice([900, 900, 900, 1 << 31]))
    return net.const(rng.integers(-most, most, channels), np.full(channels, 5e-4))


def _network(seed: int, kinds: str) -> bytes:
    net, rng = Net(), np.random.default_rng(seed)
    for i, kind in enumerate(kinds.split()):
        _layer(net, rng, kind, f"{i}_{kind}")
    return net.data()


KINDS = (
    "dense dense dense pointwise pointwise grouped grouped depthwise depthwise depthwise connected"
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_layers_on_the_host(seed, tmp_path):
    data = _network(seed, KINDS)
    _compare(data, feeds_for(data, seed), "native", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("board", ["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32"])
def test_random_layers_on_boards(board, seed, tmp_path):
    data = _network(10 + seed, KINDS)
    _compare(data, feeds_for(data, seed), board, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["native", "cortex-m4"])
def test_sums_beyond_32_bits(target, tmp_path):
    """Weights and inputs are so large that the sums of all products exceed int32."""
    net, rng = Net(), np.random.default_rng(3)
    x = net.input((1, 2, 2, 1500), "int16", name="x", scale=0.05)
    y = net.output((1, 2, 2, 6), "int16", name="y", scale=20.0)
    w = rng.integers(90, 128, (6, 1, 1, 1500)).astype(np.int8)
    w[3:] = -w[3:]
    fields = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    weights = net.const(w, np.full(6, 0.01), 0, 0)
    net.op("CONV_2D", [x, weights, _bias(net, rng, 6)], [y], 1, "Conv2DOptions", **fields)
    feeds = [np.full((1, 2, 2, 1500), 32767, np.int16) - rng.integers(0, 9, (1, 2, 2, 1500))]
    _compare(net.data(), [feeds[0].astype(np.int16)], target, tmp_path)


def _compare(data: bytes, feeds: list[np.ndarray], target: str, folder, **settings) -> None:
    """Compare the outputs of a network on a board or the host with LiteRT's."""
    (golden,) = litert_runs(data, [feeds])
    if target == "native":
        found = ours(data, feeds, folder)
    else:
        settings |= {"target": target, "interface_api": "c", "module_name": "net"}
        library = tvmrt.compile(data, **settings)
        inputs = {each.name: x for each, x in zip(library.summary.inputs, feeds)}
        found = run_network(BOARDS[target], library, inputs, folder).outputs.values()
    for i, (result, expected) in enumerate(zip(found, golden)):
        np.testing.assert_array_equal(result, expected, str(i))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55"])
def test_layers_without_a_kernel_on_boards(target, tmp_path):
    """Boards compute products of bytes where sizes exceed those of their kernels."""
    net, rng = Net(), np.random.default_rng(4)
    window, stride = {"filterHeight": 20, "filterWidth": 20}, {"strideH": 1, "strideW": 1}
    x, deep, long = (
        net.input(shape, "int16", name=name, scale=0.05)
        for name, shape in (("x", (1, 22, 22, 5)), ("deep", (1, 22, 22, 5)), ("long", (1, 40000)))
    )
    pooled, y, z = (
        net.output(shape, "int16", name=name, scale=0.05)
        for name, shape in (("pooled", (1, 3, 3, 5)), ("y", (1, 3, 3, 5)), ("z", (1, 2)))
    )
    net.op("AVERAGE_POOL_2D", [x], [pooled], 1, "Pool2DOptions", padding=1, **stride, **window)
    w = net.const(rng.integers(-20, 20, (1, 20, 20, 5)).astype(np.int8), np.full(5, 0.01), 0, 3)
    fields = {**stride, "padding": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    options = {"options": "DepthwiseConv2DOptions", "depthMultiplier": 1}
    net.op("DEPTHWISE_CONV_2D", [deep, w, _bias(net, rng, 5)], [y], 1, **options, **fields)
    w = net.const(rng.integers(-1, 2, (2, 40000)).astype(np.int8), np.full(2, 0.01), 0, 0)
    net.op("FULLY_CONNECTED", [long, w, _bias(net, rng, 2)], [z], options="FullyConnectedOptions")
    data = net.data()
    _compare(data, feeds_for(data, 4), target, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["native", "cortex-m4"])
def test_constant_channels(target, tmp_path):
    """Channels with weights of 0 have the value of their bias, which the next layer adds up."""
    net, rng = Net(), np.random.default_rng(6)
    values = [net.input((1, 4, 4, 6), "int16", name="x", scale=0.05)]
    fields = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    for i, add in enumerate((net.tensor, net.output)):
        values.append(add((1, 4, 4, 6), "int16", name=f"y{i}", scale=0.05))
        w = rng.integers(-90, 90, (6, 1, 1, 6)).astype(np.int8)
        w[:3] *= i
        operands = [values[i], net.const(w, np.full(6, 0.01), 0, 0)]
        operands.append(net.const(rng.integers(2000, 9000, 6), np.full(6, 5e-4)))
        net.op("CONV_2D", operands, [values[-1]], 1, "Conv2DOptions", **fields)
    data = net.data()
    _compare(data, feeds_for(data, 6), target, tmp_path)


def _chain(rng: np.random.Generator) -> bytes:
    """Return a residual block of int16: dense, depthwise, pointwise, then a sum."""
    net = Net()
    x = net.input((1, 16, 16, 8), "int16", name="x", scale=0.05)
    shapes = {"dense": (16, 3, 3, 8), "depthwise": (1, 3, 3, 16), "pointwise": (16, 1, 1, 16)}
    values = [x]
    for kind, shape in shapes.items():
        axis = 3 if kind == "depthwise" else 0
        w = net.const(rng.integers(-90, 90, shape).astype(np.int8), np.full(16, 0.01), 0, axis)
        y = net.tensor((1, 16, 16, 16), "int16", name=f"y_{kind}", scale=0.3)
        fields = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
        if axis:
            fields["depthMultiplier"] = 1
        options = "DepthwiseConv2DOptions" if axis else "Conv2DOptions"
        op = "DEPTHWISE_CONV_2D" if axis else "CONV_2D"
        net.op(op, [values[-1], w, _bias(net, rng, 16)], [y], 1, options, **fields)
        values.append(y)
    y = net.output((1, 16, 16, 16), "int16", name="y", scale=0.5)
    net.op("ADD", [values[1], values[3]], [y], options="AddOptions")
    return net.data()


@pytest.mark.slow
@pytest.mark.parametrize("ram", [None, 14000, 6000])
@pytest.mark.parametrize("board", ["cortex-m0plus", "cortex-m4", "cortex-m55"])
def test_residual_block_whole_by_rows_and_by_patches(board, ram, tmp_path):
    data = _chain(np.random.default_rng(5))
    _compare(data, feeds_for(data, 5), board, tmp_path, **({"ram": ram} if ram else {}))
