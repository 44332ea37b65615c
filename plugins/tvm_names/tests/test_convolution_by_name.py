"""Test the convolution that networks call by another library's name. Expected values are from
numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tvmrt

RNG = np.random.default_rng(10)


def wanted(x, w, pads, strides, groups):
    """Compute each element of the result as a separate sum; (batch, channel, row, column) in and
    out."""
    x = np.pad(x, ((0, 0), (0, 0), pads[:2], pads[2:]))
    filters, channels, tall, wide = w.shape
    rows = (x.shape[2] - tall) // strides[0] + 1
    columns = (x.shape[3] - wide) // strides[1] + 1
    y = np.empty((len(x), filters, rows, columns))
    for f, i, j in np.ndindex(filters, rows, columns):
        first = f // (filters // groups) * channels
        window = (slice(i * strides[0], i * strides[0] + tall),
                  slice(j * strides[1], j * strides[1] + wide))  # fmt: skip
        seen = x[:, first : first + channels, window[0], window[1]]
        y[:, f, i, j] = (seen * w[f]).sum((1, 2, 3))
    return y


def convolve(x, w, y, pads, strides, groups, last):
    arrays = [tvmrt.nd.array(a) for a in (x, w, y)]
    flags = x.dtype == np.float32, y.dtype == np.float32
    tvmrt.get_global_func("tvm.contrib.dnnl.conv2d")(*arrays, *pads, *strides, groups, last, *flags)
    return arrays[2].numpy()


CASES = [
    ((1, 3, 7, 9), (4, 3, 3, 3), (1, 1, 1, 1), (1, 1), 1),
    ((2, 4, 6, 5), (6, 2, 2, 3), (0, 1, 2, 0), (2, 1), 2),
    ((1, 6, 5, 5), (6, 1, 3, 3), (2, 0, 1, 3), (1, 2), 6),
    ((1, 40, 3, 300), (17, 40, 1, 1), (0, 0, 0, 0), (1, 1), 1),
]


@pytest.mark.parametrize("shape, weights, pads, strides, groups", CASES)
@pytest.mark.parametrize("last", [False, True])
def test_convolution(shape, weights, pads, strides, groups, last):
    x = RNG.standard_normal(shape).astype(np.float32)
    w = RNG.standard_normal(weights).astype(np.float32)
    values = wanted(x.astype(float), w.astype(float), pads, strides, groups)
    y = np.empty(values.shape, np.float32)
    if last:
        x, y = (np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (x, y))
        w = np.ascontiguousarray(w.transpose(2, 3, 1, 0))
    got = convolve(x, w, y, pads, strides, groups, last)
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2) if last else got, values, atol=1e-4)


def test_elements_of_bfloat16():
    x = RNG.standard_normal((1, 3, 5, 5)).astype(ml_dtypes.bfloat16)
    w = RNG.standard_normal((2, 3, 3, 3)).astype(ml_dtypes.bfloat16)
    values = wanted(x.astype(float), w.astype(float), (0, 0, 0, 0), (1, 1), 1)
    for kind, error in ((np.float32, 1e-5), (ml_dtypes.bfloat16, 2**-7)):
        y = convolve(x, w, np.empty(values.shape, kind), (0, 0, 0, 0), (1, 1), 1, False)
        np.testing.assert_allclose(y.astype(float), values, rtol=error, atol=1e-5)


@pytest.mark.parametrize(
    "shapes, kinds, rest, text",
    [
        (((1, 3, 5, 5), (2, 3, 3, 3), (1, 2, 4, 3)), "fff", (0, 0, 0, 0, 1, 1, 1), "not match"),
        (((1, 3, 5, 5), (2, 4, 3, 3), (1, 2, 3, 3)), "fff", (0, 0, 0, 0, 1, 1, 1), "3 input chan"),
        (((1, 3, 5, 5), (2, 3, 3, 3), (1, 2, 3, 3)), "fdf", (0, 0, 0, 0, 1, 1, 1), "1 must be of"),
        (((3, 5, 5), (2, 3, 3, 3), (1, 2, 3, 3)), "fff", (0, 0, 0, 0, 1, 1, 1), "4 dimensions"),
        (((1, 3, 5, 5), (2, 3, 3, 3), (1, 2, 3, 3)), "fff", (0, 0, 0, -1, 1, 1, 1), "negative"),
        (((1, 3, 5, 5), (2, 3, 3, 3), (1, 2, 3, 3)), "fff", (0, 0, 0, 0, 0, 1, 1), "at least 1"),
        (((1, 3, 2, 5), (2, 3, 3, 3), (1, 2, 0, 3)), "fff", (0, 0, 0, 0, 1, 1, 1), "not match"),
    ],
)  # fmt: skip
def test_refusals(shapes, kinds, rest, text):
    arrays = [tvmrt.nd.array(np.zeros(s, k)) for s, k in zip(shapes, kinds)]
    with pytest.raises(ValueError, match=text):
        tvmrt.get_global_func("tvm.contrib.dnnl.conv2d")(*arrays, *rest, False, True, True)
