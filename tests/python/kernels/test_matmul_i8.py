"""Matrix products of 8-bit tensors against numpy, to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from i8_case import (
    FLAGS,
    FORMATS,
    includes,
    int8_range,
    random_bytes,
    requantise,
    run_conv,
    usable_formats,
)
from kernel_build import build, pointer

from tvmrt.codegen.window.layer_i8 import ConvI8
from tvmrt.codegen.window.quantized_computed import packing_bytes

SIZES = {
    "1x64x10": (1, 64, 10),
    "1x1000x37": (1, 1000, 37),
    "1x640x128": (1, 640, 128),
    "5x3x7": (5, 3, 7),
    "17x33x65": (17, 33, 65),
    "64x64x64": (64, 64, 64),
    "3x5x200": (3, 5, 200),
}


@pytest.mark.everyday(3)
@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("signed", [True, False], ids=["s8", "u8"])
def test_constant_operand(tmp_path_factory, fmt, size, signed):
    (m, k, n), rng = SIZES[size], np.random.default_rng(6)
    x, w = random_bytes(rng, signed, (m, k)), random_bytes(rng, True, (k, n))
    acc = (x.astype(np.int64) - 5) @ w.astype(np.int64)
    scale = (rng.uniform(0.5, 1.5, n) * 50 / acc.std()).astype(np.float32)
    conv = ConvI8.matmul(FORMATS[fmt], m, k, n, x_signed=signed, x_zero=5)
    y = np.zeros((m, n), np.int8)
    bias = np.zeros(n, np.int32)
    run_conv(tmp_path_factory.getbasetemp(), conv, x, w.T, 0, bias, scale, y, int8_range(-9, True))
    np.testing.assert_array_equal(y, requantise(acc, scale, -9, -128, 127))


SOURCE = """
#define TVMRT_I8_FORMAT {macro}
#include <tvm/runtime/kernels/matmul_i8.h>
{headers}
{tiles}
int run(const void* x, const void* b, void* y, int k_stride, int n_stride, int b_signed,
        int b_zero, int x_zero);
int run(const void* x, const void* b, void* y, int k_stride, int n_stride, int b_signed,
        int b_zero, int x_zero) {{
  static const tvmrt_conv_i8 product = {conv};
  const tvmrt_matmul_i8_b right = {{b, k_stride, n_stride, b_signed, b_zero, {scratch}}};
  const tvmrt_conv_i8_data data = {{
      x, NULL, NULL, NULL, NULL, y, NULL, tvmrt_i8_rows_int32, NULL, 4, NULL, NULL, NULL, 0}};
  return tvmrt_matmul_i8_dynamic(&product, &data, &right, x_zero);
}}
"""


@pytest.mark.everyday(3)
@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("b_signed, b_zero", [(True, 0), (True, -3), (False, 121)])
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_operand_known_at_run_time(tmp_path_factory, fmt, size, b_signed, b_zero, transposed):
    (m, k, n), rng = SIZES[size], np.random.default_rng(7)
    x_signed = not b_signed
    x, b = random_bytes(rng, x_signed, (m, k)), random_bytes(rng, b_signed, (k, n))
    conv = ConvI8.matmul(FORMATS[fmt], m, k, n, x_signed=x_signed)
    text = SOURCE.format(
        headers=includes(FORMATS[fmt]),
        macro=conv.fmt.macro,
        conv=conv.initializer(shifted=True, epilogue=True),
        scratch="{}, {}".format(*packing_bytes(conv)),
        tiles="\n".join(dict.fromkeys(conv.definitions())),
    )
    library = build(tmp_path_factory.getbasetemp(), text, FLAGS[fmt])
    stored = np.ascontiguousarray(b.T) if transposed else b
    y = np.zeros((m, n), np.int32)
    strides = (1, k) if transposed else (n, 1)
    assert (
        library.run(pointer(x), pointer(stored), pointer(y), *strides, int(b_signed), b_zero, 17)
        == 0
    )
    np.testing.assert_array_equal(y, (x.astype(np.int64) - 17) @ (b.astype(np.int64) - b_zero))
