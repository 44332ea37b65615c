"""``.tflite`` networks of well-known architectures with random weights, for tables of costs.

The five networks of MLPerf Tiny, MobileNetV2 and a network for visual wake words. Weights are
seeded; one random input calibrates the scales of activations. Cycles, flash and RAM of int8 kernels
depend on shapes and hardly on values, so these files stand in for the official ones where those are
missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "support"))
from tflite_case import Net

_ACTIVATIONS = {"": 0, "relu": 1, "relu6": 3}


class Int8Network(Net):
    """A chain of int8 operators; ``self.last`` is the tensor that the next one reads.

    ``values`` has the real value of each activation for the input that calibrates the scales.
    ``dead``: share of the channels of convolutions that are 0, as training leaves some.
    """

    def __init__(self, seed: int, *shape: int, dead: float = 0) -> None:
        super().__init__()
        self.rng, self.dead = np.random.default_rng(seed), dead
        self.values: dict[int, np.ndarray] = {}
        self.last = self._activation(self.rng.uniform(-1.7, 1.7, (1, *shape)))
        self.graph.inputs.append(self.last)

    def _quantization(self, index: int) -> tuple[float, int]:
        q = self.graph.tensors[index].quantization
        return float(q.scale[0]), int(q.zeroPoint[0])

    def _activation(self, value: np.ndarray, **quantization: float) -> int:
        """Add an activation whose scale covers ``value``, and other inputs' if it is small."""
        margin = 4 if value.size < 16 else 1
        low = min(0.0, margin * float(value.min()))
        high = max(1e-3, margin * float(value.max()))
        scale = (high - low) / 255
        given = quantization or {"scale": scale, "zero": round(-128 - low / scale)}
        index = self.tensor(value.shape, "int8", **given)
        self.values[index] = value
        return index

    def _operator(
        self, name: str, inputs: list[int], value: np.ndarray, options: str, **fields: object
    ) -> None:
        """Add an operator and the activation it writes, which becomes the last one."""
        limits = {1: (0, np.inf), 3: (0, 6)}.get(fields.get("fusedActivationFunction", 0))
        result = self._activation(value if limits is None else np.clip(value, *limits))
        self.op(name, inputs, [result], options=options, **fields)
        self.last = result

    def _weights(self, real: np.ndarray, per_channel: bool) -> tuple[list[int], np.ndarray]:
        """Add int8 weights, the output channel last in ``real``, and an int32 bias."""
        axes = tuple(range(real.ndim - 1)) if per_channel else None
        scales = np.atleast_1d(np.abs(real).max(axis=axes) / 127)
        integers = np.rint(real / scales).astype(np.int8)
        bias_scales = scales * self._quantization(self.last)[0]
        bias = self.rng.standard_normal(real.shape[-1]) * 0.1
        return [integers, scales, np.rint(bias / bias_scales).astype(np.int32), bias_scales], bias

    def conv(
        self, channels: int, kernel: tuple[int, int], stride: int = 1, act: str = "relu",
        depthwise: bool = False, same: bool = True,
    ) -> None:  # fmt: skip
        """Add CONV_2D, or DEPTHWISE_CONV_2D of as many channels as its input has."""
        x = self.values[self.last]
        fan = kernel[0] * kernel[1] * (1 if depthwise else x.shape[3])
        shape = (*kernel, *(() if depthwise else (x.shape[3],)), channels)
        real = self.rng.standard_normal(shape) * ((2 if act else 1) / fan) ** 0.5
        (integers, scales, bias, bias_scales), real_bias = self._weights(real, True)
        if self.dead and not depthwise:
            dead = self.rng.random(channels) < self.dead
            for each in (integers, bias, real, real_bias):
                each[..., dead] = 0
        integers = integers[None] if depthwise else np.moveaxis(integers, -1, 0)
        axis = 3 if depthwise else 0
        inputs = [self.last, self.const(integers, scales, axis=axis),
                  self.const(bias, bias_scales)]  # fmt: skip
        fields = {"padding": 0 if same else 1, "strideH": stride, "strideW": stride,
                  "dilationHFactor": 1, "dilationWFactor": 1,
                  "fusedActivationFunction": _ACTIVATIONS[act]}  # fmt: skip
        name = "CONV_2D"
        if depthwise:
            name, fields["depthMultiplier"] = "DEPTHWISE_CONV_2D", 1
        value = _convolved(x, real, stride, same, depthwise) + real_bias
        options = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
        self._operator(name, inputs, value, options, **fields)

    def separable(
        self, channels: int, kernel: tuple[int, int], stride: int = 1, act: str = "relu"
    ) -> None:
        """Add a depthwise and a pointwise convolution."""
        self.conv(self.values[self.last].shape[3], kernel, stride, act, depthwise=True)
        self.conv(channels, (1, 1), act=act)

    def residual(self, channels: int, stride: int) -> None:
        """Add two 3 x 3 convolutions and their input, through a 1 x 1 convolution if strided."""
        before = self.last
        self.conv(channels, (3, 3), stride)
        self.conv(channels, (3, 3), act="")
        body = self.last
        if stride != 1:
            self.last = before
            self.conv(channels, (1, 1), stride, act="")
            before = self.last
        self.last = body
        self.add(before, "relu")

    def add(self, other: int, act: str = "") -> None:
        value = self.values[self.last] + self.values[other]
        fused = {"fusedActivationFunction": _ACTIVATIONS[act]}
        self._operator("ADD", [self.last, other], value, "AddOptions", **fused)

    def average(self) -> None:
        """Average over height and width, and drop these axes."""
        x = self.values[self.last]
        _, height, width, channels = x.shape
        value = x.mean(axis=(1, 2), keepdims=True)
        same = dict(zip(("scale", "zero"), self._quantization(self.last)))
        result = self._activation(value, **same)
        self.op("AVERAGE_POOL_2D", [self.last], [result], options="Pool2DOptions", padding=1,
                strideH=height, strideW=width, filterHeight=height, filterWidth=width)  # fmt: skip
        self.last = result
        self.flatten(channels)

    def flatten(self, size: int) -> None:
        self.reshape(1, size)

    def reshape(self, *shape: int) -> None:
        self._moved("RESHAPE", self.values[self.last].reshape(shape), shape)

    def transpose(self, *order: int) -> None:
        value = self.values[self.last].transpose(order)
        self._moved("TRANSPOSE", value, order, options="TransposeOptions")

    def _moved(self, name: str, value: np.ndarray, numbers: tuple[int, ...], **more: str) -> None:
        """Add an operator that moves elements, with an operand of int32."""
        same = dict(zip(("scale", "zero"), self._quantization(self.last)))
        result = self._activation(value, **same)
        self.op(name, [self.last, self.const(np.array(numbers, np.int32))], [result], **more)
        self.last = result

    def matmul(self, other: int, transposed: bool = False) -> None:
        """Multiply by another activation, whose last two axes may be transposed."""
        b = self.values[other]
        value = self.values[self.last] @ (b.swapaxes(-1, -2) if transposed else b)
        inputs = [self.last, other]
        self._operator("BATCH_MATMUL", inputs, value, "BatchMatMulOptions", adjY=transposed)

    def pair(self, name: str, other: int, value: np.ndarray) -> None:
        """Add SUB or MUL of the last activation and another one."""
        self._operator(name, [self.last, other], value, f"{name.capitalize()}Options")

    def heads(self, count: int) -> None:
        """Divide [1, tokens, width] into [1, heads, tokens, width of a head]."""
        _, tokens, width = self.values[self.last].shape
        self.reshape(1, tokens, count, width // count)
        self.transpose(0, 2, 1, 3)

    def attention(self, count: int) -> None:
        """Add self-attention with heads, and its input."""
        before, parts = self.last, []
        _, tokens, width = self.values[before].shape
        for _ in range(3):
            self.last = before
            self.dense(width)
            self.heads(count)
            parts.append(self.last)
        query, key, value = parts
        self.last = query
        self.matmul(key, transposed=True)
        self.softmax()
        self.matmul(value)
        self.transpose(0, 2, 1, 3)
        self.reshape(1, tokens, width)
        self.dense(width)
        self.add(before)

    def layer_norm(self) -> None:
        """Subtract the mean of the last axis, and divide by the standard deviation."""
        x = self.last
        self._mean()
        mean = self.last
        self.last = x
        self.pair("SUB", mean, self.values[x] - self.values[mean])
        centred, value = self.last, self.values[self.last]
        self.pair("MUL", centred, value * value)
        self._mean()
        self._operator("RSQRT", [self.last], (self.values[self.last] + 1e-6) ** -0.5, "")
        self.pair("MUL", centred, self.values[self.last] * value)

    def _mean(self) -> None:
        value = self.values[self.last].mean(axis=-1, keepdims=True)
        inputs = [self.last, self.const(np.array([value.ndim - 1], np.int32))]
        self._operator("MEAN", inputs, value, "ReducerOptions", keepDims=True)

    def dense(self, size: int, act: str = "") -> None:
        x = self.values[self.last]
        real = self.rng.standard_normal((x.shape[-1], size)) * (2 / x.shape[-1]) ** 0.5
        (integers, scales, bias, bias_scales), real_bias = self._weights(real, False)
        inputs = [self.last, self.const(integers.T, scales), self.const(bias, bias_scales)]
        fields = {"fusedActivationFunction": _ACTIVATIONS[act], "keepNumDims": x.ndim > 2}
        value = x @ real + real_bias
        self._operator("FULLY_CONNECTED", inputs, value, "FullyConnectedOptions", **fields)

    def softmax(self) -> None:
        value = self.values[self.last]
        result = self._activation(value, scale=1 / 256, zero=-128)
        self.op("SOFTMAX", [self.last], [result], options="SoftmaxOptions", beta=1.0)
        self.last = result

    def quantize_input(self) -> None:
        """Make the input uint8, and convert it to int8 with the same scale."""
        (int8,) = self.graph.inputs
        scale, zero = self._quantization(int8)
        shape = self.values[int8].shape
        self.graph.inputs = [self.tensor(shape, "uint8", scale=scale, zero=zero + 128)]
        self.op("QUANTIZE", self.graph.inputs, [int8])

    def dequantize(self) -> None:
        """Convert the last tensor to float32."""
        result = self.tensor(self.values[self.last].shape, "float32")
        self.op("DEQUANTIZE", [self.last], [result])
        self.last = result

    def file(self) -> bytes:
        self.graph.outputs.append(self.last)
        return self.data()


def _convolved(
    x: np.ndarray, weights: np.ndarray, stride: int, same: bool, depthwise: bool
) -> np.ndarray:
    """Return a convolution in NHWC; the output channel is the last axis of ``weights``."""
    kernel, extents = weights.shape[:2], x.shape[1:3]
    sizes = [-(-n // stride) if same else (n - k) // stride + 1 for n, k in zip(extents, kernel)]
    totals = [max((m - 1) * stride + k - n, 0) for m, k, n in zip(sizes, kernel, extents)]
    x = np.pad(x, [(0, 0), *((t // 2, t - t // 2) for t in totals), (0, 0)])
    found: np.ndarray | float = 0.0
    for i, j in np.ndindex(*kernel):
        rows, columns = i + stride * np.arange(sizes[0]), j + stride * np.arange(sizes[1])
        part = x[:, rows][:, :, columns]
        found = found + (part * weights[i, j] if depthwise else part @ weights[i, j])
    return np.asarray(found)


def transformer() -> bytes:
    net = Int8Network(7, 32, 64)
    net.attention(8)
    net.layer_norm()
    before = net.last
    net.dense(128, "relu")
    net.dense(64)
    net.add(before)
    net.layer_norm()
    return net.file()


def kws() -> bytes:
    net = Int8Network(2, 49, 10, 1)
    net.conv(64, (10, 4), 2)
    for _ in range(4):
        net.separable(64, (3, 3))
    net.average()
    net.dense(12)
    net.softmax()
    return net.file()


def ic() -> bytes:
    net = Int8Network(3, 32, 32, 3)
    net.conv(16, (3, 3))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        net.residual(channels, stride)
    net.average()
    net.dense(10)
    net.softmax()
    return net.file()


def vww(dead: float = 0) -> bytes:
    net = Int8Network(4, 96, 96, 3, dead=dead)
    net.conv(8, (3, 3), 2)
    for channels, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2),
                             *[(128, 1)] * 5, (256, 2), (256, 1)):  # fmt: skip
        net.separable(channels, (3, 3), stride)
    net.average()
    net.dense(2)
    net.softmax()
    return net.file()


def ad() -> bytes:
    net = Int8Network(5, 640)
    for width in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        net.dense(width, "relu")
    net.dense(640)
    return net.file()


def sww() -> bytes:
    net = Int8Network(6, 30, 1, 40)
    for channels, length in ((128, 3), (128, 5), (128, 10), (32, 15)):
        size = net.values[net.last].shape[3]
        net.conv(size, (length, 1), act="", depthwise=True, same=False)
        net.conv(channels, (1, 1))
    net.flatten(32)
    net.dense(3)
    net.softmax()
    return net.file()


def inverted_residual(
    net: Int8Network, kernel: int, expand: int, channels: int, stride: int
) -> None:
    before, size = net.last, net.values[net.last].shape[3]
    if expand != 1:
        net.conv(size * expand, (1, 1), act="relu6")
    net.conv(size * expand, (kernel, kernel), stride, "relu6", depthwise=True)
    net.conv(channels, (1, 1), act="")
    if stride == 1 and size == channels:
        net.add(before)


# kernel, expansion, channels, stride
MCUNET_VWW1 = [
    (3, 1, 8, 1), (3, 6, 16, 2), (3, 3, 16, 1), (3, 3, 16, 1), (7, 3, 24, 2), (3, 6, 24, 1),
    (5, 5, 24, 1), (7, 6, 40, 2), (7, 6, 40, 1), (3, 6, 48, 1), (3, 4, 48, 1), (5, 5, 96, 2),
    (3, 5, 96, 1), (3, 4, 96, 1), (7, 3, 160, 1),
]  # fmt: skip
MOBILENET_V2 = [
    (3, 1, 16, 1), *[(3, 6, 24, s) for s in (2, 1)], *[(3, 6, 32, s) for s in (2, 1, 1)],
    *[(3, 6, 64, s) for s in (2, 1, 1, 1)], *[(3, 6, 96, 1)] * 3,
    *[(3, 6, 160, s) for s in (2, 1, 1)], (3, 6, 320, 1),
]  # fmt: skip


def mcunet_vww1() -> bytes:
    net = Int8Network(7, 80, 80, 3)
    net.conv(16, (3, 3), 2, "relu6")
    for block in MCUNET_VWW1:
        inverted_residual(net, *block)
    net.average()
    net.dense(2)
    return net.file()


def mobilenet_v2() -> bytes:
    net = Int8Network(8, 224, 224, 3)
    net.conv(32, (3, 3), 2, "relu6")
    for block in MOBILENET_V2:
        inverted_residual(net, *block)
    net.conv(1280, (1, 1), act="relu6")
    net.average()
    net.dense(1000)
    net.softmax()
    return net.file()


BUILDERS: dict[str, Callable[[], bytes]] = {
    "kws": kws, "ic": ic, "vww": vww, "ad": ad, "sww": sww,
    "mcunet_vww1": mcunet_vww1, "mobilenet_v2": mobilenet_v2, "vww_dead": lambda: vww(0.28),
    "transformer": transformer,
}  # fmt: skip
