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
KERNEL = {"function": "f", "operator": "f", "global_size": [2], "source": SOURCE}
KERNEL |= {"types": "float32:2"}


def scaled(kind: str, *scalars: float, parameter: str = "float") -> dict:
    text = f"__global const float *x, __global float *y, {parameter} a"
    source = f"__kernel void f({text}) {{ y[0] = x[0] * a; }}"
    return KERNEL | {"source": source, "scalar_types": kind, "scalars": [*scalars]}


def without(key: str) -> dict:
    return {k: v for k, v in KERNEL.items() if k != key}


DAMAGED = {
    "no source": (without("source"), "the node lacks source, function or global_size"),
    "no function": (without("function"), "the node lacks source, function or global_size"),
    "four sizes": (KERNEL | {"global_size": [1] * 9}, "lacks source, function or global_size"),
    "other local sizes": (KERNEL | {"local_size": [1, 1]}, "local_size has 2 sizes, global_size 1"),
    "another function": (KERNEL | {"function": "g"}, "source of f has no kernel g"),
    "no OpenCL": (KERNEL | {"source": "nonsense!"}, "source of f does not compile"),
    "a scalar too many": (
        KERNEL | {"scalar_types": "float", "scalars": [1.0]},
        "the kernel takes 2 parameters, the node has 3",
    ),
    "a scalar too few": (scaled("float"), "fewer scalars than scalar types"),
    **{
        f"{kind} {number}": (scaled(kind, number), f"scalar 0 of a kernel is .* of type {kind}")
        for kind, number in [("int", 2.0**31), ("int", -1e300), ("uint", -1.0), ("bool", 2.0)]
    },
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_region_is_refused(case):
    attrs, text = DAMAGED[case]
    with pytest.raises((TVMError, ValueError), match=text):
        load("opencl", [[2], [2]], [("custom_opencl", [0], [1], attrs)])


def test_nodes_without_kernels_are_refused():
    with pytest.raises(TVMError, match="the compiler generated no kernel for operator relu"):
        load("opencl", [[2], [2]], [("relu", [0], [1], {})])


def test_a_reshape_to_another_size_is_refused():
    """A damaged library may contain such a reshape: the result would be read past its buffer."""
    with pytest.raises(TVMError, match="reshape n0: operand and result differ in size"):
        load("opencl", [[3], [3, 2]], [("reshape", [0], [1], {})])
    with pytest.raises(TVMError, match="reshape n0 has no operand"):
        load("opencl", [[3], [3]], [("reshape", [-1], [1], {})])


def test_half_arrives_as_its_bits():
    """A device without float16 converts the same bytes to a number."""
    attrs = scaled("half", 0x3C00, parameter="ushort")
    module = load("opencl", [[2], [2]], [("custom_opencl", [0], [1], attrs)])
    assert run(module, (2,), "float32", np.float32([4, 5]))[0] == 4 * 0x3C00


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


TWO = """__kernel void f(__global const float *x, __global float *y, __global float *z) {
  y[get_global_id(0)] = x[get_global_id(0)];
  z[0] = x[0] + x[1];
}"""


def test_kernel_with_two_results():
    attrs = KERNEL | {"source": TWO, "types": "float32:2 float32:1"}
    nodes = [("custom_opencl", [0], [1, 2], attrs)]
    module = load("opencl", [[2], [2], [1]], nodes, outputs=[1, 2])
    x = tvmrt.nd.array(np.float32([4, 5]))
    y, z = tvmrt.nd.empty((2,)), tvmrt.nd.empty((1,))
    module["r"](x, y, z)
    assert [*y.numpy(), *z.numpy()] == [4, 5, 9]


def test_region_without_an_element_runs():
    module = load("opencl", [[0], [0]], [("reshape", [0], [1], {})])
    out = tvmrt.nd.empty((0,))
    module["r"](tvmrt.nd.empty((0,)), out)
    assert out.numpy().size == 0


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
