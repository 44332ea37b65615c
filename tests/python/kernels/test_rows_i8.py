"""Row functions, epilogues, pooling and elementwise kernels of 8-bit tensors against numpy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from i8_case import (
    FLAGS,
    FORMATS,
    Quantised,
    Shape,
    int8_range,
    integer_conv,
    layer,
    random_bytes,
    requantise,
    run_conv,
    three,
    usable_formats,
)
from kernel_build import PARALLEL, build, pointer

f32 = np.float32


class AddI8(ctypes.Structure):
    """tvmrt_add_i8."""

    _fields_ = [
        *((name, ctypes.c_float) for name in ("fa", "fb", "divisor")),
        *((name, ctypes.c_int32) for name in ("a_zero", "a_signed", "b_zero", "b_signed")),
        ("range", ctypes.c_int32 * 4),
    ]


def real(q: np.ndarray, info: Quantised) -> np.ndarray:
    """DequantizeLinear."""
    return (q.astype(f32) - f32(info.zero)) * f32(info.scale)


ROWS = """
#define TVMRT_I8_FORMAT {macro}
#include <tvm/runtime/kernels/op/eltwise_i8.h>
#include <tvm/runtime/kernels/pool_i8.h>
void add(const tvmrt_add_i8* f, uint8_t* y, const uint8_t* a, const uint8_t* b, int64_t n);
void add(const tvmrt_add_i8* f, uint8_t* y, const uint8_t* a, const uint8_t* b, int64_t n) {{
  tvmrt_add_i8_run(f, y, a, b, n, 0);
}}
void mul(const tvmrt_mul_i8* f, uint8_t* y, const uint8_t* a, const uint8_t* b, int64_t n);
void mul(const tvmrt_mul_i8* f, uint8_t* y, const uint8_t* a, const uint8_t* b, int64_t n) {{
  tvmrt_mul_i8_run(f, y, a, b, n, 0);
}}
void table(uint8_t* y, const uint8_t* x, const uint8_t* t, int64_t n);
void table(uint8_t* y, const uint8_t* x, const uint8_t* t, int64_t n) {{
  tvmrt_table_i8_run(t, y, x, n, 0);
}}
int max_pool(const tvmrt_pool_layer* p, const void* x, void* y);
int max_pool(const tvmrt_pool_layer* p, const void* x, void* y) {{
  return tvmrt_max_pool_i8(p, x, y);
}}
int average_pool(const tvmrt_pool_layer* p, const tvmrt_average_i8* a, const void* x, void* y);
int average_pool(const tvmrt_pool_layer* p, const tvmrt_average_i8* a, const void* x, void* y) {{
  return tvmrt_average_pool_i8(p, a, x, y);
}}
void global_average(int n, int pixels, int c, const void* x, int zero, int is_signed, float scale,
                    const tvmrt_i8_range* r, void* y);
