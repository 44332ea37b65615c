"""Test hand-written regions of the device dnnl that compilers rarely write: accepted ones compute
correct results, the others are refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from region_programs import call_with_strides, load, run

import tvmrt
from tvmrt.error import TVMError

pytestmark = pytest.mark.usefixtures("dnnl")

RNG = np.random.default_rng(5)
W = RNG.standard_normal((4, 5)).astype(np.float32)
ROW = RNG.standard_normal(5).astype(np.float32)
QW = RNG.integers(-9, 9, (4, 2, 3, 3)).astype(np.int8)
WINDOW = {"strides": [1, 1], "dilations": [1, 1], "pads_before": [0, 0], "pads_after": [0, 0]}
CONV = WINDOW | {"groups": 1}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def windows(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the convolution of one image, exact for integers."""
    taps = np.lib.stride_tricks.sliding_window_view(x[0], w.shape[2:], axis=(1, 2))
    return np.einsum("cyxkl,ockl->oyx", taps, w)[None]


def test_bias_of_a_product_of_batches():
    nodes = [("matmul", [0, 1, 2], [3], {})]
    module = load("dnnl", [[2, 3, 4], [2, 4, 5], ROW, [2, 3, 5]], nodes, inputs=(0, 1))
    a, b = normal(2, 3, 4), normal(2, 4, 5)
    np.testing.assert_allclose(run(module, (2, 3, 5), "float32", a, b), a @ b + ROW, 1e-5, 1e-5)


def test_bias_row_of_a_matmul_with_merged_batches():
    nodes = [("matmul", [0, 1], [3], {}), ("add", [3, 2], [4], {})]
    module = load("dnnl", [[2, 3, 4], W, ROW, [2, 3, 5], [2, 3, 5]], nodes)
    x = normal(2, 3, 4)
    np.testing.assert_allclose(run(module, (2, 3, 5), "float32", x), x @ W + ROW, 1e-5, 1e-5)


def test_crossed_bounds_are_applied_in_order():
    w, low, high = normal(4, 5), np.float32([0.5]), np.float32([-0.5])
    nodes = [("matmul", [0, 1], [4], {}), ("max", [4, 2], [5], {}), ("min", [5, 3], [6], {})]
    module = load("dnnl", [[3, 4], w, low, high, *[[3, 5]] * 3], nodes)
    found = run(module, (3, 5), "float32", normal(3, 4))
    np.testing.assert_array_equal(found, np.full((3, 5), -0.5))


def test_tensors_of_a_caller_may_have_strides():
    module = load("dnnl", [[2, 3, 4], [2, 3, 4]], [("relu", [0], [1], {})])
    x = normal(4, 2, 6).transpose(1, 2, 0)[:, ::2]
    y = np.full((4, 3, 2), np.nan, np.float32).transpose(2, 1, 0)
    call_with_strides(module["r"], x, y)
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def quantized(dtype: str, **attrs: float) -> tvmrt.runtime.Module:
    tensors = [([1, 2, 5, 5], "uint8"), QW, np.float32([0.25]), ([1, 4, 3, 3], dtype)]
    return load("dnnl", tensors, [("qconv", [0, 1, 2], [3], CONV | attrs)])


def test_int32_result_of_an_integer_matmul_is_the_accumulator():
    x = RNG.integers(0, 100, (1, 2, 5, 5)).astype(np.uint8)
    exact = windows(x.astype(np.int64), QW.astype(np.int64))
    np.testing.assert_array_equal(run(quantized("int32"), (1, 4, 3, 3), "int32", x), exact)


def test_integer_matmul_clamps_to_a_narrower_range():
    x = RNG.integers(0, 9, (1, 2, 5, 5)).astype(np.uint8)
    exact = windows(x.astype(np.int64), QW.astype(np.int64))
    found = run(quantized("uint8", low=3, high=20), (1, 4, 3, 3), "uint8", x)
    np.testing.assert_array_equal(found, np.clip(np.rint(exact * 0.25), 3, 20))
    assert {3, 20} <= set(found.ravel())


