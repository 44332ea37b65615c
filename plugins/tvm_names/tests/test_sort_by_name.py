"""Test sorting functions that networks call by name. Expected values are from numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from libraries import compile_library

import tvmrt

RNG = np.random.default_rng(5)


def call(name: str, *args):
    return tvmrt.get_global_func(f"tvm.contrib.{name}")(*args)


def nd(values, dtype=None):
    return tvmrt.nd.array(np.array(values, dtype))


def stable(x: np.ndarray, axis: int, ascends: bool) -> np.ndarray:
    """Return sorted indices; equal elements are ascending in both directions."""
    if ascends:
        return np.argsort(x, axis=axis, kind="stable")
    # of the reversed slice, so that equal elements come reversed, too
    backwards = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - backwards


CASES = [((7,), 0), ((3, 5), 1), ((4, 33), 0), ((2, 17, 3), 1), ((2, 3, 400), -1)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16"])
@pytest.mark.parametrize("ascends", [True, False])
def test_sort_and_argsort(dtype, ascends):
    for (shape, axis), to in zip(CASES, itertools.cycle(["int32", "int64", "float32", "float64"])):
        # few values, so that many are equal; beyond double precision for integer types
        x = RNG.integers(-9, 9, shape).astype(dtype)
        x += np.array(2**53, dtype) if dtype == "int64" else np.array(0.25, dtype).astype(dtype)
        order, values = nd(np.zeros(shape), to), nd(np.zeros(shape), dtype)
        call("sort.argsort", nd(x), order, axis, ascends)
        call("sort.sort", nd(x), values, axis, ascends)
        expected = stable(x, axis, ascends)
        np.testing.assert_array_equal(order.numpy(), expected.astype(to))
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, expected, axis))


def test_sort_keeps_the_bits_of_its_elements():
    x = np.array([np.inf, 65504, -0.0, 6e-8, -np.inf, 0.0, -6e-5, 1e-3], np.float16)
    for dtype in ("float16", "float32", "float64"):
        out = nd(np.zeros(8), dtype)
        call("sort.sort", nd(x, dtype), out, 0, True)
        expected = np.sort(x.astype(dtype), kind="stable")
        assert out.numpy().tobytes() == expected.tobytes()
    # in place
    out = nd([3, 1, 2], "int32")
    call("sort.sort", out, out, 0, False)
    assert out.numpy().tolist() == [3, 2, 1]


def test_not_a_number_ends_the_sort_as_in_tvm():
    """Expected results were recorded with a build of TVM 0.12."""
    for x, ascends, expected in (
        ([3, np.nan, 1, 2], True, [2, 3, 0, 1]),
        ([3, np.nan, 1, 2], False, [0, 1, 3, 2]),
        ([np.nan, 1, np.nan, 0], True, [0, 1, 2, 3]),
    ):
        out = nd(np.zeros(4), "int32")
        call("sort.argsort", nd(x, "float32"), out, 0, ascends)
        assert out.numpy().tolist() == expected


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "int8"])
@pytest.mark.parametrize("ascends", [True, False])
def test_topk(dtype, ascends):
    for (shape, axis), k in zip(CASES, (3, 1, 0, 17, 50)):
        x = RNG.integers(0, 20, shape).astype(dtype)
        some = k or shape[axis]
        at = stable(x, axis, ascends).take(range(some), axis)
        cut = list(shape)
        cut[axis] = some
        for kind in ("both", "values", "indices"):
            values, order = nd(np.zeros(cut), dtype), nd(np.zeros(cut), "int64")
            results = {"both": [values, order], "values": [values], "indices": [order]}[kind]
            call("sort.topk", nd(x), *results, k, axis, kind, ascends)
            if kind != "values":
                np.testing.assert_array_equal(order.numpy(), at)
            if kind != "indices":
                np.testing.assert_array_equal(values.numpy(), np.take_along_axis(x, at, axis))


def test_topk_beyond_the_length_writes_all_elements():
    values, order = nd([-1] * 5, "float32"), nd([-1] * 5, "int32")
    call("sort.topk", nd([5, 9, 7], "float32"), values, order, 5, 0, "both", False)
    assert values.numpy().tolist() == [9, 7, 5, -1, -1]
    assert order.numpy().tolist() == [1, 2, 0, -1, -1]


def test_argsort_nms_ignores_invalid_elements():
    scores = RNG.random((3, 6, 2)).astype("float32")
    valid = np.array([[4, 6], [0, 99], [-3, 1]], "int32")  # invalid counts must not crash
    out = nd(np.zeros((3, 6, 2)), "int32")
    call("sort.argsort_nms", nd(scores), nd(valid), out, 1, False)
    for i, j in np.ndindex(3, 2):
        count = min(max(valid[i, j], 0), 6)
        expected = np.arange(6)
        expected[:count] = stable(scores[i, :count, j], 0, False)
        assert out.numpy()[i, :, j].tolist() == expected.tolist()


def test_nothing_to_sort():
    for shape in ((0,), (3, 0), (0, 4)):
        x, out = nd(np.zeros(shape), "float32"), nd(np.zeros(shape), "int32")
        call("sort.argsort", x, out, 0, True)
        call("sort.topk", x, x, out, 0, 0, "both", True)
        call("sort.argsort_nms", x, nd(np.zeros(4), "int32"), out, 0, True)


F, I = nd(np.zeros((2, 3)), "float32"), nd(np.zeros((2, 3)), "int32")  # noqa: E741
BYTES, SMALL, GAPS = nd(np.zeros((2, 3)), "uint8"), nd(np.zeros((2, 2)), "int32"), nd([1], "int32")


@pytest.mark.parametrize(
    "name, args, text",
    [
        ("sort.argsort", (F, I, 1), "takes 4 arguments"),
        ("sort.argsort", (BYTES, I, 1, True), "Unsupported input dtype: uint8"),
        ("sort.argsort", (F, BYTES, 1, True), "Unsupported output dtype: uint8"),
        ("sort.argsort", (F, I, 2, True), "Axis out of boundary for input ndim 2"),
        ("sort.argsort", (F, I, -3, True), "Axis out of boundary for input ndim 2"),
        ("sort.argsort", (F, SMALL, 1, True), "does not match"),
        ("sort.argsort", (F, nd([0], "int32"), 1, True), "does not match"),
        ("sort.argsort", (F, "text", 1, True), "argument 1 must be a tensor"),
        ("sort.sort", (F, I, 1, True), "float32 cannot be stored in a tensor of int32"),
        ("sort.topk", (F, F, I, 1, 1, "foo", True), "Unsupported ret type: foo"),
        ("sort.topk", (F, I, 1, 1, "both", True), "Unsupported ret type: both"),
        ("sort.topk", (F, I, I, 1, 1, "both", True), "cannot be stored in"),
        ("sort.topk", (F, F, SMALL, 3, 1, "both", True), "does not match"),
        ("sort.argsort_nms", (I, GAPS, I, 1, True), "Unsupported input dtype: int32"),
        ("sort.argsort_nms", (F, GAPS, I, 1, True), "1 elements and the input 2 slices"),
    ],
)
def test_invalid_options_are_reported(name, args, text):
    with pytest.raises(Exception, match=text):
        call(name, *args)


LOOKS_UP = """
#include <tvm/runtime/c_backend_api.h>
void* __tvm_module_ctx = 0;
int f(TVMValue* a, int* c, int n, TVMValue* r, int* rc, void* x) {
  void* found;
  (void)x;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "tvm.contrib.sort.argsort", &found)) return -1;
  return TVMFuncCall(found, a, c, n, r, rc);
}
"""


def test_a_library_finds_them_by_name(tmp_path):
    (tmp_path / "f.c").write_text(LOOKS_UP)
    f = tvmrt.runtime.load_module(compile_library(tmp_path / "f.c", tmp_path / "f.so"))["f"]
    out = nd(np.zeros(3), "float32")
    f(nd([3, 1, 2], "float32"), out, 0, True)
    assert out.numpy().tolist() == [1, 2, 0]
    with pytest.raises(Exception, match="Axis out of boundary"):
        f(nd([3, 1, 2], "float32"), out, 5, True)
