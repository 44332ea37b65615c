"""Transposed convolutions of 8-bit tensors against numpy, to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from i8_case import FLAGS, FORMATS, int8_range, random_bytes, requantise, usable_formats
from kernel_build import build, pointer

from tvmrt.codegen.packing_i8 import ConvI8, pack_conv, pad_channels, transposed_phases


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution as ONNX describes it, square."""

    in_c: int = 12
    out_c: int = 20
    size: int = 5
    kernel: int = 3
    stride: int = 2
    dilation: int = 1
    pad: int = 1
    extra: int = 1
    groups: int = 1

    @property
    def out(self) -> int:
        reach = (self.kernel - 1) * self.dilation + 1
        return (self.size - 1) * self.stride + reach - 2 * self.pad + self.extra


CASES = {
    "3x3-stride-2": Transposed(),
    "2x2-stride-2": Transposed(kernel=2, pad=0, extra=0),
    "4x4-stride-2": Transposed(kernel=4, extra=0),
    "3x3-stride-1": Transposed(stride=1, extra=0),
    "2x2-stride-3-holes": Transposed(kernel=2, stride=3, pad=0),
    "3x3-dilated": Transposed(dilation=2, stride=1, pad=2, extra=0),
    "3x3-dilated-stride-2": Transposed(dilation=2, stride=2, pad=2),
    "groups": Transposed(in_c=8, out_c=8, groups=2),
}

SOURCE = """
#define TVMRT_I8_FORMAT {macro}
#include <tvm/runtime/kernels/conv_i8.h>
{tiles}
int run(const void* x, const int8_t* w, const int32_t* bias, const float* scale, const int32_t*
shift, uint8_t* y,
        const tvmrt_i8_range* range);
int run(const void* x, const int8_t* w, const int32_t* bias, const float* scale, const int32_t*
shift, uint8_t* y,
        const tvmrt_i8_range* range) {{
  static const tvmrt_conv_i8 conv = {conv};
  const tvmrt_conv_i8_data data = {{x, w, bias, scale, shift, y, range, NULL, NULL, 1}};
  return tvmrt_conv_i8_run(&conv, &data);
}}
"""


def scattered(x: np.ndarray, w: np.ndarray, t: Transposed, x_zero: int, w_zero: int) -> np.ndarray:
    """The definition: every input pixel adds its kernel to the output."""
    y = np.zeros((t.out + 2 * t.pad, t.out + 2 * t.pad, t.out_c), np.int64)
    of_in, of_out = t.in_c // t.groups, t.out_c // t.groups
    for ih, iw, kh, kw in np.ndindex(t.size, t.size, t.kernel, t.kernel):
        oh, ow = ih * t.stride + kh * t.dilation, iw * t.stride + kw * t.dilation
        if oh >= y.shape[0] or ow >= y.shape[1]:
            continue
        for g in range(t.groups):
            ins = slice(g * of_in, (g + 1) * of_in)
            values = x[ih, iw, ins].astype(np.int64) - x_zero
            y[oh, ow, g * of_out : (g + 1) * of_out] += values @ (
                w[ins, :, kh, kw].astype(np.int64) - w_zero
            )
    return y[t.pad : t.pad + t.out, t.pad : t.pad + t.out]


@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("name", CASES)
def test_phases_give_numpys_bytes(tmp_path_factory, fmt, name):
    t, rng = CASES[name], np.random.default_rng(2)
    x = random_bytes(rng, True, (t.size, t.size, t.in_c))
    w = random_bytes(rng, True, (t.in_c, t.out_c // t.groups, t.kernel, t.kernel))
    bias = rng.integers(-500, 500, t.out_c).astype(np.int32)
    acc = scattered(x, w, t, 6, -1) + bias
    scale = (rng.uniform(0.5, 1.5, t.out_c) * 50 / acc.std()).astype(np.float32)
    whole = ConvI8(
        FORMATS[fmt],
        1,
        (1, t.size, t.size),
        t.in_c,
        (1, t.out, t.out),
        t.out_c,
        (1, t.kernel, t.kernel),
        (1, t.stride, t.stride),
        (1, t.dilation, t.dilation),
        (0, t.pad, t.pad),
        t.groups,
        True,
        6,
    )
    y, bounds = np.zeros((t.out, t.out, t.out_c), np.int8), int8_range(2, True)
    for phase in transposed_phases(whole, w, -1):
        conv = phase.layer.fit(phase.weights, -1)
        packed = pack_conv(conv, phase.weights, -1, bias)
        scales = pad_channels(conv, scale)
        text = SOURCE.format(
            macro=conv.fmt.macro,
            conv=conv.initializer(),
            tiles="\n".join(dict.fromkeys(conv.definitions())),
        )
        library = build(tmp_path_factory.getbasetemp(), text, FLAGS[fmt])
        part = y.reshape(-1)[phase.y_offset :]
        assert (
            library.run(
                pointer(x),
                pointer(packed.weights),
                pointer(packed.bias),
                pointer(scales),
                pointer(packed.shift),
                pointer(part),
                pointer(bounds),
            )
            == 0
        )
    np.testing.assert_array_equal(y, requantise(acc, scale, 2, -128, 127))
