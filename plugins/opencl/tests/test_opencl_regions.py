"""Test hand-written regions of the device opencl that compilers rarely write: accepted ones compute
correct results, the others are refused with the reason."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from device_here import have
from region_programs import call_with_strides, load, run

import tvmrt
from tvmrt.error import TVMError


@pytest.fixture(autouse=True)
def opencl():
    have("opencl")


SOURCE = "__kernel void f(__global const float *x, __global float *y) { y[0] = x[0]; }"
SCALED = "__kernel void f(__global const float *x, __global float *y, {} a) {{ y[0] = x[0] * a; }}"
KERNEL = {"function": "f", "operator": "f", "global_size": [2], "source": SOURCE}
KERNEL |= {"types": "float32:2"}


def without(key: str) -> dict:
    return {k: v for k, v in KERNEL.items() if k != key}


DAMAGED = {
    "no source": (without("source"), "the node lacks source, function or global_size"),
    "no function": (without("function"), "the node lacks source, function or global_size"),
    "four sizes": (KERNEL | {"global_size": [1] * 9}, "lacks source, function or global_size"),
    "other local sizes": (KERNEL | {"local_size": [1, 1]}, "local_size has 2 sizes, global_size 1"),
    "no multiple": (KERNEL | {"local_size": [4]}, "global_size is not a multiple of local_size"),
    "another function": (KERNEL | {"function": "g"}, "source of f has no kernel g"),
    "no OpenCL": (KERNEL | {"source": "nonsense!"}, "source of f does not compile"),
    "other extents": (KERNEL | {"types": "float32:3"}, "was made for other extents than tensor t1"),
    "an axis more": (
        KERNEL | {"types": "float32:2x4"},
        "was made for other extents than tensor t1",
    ),
    "a scalar too many": (
        KERNEL | {"scalar_types": "float", "scalars": [1.0]},
        "the kernel takes 2 parameters, the node has 3",
    ),
    "a scalar too few": (
        KERNEL | {"scalar_types": "float", "source": SCALED.format("float")},
        "fewer scalars than scalar types",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_region_is_refused(case):
    attrs, text = DAMAGED[case]
    with pytest.raises((TVMError, ValueError), match=text):
        load("opencl", [[2], [2]], [("custom_opencl", [0], [1], attrs)])


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([("reshape", [-1], [1], {})], "a reshape has no operand"),
        ([("relu", [0], [1], {})], "no kernel for operator relu"),
        ([], "reads tensor 1, which has no value there"),
    ],
    ids=["reshape", "operator", "nothing"],
)
def test_nodes_without_kernels_are_refused(nodes, text):
    with pytest.raises((TVMError, ValueError), match=text):
        load("opencl", [[2], [2]], nodes)


@pytest.mark.parametrize(
    ("kind", "number"), [("float", 2.5), ("int", -3), ("uint", 7)], ids=["float", "int", "uint"]
)
def test_scalars_arrive_in_their_type(kind, number):
    attrs = KERNEL | {"source": SCALED.format(kind), "scalar_types": kind, "scalars": [number]}
    module = load("opencl", [[2], [2]], [("custom_opencl", [0], [1], attrs)])
    x, y = tvmrt.nd.array(np.float32([4, 5])), tvmrt.nd.empty((2,))
    module["r"](x, y)
    assert y.numpy()[0] == 4 * number


def test_tensors_in_memory_of_the_device_go_in_and_come_out():
    module = load("opencl", [[2], [2]], [("custom_opencl", [0], [1], KERNEL)])
    there = tvmrt.nd.array(np.float32([4, 5]), device=tvmrt.opencl(0))
    out = tvmrt.nd.empty((2,), device=tvmrt.opencl(0))
    module["r"](there, out)
    assert out.numpy()[0] == 4


OUTLIVED = """
import numpy as np, tvmrt
find = tvmrt.get_global_func("tvmrt.device.find")
assert find("opencl")
kept = tvmrt.nd.array(np.ones(3, "float32"), device=tvmrt.opencl(0))
tvmrt.get_global_func("tvmrt.device.unregister")("opencl")
try:
    kept.numpy()
