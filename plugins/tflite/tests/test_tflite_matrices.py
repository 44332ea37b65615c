"""Compare integer matmuls, transposed convolutions and functions with LiteRT's kernels."""

from __future__ import annotations

import numpy as np
import pytest
from every_tensor import check_every_tensor
from tflite_case import Bytes, random_bytes

pytest.importorskip("ai_edge_litert")

rng = np.random.default_rng(12)


def _wide_functions(net: Bytes) -> None:
    whole = (64, 64)
    for scale in (2.0**-12, 2.0**-11, 0.00021, 0.0009):
        for name in ("LOGISTIC", "TANH"):
            x = net.given(*whole, scale=scale, zero=0)
            net.op(name, [x], [net.made(*whole, scale=2.0**-15, zero=0)], 3)
    for beta in (1.0, 0.4):
        x, y = net.given(7, 30, scale=0.0004, zero=0), net.made(7, 30, scale=2.0**-15, zero=0)
        net.op("SOFTMAX", [x], [y], 3, "SoftmaxOptions", beta=beta)
    x, y = net.given(64, 8, scale=0.0001, zero=0), net.made(64, 8, scale=0.001, zero=0)
    net.op("EXP", [x], [y], 2)
    x, y = net.given(64, 8, scale=0.0003, zero=0), net.made(64, 8, scale=0.0002, zero=0)
    net.op("LEAKY_RELU", [x], [y], 2, "LeakyReluOptions", alpha=0.3)


def _matrices(net: Bytes) -> None:
    for shapes, option in (
        (((2, 3, 4), (2, 4, 5)), {}), (((2, 4, 3), (1, 5, 4)), {"adjX": True, "adjY": True}),
    ):  # fmt: skip
        a, b = (net.given(*shape) for shape in shapes)
        net.op("BATCH_MATMUL", [a, b], [net.made(2, 3, 5)], 3, "BatchMatMulOptions", **option)


def _transposed(net: Bytes) -> None:
    for stride, kernel, padding, out in (
        (2, 3, 0, (8, 10)),
        (2, 2, 1, (8, 10)),
        (3, 2, 1, (12, 15)),
        (1, 3, 1, (6, 7)),
    ):
        x, w = net.given(2, 4, 5, 3), random_bytes(rng, 4, kernel, kernel, 3)
        w = net.const(w, scale=rng.uniform(0.005, 0.02, 4))
        shape = net.const(np.array([2, *out, 4], np.int32))
        bias = rng.integers(-900, 900, 4).astype(np.int64 if net.wide else np.int32)
        net.op(
            "TRANSPOSE_CONV",
            [shape, w, x, net.const(bias, scale=1.0)],
            [net.made(2, *out, 4)],
            3,
            "TransposeConvOptions",
            padding=padding,
            strideW=stride,
            strideH=stride,
        )


@pytest.mark.slow
def test_functions_and_matrices_of_int16(tmp_path):
    net = Bytes(rng, "int16")
    _wide_functions(net)
    _matrices(net)
    _transposed(net)
    assert len(check_every_tensor(net.data(), tmp_path)) == 18


def test_int8_roots_matmuls_and_transpose_convolutions(tmp_path):
    net = Bytes(rng)
    _matrices(net)
    _transposed(net)
    for name in ("RSQRT", "SQRT"):
        x, y = net.given(16, 16, scale=0.02, zero=-128), net.made(16, 16, scale=0.05, zero=-100)
        net.op(name, [x], [y], 2)
    assert len(check_every_tensor(net.data(), tmp_path)) == 8
