"""Random integer layers of unusual shapes and scales, with the bytes of LiteRT's reference kernels.

A seed makes one file of several branches: each a convolution, depthwise convolution or fully
connected layer, and often an addition, a concatenation or an average pool after it.
"""

from __future__ import annotations

import numpy as np
import pytest
from boards import BOARDS, run_network
from tflite_case import Net, assert_like, litert_runs

import tvmrt
from tvmrt.compiler import processor

CHANNELS = (1, 2, 3, 4, 5, 8, 17, 33)
ACTIVATIONS = (0, 1, 2, 3)  # NONE, RELU, RELU_N1_TO_1, RELU6
SAME, VALID = 0, 1


class Branches(Net):
    """Layers of one file: the shift n of their multipliers and other properties are random."""

    def __init__(self, seed: int, dtype: str = "int8", count: int = 6, batch: int = 0) -> None:
        super().__init__()
        self.rng, self.dtype = np.random.default_rng(seed), dtype
        self.low, self.high = (0, 255) if dtype == "uint8" else (-128, 127)
        self.batch = batch
        self.feeds: list[np.ndarray] = []
        for number in range(count):
            kind = ("conv", "depthwise", "dense")[(seed + number) % 3]
            self.follow(*getattr(self, kind)())

    def pick(self, *values):
        return values[int(self.rng.integers(len(values)))]

    def zero(self) -> int:
        return self.pick(
            self.low, self.high, self.low + 128, int(self.rng.integers(-99, 99)) + 128 + self.low
        )

    def given(self, shape: tuple[int, ...]) -> tuple[int, float]:
        scale = float(np.float32(self.pick(0.003, 0.05, 1.0)))
        x = self.rng.integers(self.low, self.high, shape, endpoint=True)
        x[self.rng.random(shape) < 0.2] = self.pick(self.low, self.high)
        self.feeds.append(x.astype(self.dtype))
        self.x_zero = self.zero()
        return self.input(shape, self.dtype, scale=scale, zero=self.x_zero), scale

    def weights(self, shape: tuple[int, ...], axis: int, per_channel: bool, x_scale: float):
        """Add weights and a bias; return their tensors and the scale of the result."""
        channels, rng = shape[axis], self.rng
        inputs = int(np.prod(shape)) // channels
        size = channels if per_channel and self.dtype == "int8" else 1
        if self.dtype == "uint8":
            w, w_zero = rng.integers(0, 256, shape).astype(np.uint8), int(rng.integers(0, 256))
        else:
            w, w_zero = rng.integers(-127, 128, shape).astype(np.int8), 0
        # the ratio of scales, about 90 * sqrt(inputs) for accumulators that fill the bytes
        common = np.log2(1 / (60 * np.sqrt(inputs)))
        wide = self.pick(0.0, 1.0, 12.0)
        exponents = (
            common + self.pick(0, 0, 2, -common, -common + 1, -20) - rng.uniform(0, wide, size)
        )
        ratio = np.exp2(exponents)
        if self.pick(False, False, True):
            ratio = np.exp2(np.round(exponents))  # many ties
        y_scale = self.pick(0.02, 0.05, 1.0, float(rng.uniform(0.005, 0.1)))
        w_scale = (ratio * y_scale / x_scale).astype(np.float32)
        reach = int(min((1 << 30) - 1, self.pick(0.0, 0.0, 40.0, 100.0) / ratio.min()))
        bias = rng.integers(-reach, reach + 1, channels).astype(np.int32)
        tensors = [self.const(w, scale=w_scale, zero=w_zero, axis=axis)]
        tensors.append(self.const(bias, scale=w_scale * np.float32(x_scale)))
        return tensors, y_scale

    def image(self, channels: int) -> tuple[int, ...]:
        height, width = self.pick((1, 11), (9, 1), (5, 6), (7, 4), (1, 1))
        return (self.batch or self.pick(1, 1, 2, 3), height, width, channels)

    def window(self, shape: tuple[int, ...]):
        kernel = [min(self.pick(1, 1, 2, 3, 5), n) for n in shape[1:3]]
        dilation = [self.pick(1, 1, 2) for _ in kernel]
        stride = [1, 1] if max(dilation) > 1 else [self.pick(1, 1, 2, 3) for _ in kernel]
        spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        padding = self.pick(SAME, VALID)
        if any(s > n for s, n in zip(spans, shape[1:3])):
            padding = SAME
        out = [-(-n // s) if padding == SAME else (n - k) // s + 1
               for n, s, k in zip(shape[1:3], stride, spans)]  # fmt: skip
        fields = {
            "padding": padding, "strideH": stride[0], "strideW": stride[1],
            "dilationHFactor": dilation[0], "dilationWFactor": dilation[1],
            "fusedActivationFunction": self.pick(*ACTIVATIONS),
        }  # fmt: skip
        return kernel, out, fields

    def result(self, shape, scale: float, zero: int | None = None) -> tuple:
        zero = self.zero() if zero is None else zero
        return self.tensor(shape, self.dtype, scale=scale, zero=zero), tuple(shape), scale, zero

    def conv(self) -> tuple:
        shape = self.image(self.pick(*CHANNELS))
        channels = self.pick(*CHANNELS)
        x, x_scale = self.given(shape)
        kernel, out, fields = self.window(shape)
        tensors, scale = self.weights(
            (channels, *kernel, shape[3]), 0, self.pick(True, False), x_scale
        )
        y = self.result((shape[0], *out, channels), scale)
        self.op("CONV_2D", [x, *tensors], [y[0]], 3, "Conv2DOptions", **fields)
        return y

    def depthwise(self) -> tuple:
        shape = self.image(self.pick(*CHANNELS))
        multiplier = self.pick(1, 1, 2, 3)
        channels = shape[3] * multiplier
        x, x_scale = self.given(shape)
        kernel, out, fields = self.window(shape)
        if fields["strideH"] != fields["strideW"]:
            fields["strideW"] = fields["strideH"]
            d, k = fields["dilationWFactor"], kernel[1]
            s = fields["strideH"]
            out[1] = (
                -(-shape[2] // s)
                if fields["padding"] == SAME
                else (shape[2] - (k - 1) * d - 1) // s + 1
            )
        tensors, scale = self.weights((1, *kernel, channels), 3, self.pick(True, False), x_scale)
        y = self.result((shape[0], *out, channels), scale)
        self.op("DEPTHWISE_CONV_2D", [x, *tensors], [y[0]], 3, "DepthwiseConv2DOptions",
                depthMultiplier=multiplier, **fields)  # fmt: skip
        return y

    def dense(self) -> tuple:
        depth, channels = self.pick(1, 3, 33, 300), self.pick(*CHANNELS)
        rows = self.batch or self.pick(1, 1, 2, 5)
        x, x_scale = self.given((rows, depth))
        tensors, scale = self.weights((channels, depth), 0, self.pick(True, False), x_scale)
        y = self.result((rows, channels), scale)
        self.op("FULLY_CONNECTED", [x, *tensors], [y[0]], 4, "FullyConnectedOptions",
                fusedActivationFunction=self.pick(*ACTIVATIONS))  # fmt: skip
        return y

    def follow(self, y: int, shape: tuple[int, ...], scale: float, zero: int) -> None:
        """Add an operator that reads a layer's result, or none."""
        kind = self.pick("", "", "add", "concat", "pool")
        if kind == "add":
            other, _ = self.given(shape)
            sums = self.result(shape, self.pick(scale, 1.4 * scale, 2.5 * scale))[0]
            inputs = self.pick([y, other], [other, y])
            self.op("ADD", inputs, [sums], 2, "AddOptions",
                    fusedActivationFunction=self.pick(*ACTIVATIONS))  # fmt: skip
            y = sums
        elif kind == "concat":
            self.feeds.append(np.full(shape, self.low + 3, self.dtype))
            other = self.input(shape, self.dtype, scale=scale, zero=zero)
            y2 = self.result((*shape[:-1], 2 * shape[-1]), scale, zero)[0]
            self.op("CONCATENATION", self.pick([y, other], [other, y]), [y2], 2,
                    "ConcatenationOptions", axis=len(shape) - 1)  # fmt: skip
            y = y2
        elif kind == "pool" and len(shape) == 4:
            y2 = self.result((shape[0], 1, 1, shape[3]), scale, zero)[0]
            self.op("AVERAGE_POOL_2D", [y], [y2], 2, "Pool2DOptions", padding=VALID, strideH=1,
                    strideW=1, filterHeight=shape[1], filterWidth=shape[2])  # fmt: skip
            y = y2
        self.graph.outputs.append(y)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("level", ["v2", "v3", "v3vnni", "v4vnni"])
def test_levels_of_hosts(level, dtype):
    words = {"v2": "sse4_2", "v3": "fma", "v3vnni": "avx_vnni", "v4vnni": "avx512_vnni"}
    if words[level] not in processor.flags():
        pytest.skip(f"the processor has no {words[level]}")
    for seed in range(4):
        net = Branches(seed, dtype)
        module = tvmrt.load(net.data(), cache=False, target="x86-64", levels=[level])
        outputs = [np.asarray(y) for y in module(*net.feeds)]
        assert_like(outputs, litert_runs(net.data(), [net.feeds])[0])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("target", sorted(BOARDS))
def test_boards(target, dtype, tmp_path):
    board = BOARDS[target]
    for seed, level in enumerate(("-O2", "-Os", "-O1")):
        net = Branches(seed, dtype, 4)
        library = tvmrt.compile(
            net.data(), target=target, interface_api="c", unpacked_api=True, module_name="net",
            tflite_rounding="reference",
        )  # fmt: skip
        feeds = {value.name: x for value, x in zip(library.summary.inputs, net.feeds)}
        folder = tmp_path / str(seed)
        folder.mkdir()
        outputs = run_network(
            board, library, feeds, folder, cflags=f"{level} -Wall -Wextra -Werror"
        ).outputs
        right = litert_runs(net.data(), [net.feeds])[0]
        assert_like([y.reshape(r.shape) for y, r in zip(outputs.values(), right)], right)