except (tvmrt.TVMError, ValueError) as error:
    print("refused:", error)
assert find("opencl")
again = tvmrt.nd.array(np.ones(3, "float32"), device=tvmrt.opencl(0))
assert again.numpy().sum() == 3
"""


def test_tensor_that_outlives_its_device_is_refused():
    done = subprocess.run(
        [sys.executable, "-c", OUTLIVED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout


def test_regions_take_tensors_only():
    module = load("opencl", [[2], [2]], [("custom_opencl", [0], [1], KERNEL)])
    with pytest.raises((TVMError, ValueError), match="is not given as a tensor"):
        module["r"](3, tvmrt.nd.empty((2,)))


TWO = """__kernel void f(__global const float *x, __global float *y, __global float *z) {
  y[get_global_id(0)] = x[get_global_id(0)];
  z[0] = x[0] + x[1];
}"""


def test_kernel_with_two_results_has_the_extents_of_both():
    attrs = KERNEL | {"source": TWO, "types": "float32:2 float32:1"}
    nodes = [("custom_opencl", [0], [1, 2], attrs)]
    module = load("opencl", [[2], [2], [1]], nodes, outputs=[1, 2])
    x = tvmrt.nd.array(np.float32([4, 5]))
    y, z = tvmrt.nd.empty((2,)), tvmrt.nd.empty((1,))
    module["r"](x, y, z)
    assert [*y.numpy(), *z.numpy()] == [4, 5, 9]
    attrs = attrs | {"types": "float32:2 float32:3"}
    with pytest.raises((TVMError, ValueError), match="other extents than tensor t2"):
        load("opencl", [[2], [2], [1]], [("custom_opencl", [0], [1, 2], attrs)], outputs=[1, 2])


def test_region_without_an_element_runs():
    module = load("opencl", [[0], [0]], [("reshape", [0], [1], {})])
    out = tvmrt.nd.empty((0,))
    module["r"](tvmrt.nd.empty((0,)), out)
    assert out.numpy().size == 0


ADD_ONE = """__kernel void f(__global const float *x, __global float *y) {
  y[get_global_id(0)] = x[get_global_id(0)] + 1;
}"""


def add_one(source: int, target: int, size: int, text: str = ADD_ONE):
    attrs = {"function": "f", "operator": "f", "global_size": [size], "source": text}
    return ("custom_opencl", [source], [target], attrs | {"types": f"float32:{size}"})


def test_dead_buffers_are_reused():
    """The last node finds two free buffers, of four and of two elements, and needs one of two."""
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


def test_float16_scalar_is_passed_as_bits():
    """A device without float16 converts the same bytes to a number."""
    text = """__kernel void f(__global const float *x, __global float *y, ushort a) {
  y[get_global_id(0)] = x[get_global_id(0)] * a;
}"""
    node = add_one(0, 1, 2, text)
    node[3].update(scalar_types="half", scalars=[0x3C00])
    found = run(load("opencl", [[2], [2]], [node]), (2,), "float32", np.float32([1, -2]))
    np.testing.assert_array_equal(found, [0x3C00, -2 * 0x3C00])


def test_device_takes_strides_without_gaps_only():
    module = load("opencl", [[2, 3], [2, 3]], [("reshape", [0], [1], {})])
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    call_with_strides(module["r"], x, y)
    np.testing.assert_array_equal(y, x)
    with pytest.raises(TVMError, match=r"tensor 't0' is not compact"):
        call_with_strides(module["r"], np.ones((3, 2), np.float32).T, y)


def test_memory_of_others_is_not_the_devices():
    """A run that cannot start leaves the region usable for the next one."""
    module = load("opencl", [[2, 3], [2, 3]], [("reshape", [0], [1], {})])
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    with pytest.raises(
        TVMError, match="a tensor is marked as on the device but is not in its memory"
    ):
        call_with_strides(module["r"], x, y, device=4)  # kDLOpenCL
    call_with_strides(module["r"], x, y)
    np.testing.assert_array_equal(y, x)
