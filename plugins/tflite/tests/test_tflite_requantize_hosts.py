"""int8 layers on hosts: requantised in the kernels' registers, with the bytes of LiteRT."""

from __future__ import annotations

import re
from importlib import import_module

import numpy as np
import pytest
from tflite_case import Net, assert_like, feeds_for, litert_runs

import tvmrt
from tvmrt.compiler import processor
from tvmrt.compiler.ir.requantization import accumulator_range, join_multipliers, requantize

WORDS = {
    "v2": "sse4_2", "v3": "fma", "v3vnni": "avx_vnni", "v4vnni": "avx512_vnni", "v4amx": "amx_int8",
}  # fmt: skip
FLOAT_REQUANTIZE = import_module("tvmrt.compiler.codegen.window.float_requantize")


class Layers(Net):
    """A chain of int8 layers with scales per channel of many magnitudes."""

    def __init__(self, seed: int, spread: float) -> None:
        super().__init__()
        self.rng, self.spread = np.random.default_rng(seed), spread
        self.x, self.scale = self.input((1, 9, 7, 13), "int8", scale=0.05, zero=4), 0.05

    def layer(self, kind: str, weights: tuple[int, ...], out: tuple[int, ...], **fields) -> None:
        """Add a convolution or a matmul; weights have output channels first."""
        axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
        channels = weights[axis]
        w = self.rng.integers(-127, 128, weights).astype(np.int8)
        if self.rng.random() < 0.3:
            w[..., ::3] = 0
        per_channel = 1 if kind == "FULLY_CONNECTED" else channels
        w_scale = np.exp2(-self.rng.uniform(5, 5 + self.spread, per_channel)).astype(np.float32)
        inputs = w.size // channels
        scale = float(np.float32(90 * np.sqrt(inputs) * self.scale * w_scale.max()))
        bias_scale = w_scale * np.float32(self.scale)
        bias = self.rng.integers(-3000, 3000, channels).astype(np.int32)
        given = [
            self.x,
            self.const(w, scale=w_scale, axis=axis),
            self.const(bias, scale=bias_scale),
        ]
        zero = -128 if fields.get("fusedActivationFunction") else int(self.rng.integers(-90, 90))
        self.x = self.tensor(out, "int8", scale=scale, zero=zero)
        self.scale = scale
        table = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}
        self.op(kind, given, [self.x], 3, table.get(kind, "FullyConnectedOptions"), **fields)
        self.graph.outputs.append(self.x)

    def add(self, other: int, shape: tuple[int, ...], scale: float, zero: int, relu: int) -> None:
        y = self.tensor(shape, "int8", scale=scale, zero=zero)
        self.graph.outputs.remove(self.x)
        self.op("ADD", [self.x, other], [y], 2, "AddOptions", fusedActivationFunction=relu)
        self.x, self.scale = y, scale
        self.graph.outputs.append(y)

    def write(self) -> bytes:
        steps = {"padding": 0, "strideH": 1, "strideW": 1}
        self.layer("CONV_2D", (19, 3, 3, 13), (1, 9, 7, 19), **steps, fusedActivationFunction=1)
        self.layer("DEPTHWISE_CONV_2D", (1, 3, 3, 19), (1, 9, 7, 19), **steps, depthMultiplier=1)
        first = self.x
        self.layer("CONV_2D", (33, 1, 1, 19), (1, 9, 7, 33), **steps, fusedActivationFunction=3)
        self.layer("DEPTHWISE_CONV_2D", (1, 5, 1, 33), (1, 9, 7, 33), **steps, depthMultiplier=1,
                   fusedActivationFunction=1)  # fmt: skip
        self.layer("CONV_2D", (19, 1, 1, 33), (1, 9, 7, 19), **steps)
        self.add(first, (1, 9, 7, 19), self.scale * 1.3, -20, 0)
        self.layer("FULLY_CONNECTED", (11, 9 * 7 * 19), (1, 11))
        return self.data()


def run(data: bytes, feeds: list[np.ndarray], **options) -> list[np.ndarray]:
    return list(map(np.asarray, tvmrt.load(data, cache=False, **options)(*feeds)))


@pytest.mark.slow
@pytest.mark.parametrize("level", WORDS)
@pytest.mark.parametrize("in_float", ["one product", "two products", "never"])
def test_levels_have_the_bytes_of_litert(level, in_float, monkeypatch):
    """The spread of scales reaches from layers in float32 to those with 64-bit products."""
    if WORDS[level] not in processor.flags():
        pytest.skip(f"the processor has no {WORDS[level]}")
    module = "tvmrt.compiler.codegen.window.requantize_i8"
    if in_float != "one product":
        monkeypatch.setattr(f"{module}.find_float_scales", lambda *args: None)
    if in_float == "never":
        monkeypatch.setattr(f"{module}.find_scale_pairs", lambda *args: None)
    for seed, spread in enumerate((1.0, 8.0)):
        data = Layers(seed, spread).write()
        feeds = feeds_for(data, seed)
        expected = litert_runs(data, [feeds])[0]
        assert_like(run(data, feeds, target="x86-64", levels=[level]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["x86-64", "aarch64-linux", "riscv64-linux", "wasm32"])
def test_no_layer_requantises_element_by_element(target):
    """Nor is a residual added apart from the convolution before it."""
    files = tvmrt.compile(Layers(1, 3.0).write(), target=target).sources.files
    code = "\n".join(text for name, text in files.items() if re.search(r"lib\d+\w*\.c$", name))
    assert "tvmrt_conv_i8_run" in code
    assert "tvmrt_fixed_requantize" not in code and "tvmrt_i8_rows" not in code
    assert ".residual_add = &residual_add" in code


def float_results(acc: np.ndarray, floats) -> np.ndarray:
    """Return what a processor computes with the float scales of one channel, in wider floats."""
    wide = acc.astype(np.float32).astype(np.longdouble)
    addend = floats.addend.astype(np.longdouble)
    addend = np.where(acc < 0, -addend, addend) if floats.signed else addend
    if floats.rest is None:
        sums = (wide * floats.scale[0] + addend).astype(np.float32)
        return np.rint(sums).astype(np.int64) + floats.middle
    first = (wide * floats.rest[0] + addend).astype(np.float32)
    return np.floor(wide * floats.scale[0] + first).astype(np.int64)


@pytest.mark.parametrize("find", ["find_float_scales", "find_scale_pairs"])
@pytest.mark.parametrize("rounding", ["twice", "once"])
def test_float_scales_give_exact_results(rounding, find):
    """Compare fused multiplications and additions in float32 with integers at every accumulator."""
    rng, found = np.random.default_rng(5), 0
    for bounds in ((0, 255), (-128, 127), (-3, 200)):
        m, e = rng.integers(1 << 30, 1 << 31, 6), -rng.integers(1, 10, 6)
        m[0] = 1 << 30  # many ties
        scale = join_multipliers(m, e)
        w = rng.integers(-127, 128, (6, 40))
        reach = accumulator_range(w, np.zeros(1), (-128, 127), None)
        for channel in range(6):
            own = tuple(part[channel : channel + 1] for part in reach)
            given = scale[channel : channel + 1], rounding, bounds, own
            floats = getattr(FLOAT_REQUANTIZE, find)(*given)
            if floats is None:
                continue
            found += 1
            acc = np.arange(own[0][0], own[1][0] + 1)
            right = requantize(acc, scale[channel], rounding)
            q = float_results(acc, floats)
            np.testing.assert_array_equal(np.clip(q, *bounds), np.clip(right, *bounds))
    assert found >= (12 if find == "find_float_scales" or rounding == "once" else 6)
