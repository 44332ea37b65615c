"""Test matmuls that networks call by the names of other libraries. Expected values are from
numpy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from libraries import compile_library

import tvmrt

RNG = np.random.default_rng(9)
FLOAT_NAMES = ["cblas.matmul", "mkl.matmul", "dnnl.matmul"]
BATCH_NAMES = ["cblas.batch_matmul", "mkl.batch_matmul"]


def call(name: str, *args):
    return tvmrt.get_global_func(f"tvm.contrib.{name}")(*args)


def draw(shape, dtype):
    return RNG.standard_normal(shape).astype(dtype)


def turned(x: np.ndarray, turns: bool) -> np.ndarray:
    return np.ascontiguousarray(np.swapaxes(x, -1, -2)) if turns else x


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("m, k, n", [(1, 1, 1), (3, 130, 5), (5, 7, 300), (9, 257, 18), (4, 0, 3)])
def test_matmul(m, k, n, dtype, tolerance):
    a, b, before = draw((m, k), dtype), draw((k, n), dtype), draw((m, n), dtype)
    for name, (ta, tb) in zip(
        itertools.cycle(FLOAT_NAMES), itertools.product([False, True], repeat=2)
    ):
        for scales, wanted in (
            ((), a @ b), ((2,), 2 * (a @ b)), ((0.5, 3.0), 0.5 * (a @ b) + 3 * before),
        ):  # fmt: skip
            c = tvmrt.nd.array(before)
            call(
                name,
                tvmrt.nd.array(turned(a, ta)),
                tvmrt.nd.array(turned(b, tb)),
                c,
                ta,
                tb,
                *scales,
            )
            np.testing.assert_allclose(c.numpy(), wanted, rtol=tolerance, atol=tolerance * 20)


def test_beta_zero_ignores_the_old_result():
    c = tvmrt.nd.array(np.full((2, 2), np.nan, "float32"))
    one = tvmrt.nd.array(np.eye(2, dtype="float32"))
    call("cblas.matmul", one, one, c, False, False)
    np.testing.assert_array_equal(c.numpy(), np.eye(2))


@pytest.mark.parametrize("name", BATCH_NAMES)
def test_batches(name):
    for (left, right), (ta, tb) in zip(
        [(3, 3), (1, 3), (3, 1), (1, 1)], [(0, 0), (1, 0), (0, 1), (1, 1)]
    ):
        a, b = draw((left, 4, 6), "float32"), draw((right, 6, 5), "float32")
        c = tvmrt.nd.array(np.zeros((max(left, right), 4, 5), "float32"))
        call(
            name,
            tvmrt.nd.array(turned(a, ta)),
            tvmrt.nd.array(turned(b, tb)),
            c,
            bool(ta),
            bool(tb),
        )
        np.testing.assert_allclose(c.numpy(), a @ b, rtol=2e-5, atol=2e-5)


def test_views_of_an_operator(tmp_path):
    """A compiled operator passes views: here a matrix transposed by its strides, with an offset."""
    source = """
        #include <tvm/runtime/c_backend_api.h>
        void* __tvm_module_ctx;
        int turned_product(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code,
                           void* resource) {
          static const char name[] = "tvm.contrib.cblas.matmul";
          DLTensor view = *(DLTensor*)args[0].v_handle;
          int64_t shape[2] = {view.shape[1], view.shape[0] - 1}, strides[2] = {1, view.shape[1]};
          TVMFunctionHandle f = NULL;
          TVMValue values[5], result;
          int kinds[5] = {kTVMDLTensorHandle, codes[1], codes[2], kTVMArgInt, kTVMArgInt}, kind;
          (void)n, (void)out, (void)out_code, (void)resource;
          view.byte_offset += (uint64_t)view.shape[1] * 4; /* without the first row */
          view.shape = shape;
          view.strides = strides;
          values[0].v_handle = &view;
          values[1] = args[1];
          values[2] = args[2];
          values[3].v_int64 = values[4].v_int64 = 0;
          if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, name, &f) != 0) return -1;
          return TVMFuncCall(f, values, kinds, 5, &result, &kind);
        }
    """
    (tmp_path / "turned.c").write_text(source)
    path = compile_library(tmp_path / "turned.c", tmp_path / "turned.so")
    library = tvmrt.runtime.load_module(path)
    a, b = draw((4, 6), "float32"), draw((3, 5), "float32")
    c = tvmrt.nd.array(np.zeros((6, 5), "float32"))
    library["turned_product"](tvmrt.nd.array(a), tvmrt.nd.array(b), c)
    np.testing.assert_allclose(c.numpy(), a[1:].T @ b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "name, shapes, dtypes, text",
    [
        ("cblas.matmul", [(2, 3), (4, 5), (2, 5)], "fff", "2 x 3 times 4 x 5 does not"),
        ("cblas.matmul", [(2, 3), (3, 5), (5, 2)], "fff", "does not give 5 x 2"),
        ("cblas.matmul", [(2, 3), (3, 5), (2, 5)], "ffd", "all three tensors must be float32"),
        ("cblas.matmul", [(1, 2, 3), (3, 5), (2, 5)], "fff", "a tensor of 2 dimensions"),
        ("cblas.batch_matmul", [(2, 2, 3), (3, 3, 5), (3, 2, 5)], "fff", "sizes 2 and 3"),
    ],
)  # fmt: skip
def test_refusals(name, shapes, dtypes, text):
    arrays = [tvmrt.nd.array(np.zeros(s, d)) for s, d in zip(shapes, dtypes)]
    with pytest.raises(ValueError, match=text):
        call(name, *arrays, False, False)