ONES, SCALE = np.ones((4, 2, 3, 3), np.float32), np.float32([0.5])
BYTE_ONES = np.ones((4, 2, 3, 3), np.int8)
IMAGE, OUT = [1, 2, 5, 5], [1, 4, 3, 3]
BYTES, BYTES_OUT = (IMAGE, "uint8"), (OUT, "uint8")

DAMAGED = {
    "strides too few": (
        [IMAGE, ONES, OUT],
        [("conv", [0, 1], [2], CONV | {"strides": [1]})],
        "attribute strides has 1 integers, expected 2",
    ),
    "no weights": ([IMAGE, OUT], [("conv", [0, -1], [1], CONV)], "an input is missing"),
    "no input": (
        [[3], [3]],
        [("relu", [-1], [1], {})],
        "the node has the wrong number of inputs or outputs",
    ),
    "a product with other rows": (
        [[4, 3], np.ones((3, 2), np.float32), [2, 2]],
        [("matmul", [0, 1], [2], {})],
        "invalid arguments for a matrix product",
    ),
    "a product of nothing": (
        [[0, 3], np.ones((3, 2), np.float32), [0, 2]],
        [("matmul", [0, 1], [2], {})],
        "an operand has no elements",
    ),
    "batches of nothing": (
        [[2, 4, 0], [2, 0, 3], [2, 4, 3]],
        [("matmul", [0, 1], [2], {})],
        "an operand has no elements",
    ),
    "three operands": (
        [[3], np.ones(3, np.float32), [3]],
        [("add", [0, 1, 1], [2], {})],
        "oneDNN does not support operator add with these operands",
    ),
    "read before computed": (
        [[3], [3], [3], [3]],
        [("relu", [1], [2], {}), ("relu", [0], [1], {}), ("add", [1, 2], [3], {})],
        "reads tensor 1, which has no value there",
    ),
    "a type of others": (
        [([3], "int64"), ([3], "int64")],
        [("relu", [0], [1], {})],
        "oneDNN does not support the data type",
    ),
    "scales of a product at run time": (
        [BYTES, BYTE_ONES, [1], BYTES_OUT],
        [("qconv", [0, 1, 2], [3], CONV)],
        "the scales are not constant float32 values",
    ),
    "scales for other channels": (
        [BYTES, BYTE_ONES, np.ones(3, np.float32), BYTES_OUT],
        [("qconv", [0, 1, 2], [3], CONV)],
        "3 scales for 4 channels",
    ),
    "no scales": (
        [BYTES, BYTE_ONES, BYTES_OUT],
        [("qconv", [0, 1], [2], CONV)],
        "scales are missing",
    ),
    "weights of other rank": (
        [BYTES, BYTE_ONES.reshape(4, 18), SCALE, BYTES_OUT],
        [("qconv", [0, 1, 2], [3], CONV)],
        "operands and result must have the same rank",
    ),
    "weights around another zero": (
        [BYTES, BYTE_ONES, SCALE, np.int32([7]), BYTES_OUT],
        [("qconv", [0, 1, 2, -1, 3], [4], CONV)],
        "needs weight zero point 0 for int8, or 128",
    ),
    "a zero point of another type": (
        [BYTES, BYTE_ONES, SCALE, np.float32([0]), BYTES_OUT],
        [("qconv", [0, 1, 2, -1, 3], [4], CONV)],
        "needs weight zero point 0 for int8, or 128",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_region_is_refused(case):
    tensors, nodes, text = DAMAGED[case]
    inputs = [i for i, t in enumerate(tensors[:-1]) if not isinstance(t, np.ndarray)]
    computed = {t for _, _, outs, _ in nodes for t in outs}
    with pytest.raises((TVMError, ValueError), match=text):
        load("dnnl", tensors, nodes, [i for i in inputs if i not in computed])