void global_average(int n, int pixels, int c, const void* x, int zero, int is_signed, float scale,
                    const tvmrt_i8_range* r, void* y) {{
  tvmrt_global_average_pool_i8(n, pixels, c, x, c, zero, is_signed, scale, r, y);
}}
"""


@pytest.fixture(params=usable_formats())
def rows(request, tmp_path_factory):
    """The functions above in one format."""
    text = ROWS.format(macro=FORMATS[request.param].macro)
    return build(
        tmp_path_factory.getbasetemp(), text, [*FLAGS[request.param], "-DTASKS=3", *PARALLEL]
    )


A, B, Y = Quantised(0.031, -7, True), Quantised(0.017, 130, False), Quantised(0.029, 3, False)
LENGTHS = [1, 15, 64, 1000]


@pytest.mark.parametrize("n", LENGTHS)
def test_add_is_dequantise_add_quantise(rows, n):
    rng = np.random.default_rng(n)
    a, b, y = random_bytes(rng, True, (n,)), random_bytes(rng, False, (n,)), np.zeros(n, np.uint8)
    f = AddI8(A.scale, B.scale, Y.scale, A.zero, 1, B.zero, 0, tuple(int8_range(Y.zero, False)))
    rows.add(ctypes.byref(f), pointer(y), pointer(a), pointer(b), ctypes.c_int64(n))
    np.testing.assert_array_equal(y, Y.quantise(real(a, A) + real(b, B)))


class MulI8(ctypes.Structure):
    """tvmrt_mul_i8."""

    _fields_ = [
        *((name, ctypes.c_float) for name in ("fa", "fb", "factor", "divisor")),
        *((name, ctypes.c_int32) for name in ("a_zero", "a_signed", "b_zero", "b_signed")),
        ("range", ctypes.c_int32 * 4),
    ]


@pytest.mark.parametrize("n", LENGTHS)
def test_mul_is_dequantise_mul_quantise(rows, n):
    rng = np.random.default_rng(n)
    a, b, y = random_bytes(rng, True, (n,)), random_bytes(rng, False, (n,)), np.zeros(n, np.uint8)
    f = MulI8(A.scale, B.scale, 1, Y.scale, A.zero, 1, B.zero, 0, tuple(int8_range(Y.zero, False)))
    rows.mul(ctypes.byref(f), pointer(y), pointer(a), pointer(b), ctypes.c_int64(n))
    np.testing.assert_array_equal(y, Y.quantise(real(a, A) * real(b, B)))


@pytest.mark.parametrize("signed", [True, False], ids=["int8", "uint8"])
def test_table_applies_a_function(rows, signed):
    x = random_bytes(np.random.default_rng(0), signed, (777,))
    info, out = Quantised(0.05, -3 if signed else 120, signed), Quantised(1 / 128, 0, True)
    y = np.zeros(777, np.int8)
    entries = np.arange(256, dtype=np.uint8).view(x.dtype)
    table = out.quantise(np.tanh(real(entries, info)))
    rows.table(pointer(y), pointer(x), pointer(table), ctypes.c_int64(777))
    np.testing.assert_array_equal(y, out.quantise(np.tanh(real(x, info))))


POOLS = {
    "2x2": Shape(in_c=24, size=(8, 6), kernel=(2, 2), stride=(2, 2), pad=((0, 0), (0, 0))),
    "3x3-padded": Shape(batch=2, in_c=70, size=(7, 9), stride=(2, 2)),
    "3x3-dilated": Shape(in_c=5, size=(9, 9), dilation=(2, 2), pad=((2, 1), (0, 2))),
    "1-d": Shape(in_c=16, size=(31,), kernel=(5,), stride=(3,), dilation=(1,), pad=((2, 2),)),
    "3-d": Shape(
        in_c=9,
        size=(4, 5, 6),
        kernel=(2, 3, 2),
        stride=(1, 2, 1),
        dilation=(1, 1, 1),
        pad=((0, 1), (1, 1), (0, 0)),
    ),
}


class Window(ctypes.Structure):
    """tvmrt_window."""

    _fields_ = [
        ("batch", ctypes.c_int32),
        ("in_", ctypes.c_int32 * 3),
        ("out", ctypes.c_int32 * 3),
        ("kernel", ctypes.c_int32 * 3),
        ("stride", ctypes.c_int32 * 3),
        ("dilation", ctypes.c_int32 * 3),
        ("pad", ctypes.c_int32 * 3),
        ("x_stride", ctypes.c_int32),
        ("y_stride", ctypes.c_int32),
    ]


class PoolLayer(ctypes.Structure):
    """tvmrt_pool_layer."""

    _fields_ = [
        ("kind", ctypes.c_int),
        ("p", ctypes.c_int32),
        ("channels", ctypes.c_int32),
        ("window", Window),
        ("pad_end", ctypes.c_int32 * 3),
        ("is_signed", ctypes.c_int32),
    ]


MAX, AVERAGE, AVERAGE_PADDED = range(3)  # tvmrt_pool_kind


def pool(s: Shape, signed: bool, kind: int) -> PoolLayer:
    ends = [three(tuple(p[i] for p in s.pad), 0) for i in range(2)]
    window = Window(
        s.batch,
        three(s.size, 1),
        three(s.out, 1),
        three(s.kernel, 1),
        three(s.stride, 1),
        three(s.dilation, 1),
        ends[0],
        s.in_c,
        s.in_c,
    )
    return PoolLayer(kind, 0, s.in_c, window, ends[1], signed)


def windows(x: np.ndarray, s: Shape, fill: float) -> list[np.ndarray]:
    """The padded input [N, *size, C] as each tap of the kernel sees it."""
    padded = np.pad(x.astype(np.float64), [(0, 0), *s.pad, (0, 0)], constant_values=fill)
    taps = []
    for tap in np.ndindex(*s.kernel):
        at = zip(tap, s.dilation, s.out, s.stride)
        taps.append(
            padded[
                (slice(None), *(slice(t * d, t * d + (o - 1) * st + 1, st) for t, d, o, st in at))
            ]
        )
    return taps


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("signed", [True, False], ids=["int8", "uint8"])
def test_max_pool_ignores_padding(rows, name, signed):
    s = POOLS[name]
    x = random_bytes(np.random.default_rng(1), signed, (s.batch, *s.size, s.in_c))
    y = np.zeros((s.batch, *s.out, s.in_c), x.dtype)
    assert rows.max_pool(ctypes.byref(pool(s, signed, MAX)), pointer(x), pointer(y)) == 0
    np.testing.assert_array_equal(y, np.max(windows(x, s, -1000), axis=0))


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("count_pad", [True, False], ids=["count-pad", "exclude-pad"])
@pytest.mark.parametrize("zero_first", [False, True], ids=["zero-last", "zero-first"])
def test_average_pool_rounds_once(rows, name, count_pad, zero_first):
    s = POOLS[name]
    x = random_bytes(np.random.default_rng(2), True, (s.batch, *s.size, s.in_c))
    y = np.zeros((s.batch, *s.out, s.in_c), np.uint8)
    average = (
        (ctypes.c_float * 3)(A.scale, Y.scale, Y.zero if zero_first else 0),
        (ctypes.c_int32 * 5)(A.zero, *int8_range(0 if zero_first else Y.zero, False)),
    )
    packed = ctypes.create_string_buffer(b"".join(bytes(part) for part in average))
    layer = pool(s, True, AVERAGE_PADDED if count_pad else AVERAGE)
    assert rows.average_pool(ctypes.byref(layer), packed, pointer(x), pointer(y)) == 0
    total = np.zeros(y.shape, f32)
    for tap in windows(real(x, A), s, 0):
        total += tap.astype(f32)
    ones = np.ones((s.batch, *s.size, 1))
    count = np.sum(windows(ones, s, 1.0 if count_pad else 0.0), axis=0).astype(f32)
    wanted = Y.quantise(total / count)
    if zero_first:
        wanted = np.clip(np.rint(total / count / f32(Y.scale) + f32(Y.zero)), 0, 255)
    np.testing.assert_array_equal(y, wanted)


def test_global_average_pool_is_an_exact_sum(rows):
    x = random_bytes(np.random.default_rng(4), True, (2, 49, 100))
    y, bounds = np.zeros((2, 100), np.int8), int8_range(5, True)
    scale = f32(0.9 / 49)
    rows.global_average(
        2, 49, 100, pointer(x), -4, 1, ctypes.c_float(scale), pointer(bounds), pointer(y)
    )
    expected = requantise((x.astype(np.int64) + 4).sum(axis=1), scale, 5, -128, 127)
    np.testing.assert_array_equal(y, expected)


KINDS = {
    "dense": Shape(in_c=12, out_c=40, size=(6, 7)),
    "depthwise": Shape(in_c=40, out_c=40, groups=40, size=(6, 7)),
    "grouped": Shape(in_c=8, out_c=20, groups=2, size=(6, 7)),
}


def convolution(fmt: str, kind: str):
    """A layer with its input, weights, bias and exact sums."""
    s, rng = KINDS[kind], np.random.default_rng(9)
    x = random_bytes(rng, True, (1, *s.size, s.in_c))
    w = random_bytes(rng, True, (s.out_c, s.in_c // s.groups, *s.kernel))
    bias = rng.integers(-900, 900, s.out_c).astype(np.int32)
    acc = integer_conv(x, w, s, A.zero, 0) + bias
    scale = (rng.uniform(0.5, 1.5, s.out_c) * 50 / acc.std()).astype(f32)
    return layer(FORMATS[fmt], s, True, A.zero), x, w, bias, acc, scale


@pytest.mark.everyday(3)
@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epilogue", ["int32", "float", "requantize"])
def test_epilogue_gives_sums(tmp_path_factory, fmt, kind, epilogue):
    conv, x, w, bias, acc, scale = convolution(fmt, kind)
    ctx, expected = scale, acc
    if epilogue == "float":
        expected = acc.astype(f32) * scale
    if epilogue == "requantize":
        ctx = np.concatenate(
            [np.array([scale.ctypes.data], np.int64).view(np.int32), int8_range(-4, True, -20, 90)]
        )
        expected = requantise(acc, scale, -4, -20, 90)
    kinds = {"int32": np.int32, "float": f32, "requantize": np.int8}
    y = np.zeros(acc.shape, kinds[epilogue])
    run_conv(
        tmp_path_factory.getbasetemp(),
        conv,
        x,
        w,
        0,
        bias,
        scale,
        y,
        int8_range(0, True),
        epilogue=f"tvmrt_i8_rows_{epilogue}",
        ctx=ctx,
    )
    np.testing.assert_array_equal(y, expected)
