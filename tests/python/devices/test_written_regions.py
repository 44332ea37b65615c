"""Regions that compilers write seldom: devices that take them give the right numbers."""

from __future__ import annotations

import numpy as np
import pytest
from device_here import have
from written_regions import OPENCL, call_with_strides, load

import tvmrt
from tvmrt.error import TVMError

RNG = np.random.default_rng(5)
W = RNG.standard_normal((4, 5)).astype(np.float32)
ROW = RNG.standard_normal(5).astype(np.float32)
QW = RNG.integers(-9, 9, (4, 2, 3, 3)).astype(np.int8)
WINDOW = {"strides": [1, 1], "dilations": [1, 1], "pads_before": [0, 0], "pads_after": [0, 0]}
CONV = WINDOW | {"groups": 1}


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def run(module: tvmrt.runtime.Module, out: tuple[int, ...], dtype: str, *arrays: np.ndarray):
    result = tvmrt.nd.empty(out, dtype)
    module["r"](*(tvmrt.nd.array(a) for a in arrays), result)
    return result.numpy()


def windows(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The convolution of one image, exact for integers."""
    taps = np.lib.stride_tricks.sliding_window_view(x[0], w.shape[2:], axis=(1, 2))
    return np.einsum("cyxkl,ockl->oyx", taps, w)[None]


# ---- oneDNN ----


def test_bias_of_a_product_of_batches():
    have("dnnl")
    nodes = [("matmul", [0, 1, 2], [3], {})]
    module = load("dnnl", [[2, 3, 4], [2, 4, 5], ROW, [2, 3, 5]], nodes, inputs=(0, 1))
    a, b = normal(2, 3, 4), normal(2, 4, 5)
    np.testing.assert_allclose(run(module, (2, 3, 5), "float32", a, b), a @ b + ROW, 1e-5, 1e-5)


def test_row_is_added_to_a_product_of_joined_batches():
    have("dnnl")
    nodes = [("matmul", [0, 1], [3], {}), ("add", [3, 2], [4], {})]
    module = load("dnnl", [[2, 3, 4], W, ROW, [2, 3, 5], [2, 3, 5]], nodes)
    x = normal(2, 3, 4)
    np.testing.assert_allclose(run(module, (2, 3, 5), "float32", x), x @ W + ROW, 1e-5, 1e-5)


def test_bounds_that_cross_are_taken_in_their_order():
    have("dnnl")
    w, low, high = normal(4, 5), np.float32([0.5]), np.float32([-0.5])
    nodes = [("matmul", [0, 1], [4], {}), ("max", [4, 2], [5], {}), ("min", [5, 3], [6], {})]
    module = load("dnnl", [[3, 4], w, low, high, *[[3, 5]] * 3], nodes)
    found = run(module, (3, 5), "float32", normal(3, 4))
    np.testing.assert_array_equal(found, np.full((3, 5), -0.5))


def test_tensors_of_a_caller_may_have_strides():
    have("dnnl")
    module = load("dnnl", [[2, 3, 4], [2, 3, 4]], [("relu", [0], [1], {})])
    x = normal(4, 2, 6).transpose(1, 2, 0)[:, ::2]
    y = np.full((4, 3, 2), np.nan, np.float32).transpose(2, 1, 0)
    call_with_strides(module["r"], x, y)
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def quantized(dtype: str, **attrs: float) -> tvmrt.runtime.Module:
    tensors = [([1, 2, 5, 5], "uint8"), QW, np.float32([0.25]), ([1, 4, 3, 3], dtype)]
    return load("dnnl", tensors, [("qconv", [0, 1, 2], [3], CONV | attrs)])


def test_integer_product_of_32_bits_is_the_sum_itself():
    have("dnnl")
    x = RNG.integers(0, 100, (1, 2, 5, 5)).astype(np.uint8)
    exact = windows(x.astype(np.int64), QW.astype(np.int64))
    np.testing.assert_array_equal(run(quantized("int32"), (1, 4, 3, 3), "int32", x), exact)


def test_integer_product_keeps_within_a_narrower_range():
    have("dnnl")
    x = RNG.integers(0, 9, (1, 2, 5, 5)).astype(np.uint8)
    exact = windows(x.astype(np.int64), QW.astype(np.int64))
    found = run(quantized("uint8", low=3, high=20), (1, 4, 3, 3), "uint8", x)
    np.testing.assert_array_equal(found, np.clip(np.rint(exact * 0.25), 3, 20))
    assert {3, 20} <= set(found.ravel())


# ---- OpenCL ----

ADD_ONE = """__kernel void f(__global const float *x, __global float *y) {
  y[get_global_id(0)] = x[get_global_id(0)] + 1;
}"""


def add_one(source: int, target: int, size: int, text: str = ADD_ONE):
    attrs = {"function": "f", "operator": "f", "global_size": [size], "source": text}
    return ("custom_opencl", [source], [target], attrs | {"types": f"float32:{size}"})


def test_buffers_that_are_read_no_more_are_used_again():
    """The last node finds two free buffers, of four and of two numbers, and needs one of two."""
    have("opencl")
    sum_of_two = """__kernel void f(__global const float *x, __global const float *z,
                __global float *y) { y[get_global_id(0)] = x[get_global_id(0)] * z[0]; }"""
    join = {"function": "f", "operator": "f", "global_size": [8], "source": sum_of_two}
    nodes = [
        add_one(0, 1, 4),
        add_one(0, 2, 2),
        ("custom_opencl", [0, 2], [3], join | {"types": "float32:8"}),
        add_one(1, 4, 8, ADD_ONE.replace("get_global_id(0)] + 1", "0] + 1")),
        add_one(3, 5, 2),
        add_one(5, 6, 2),
    ]
    module = load("opencl", [[8], [4], [2], [8], [8], [2], [2]], nodes, outputs=[4, 6])
    x = np.arange(8, dtype=np.float32) + 3
    there, last = tvmrt.nd.empty((8,)), tvmrt.nd.empty((2,))
    module["r"](tvmrt.nd.array(x), there, last)
    np.testing.assert_array_equal(there.numpy(), np.full(8, x[0] + 2))
    np.testing.assert_array_equal(last.numpy(), (x * (x[0] + 1))[:2] + 2)


def test_scalar_of_two_bytes_arrives_as_its_bits():
    """A device without halves reads the same bytes as a number."""
    have("opencl")
    text = """__kernel void f(__global const float *x, __global float *y, ushort a) {
  y[get_global_id(0)] = x[get_global_id(0)] * a;
}"""
    node = add_one(0, 1, 2, text)
    node[3].update(scalar_types="half", scalars=[0x3C00])
    found = run(load("opencl", [[2], [2]], [node]), (2,), "float32", np.float32([1, -2]))
    np.testing.assert_array_equal(found, [0x3C00, -2 * 0x3C00])


def test_device_takes_strides_without_gaps_only():
    have("opencl")
    module = load("opencl", [[2, 3], [2, 3]], [("reshape", [0], [1], {})])
    x, y = normal(2, 3), np.zeros((2, 3), np.float32)
    call_with_strides(module["r"], x, y)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(TVMError, match=r"tensor 't0' is not compact"):
        call_with_strides(module["r"], normal(3, 2).T, y)


def test_memory_of_others_is_not_the_devices():
    """A run that cannot begin leaves the region fit for the next one."""
    have("opencl")
    module = load("opencl", [[2, 3], [2, 3]], [("reshape", [0], [1], {})])
    x, y = normal(2, 3), np.zeros((2, 3), np.float32)
    with pytest.raises(TVMError, match="a tensor is said to be on the device and is not"):
        call_with_strides(module["r"], x, y, device=OPENCL)
    call_with_strides(module["r"], x, y)
    np.testing.assert_array_equal(y, x)


# ---- ExampleJSON ----


def test_example_takes_strides_without_gaps_only(tmp_path):
    path = tmp_path / "net.examplejson"
    path.write_text("subgraph_0\ninput 0 2 3\nmul 1 inputs: 0 0 shape: 2 3\n")
    function = tvmrt.runtime.load_module(path)["subgraph_0"]
    x, y = normal(2, 3), np.zeros((2, 3), np.float32)
    call_with_strides(function, x, y)
    np.testing.assert_array_equal(y, x * x)
    with pytest.raises(TVMError, match="every tensor lies on the CPU without gaps"):
        call_with_strides(function, normal(3, 2).T, y)
