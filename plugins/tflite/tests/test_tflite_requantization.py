"""Requantisation of ``.tflite`` layers on boards, at the limits of its two roundings."""

from __future__ import annotations

import numpy as np
import pytest
from boards import BOARDS, run_network
from tflite_case import Net, litert_runs

import tvmrt

CHANNELS = 39  # a remainder of three after whole vectors
LIMIT = (1 << 30) - 300  # of accumulators
SAME = 0


class Layers(Net):
    """Layers whose accumulators are 256 neighbouring integers per channel, around a tie."""

    def __init__(self, first_shift: int, relu: bool, rounding: str) -> None:
        super().__init__()
        rng = np.random.default_rng(first_shift)
        self.activation, self.zero = int(relu), -128 if relu else 3
        shifts = first_shift + np.arange(CHANNELS) % (32 - first_shift)
        m = rng.integers(1 << 23, 1 << 24, CHANNELS)  # 24 digits are exact in float32
        self.scale = np.ldexp(m.astype(np.float32), -24 - shifts).astype(np.float32)
        steps = rng.integers(-90, 90, CHANNELS) + (100 if relu else 0) * (np.arange(CHANNELS) % 2)
        ties = np.rint((steps + 0.5) / self.scale.astype(np.float64))
        self.bias = np.clip(ties, -LIMIT, LIMIT).astype(np.int32)
        self.of_dense = rounded_once if rounding == "reference" else rounded_twice
        self.golden: list[np.ndarray] = []
        self.feeds: list[np.ndarray] = []

    def add(self, op: str, shape: tuple[int, ...], w: np.ndarray, axis: int, **options) -> None:
        x = np.broadcast_to(np.arange(-128, 128).reshape(*shape[:-1], 1), shape).astype(np.int8)
        y_shape = (*shape[:-1], CHANNELS)
        of = {"scale": 1.0, "zero": 0}
        inputs = [self.input(shape, "int8", **of), self.const(w, self.scale, axis=axis),
                  self.const(self.bias, self.scale)]  # fmt: skip
        y = self.output(y_shape, "int8", scale=1.0, zero=self.zero)
        self.op(op, inputs, [y], 3, fusedActivationFunction=self.activation, **options)
        self.feeds.append(x)
        rounded = self.of_dense if op == "FULLY_CONNECTED" else rounded_twice
        low = self.zero if self.activation else -128
        rows = [[min(max(rounded(int(b) + v, float(s)) + self.zero, low), 127)
                 for b, s in zip(self.bias, self.scale)] for v in range(-128, 128)]  # fmt: skip
        self.golden.append(np.array(rows, np.int8).reshape(y_shape))


def divide(x: int, places: int) -> int:
    """Return x / 2 ** places, rounded, ties away from zero."""
    half = (1 << places) >> 1
    return (x + half) >> places if x >= 0 else -((-x + half) >> places)


def rounded_twice(acc: int, scale: float) -> int:
    """Return an accumulator times a scale as the reference kernels of convolutions define it."""
    fraction, exponent = np.frexp(scale)
    return divide((acc * int(fraction * (1 << 31)) + (1 << 30)) >> 31, -int(exponent))


def rounded_once(acc: int, scale: float) -> int:
    """Return an accumulator times a scale as the reference kernel of fully connected layers does;
    the kernel for microcontrollers rounds twice."""
    fraction, exponent = np.frexp(scale)
    return divide(acc * int(fraction * (1 << 31)), 31 - int(exponent))


def network(first_shift: int, relu: bool, rounding: str) -> Layers:
    net = Layers(first_shift, relu, rounding)
    window = {"strideH": 1, "strideW": 1, "padding": SAME}
    ones = np.ones((CHANNELS, 1, 1, 1), np.int8)
    net.add("CONV_2D", (1, 16, 16, 1), ones, 0, options="Conv2DOptions", **window)
    for height, width in ((3, 3), (5, 5), (1, 9)):
        w = np.zeros((1, height, width, CHANNELS), np.int8)
        w[0, height // 2, width // 2] = 1
        net.add("DEPTHWISE_CONV_2D", (1, 16, 16, CHANNELS), w, 3,
                options="DepthwiseConv2DOptions", depthMultiplier=1, **window)  # fmt: skip
    net.add("FULLY_CONNECTED", (256, 1), ones[:, :, 0, 0], 0, options="FullyConnectedOptions")
    return net


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m55", "cortex-m4"])
@pytest.mark.parametrize("rounding", ["reference", "micro"])
@pytest.mark.parametrize("relu", [False, True], ids=["", "relu"])
@pytest.mark.parametrize("first_shift", [0, 1])
def test_requantized_layers_match_exact_integers(first_shift, relu, rounding, target, tmp_path):
    pytest.importorskip("ai_edge_litert")
    board = BOARDS[target]
    net = network(first_shift, relu, rounding)
    if rounding == "reference":
        for found, right in zip(litert_runs(net.data(), [net.feeds])[0], net.golden):
            np.testing.assert_array_equal(found, right)
    library = tvmrt.compile(
        net.data(), target=target, interface_api="c", unpacked_api=True, module_name="net",
        tflite_rounding=rounding,
    )  # fmt: skip
    inputs = {value.name: x for value, x in zip(library.summary.inputs, net.feeds)}
    outputs = run_network(board, library, inputs, tmp_path).outputs
    for found, right in zip(outputs.values(), net.golden):
        np.testing.assert_array_equal(found.reshape(right.shape), right)
