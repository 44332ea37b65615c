"""Regions that no compiler writes: each is refused with what is wrong, none is computed."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from device_here import have
from written_regions import load

import tvmrt
from tvmrt.error import TVMError

W = np.ones((4, 2, 3, 3), np.float32)
CONV = {"strides": [1, 1], "dilations": [1, 1], "pads_before": [0, 0], "groups": 1}
QW, SCALE = np.ones((4, 2, 3, 3), np.int8), np.float32([0.5])
IMAGE, OUT = [1, 2, 5, 5], [1, 4, 3, 3]
BYTES, BYTES_OUT = (IMAGE, "uint8"), (OUT, "uint8")

ONEDNN = {
    "strides too few": (
        [IMAGE, W, OUT],
        [("conv", [0, 1], [2], CONV | {"strides": [1]})],
        "attribute strides has 1 integers; 2 are expected",
    ),
    "no weights": ([IMAGE, OUT], [("conv", [0, -1], [1], CONV)], "an input is missing"),
    "no input": ([[3], [3]], [("relu", [-1], [1], {})], "the node has not its inputs or outputs"),
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
        "operator add with these operands is none of oneDNN's",
    ),
    "read before computed": (
        [[3], [3], [3], [3]],
        [("relu", [1], [2], {}), ("relu", [0], [1], {}), ("add", [1, 2], [3], {})],
        "reads tensor 1, which has no value there",
    ),
    "a type of others": (
        [([3], "int64"), ([3], "int64")],
        [("relu", [0], [1], {})],
        "oneDNN has no elements of the type",
    ),
    "scales of a product at run time": (
        [BYTES, QW, [1], BYTES_OUT],
        [("qconv", [0, 1, 2], [3], CONV)],
        "scales are no constant floats",
    ),
    "scales for other channels": (
        [BYTES, QW, np.ones(3, np.float32), BYTES_OUT],
        [("qconv", [0, 1, 2], [3], CONV)],
        "3 scales for 4 channels",
    ),
    "no scales": ([BYTES, QW, BYTES_OUT], [("qconv", [0, 1], [2], CONV)], "scales are missing"),
    "weights of other rank": (
        [BYTES, QW.reshape(4, 18), SCALE, BYTES_OUT],
        [("qconv", [0, 1, 2], [3], CONV)],
        "operands and result differ in their axes",
    ),
    "weights around another zero": (
        [BYTES, QW, SCALE, np.int32([7]), BYTES_OUT],
        [("qconv", [0, 1, 2, -1, 3], [4], CONV)],
        "weights have the zero point 0, or 128",
    ),
    "a zero point of another type": (
        [BYTES, QW, SCALE, np.float32([0]), BYTES_OUT],
        [("qconv", [0, 1, 2, -1, 3], [4], CONV)],
        "weights have the zero point 0, or 128",
    ),
}


@pytest.mark.parametrize("case", ONEDNN)
def test_onednn_refuses(case):
    have("dnnl")
    tensors, nodes, text = ONEDNN[case]
    inputs = [i for i, t in enumerate(tensors[:-1]) if not isinstance(t, np.ndarray)]
    computed = {t for _, _, outs, _ in nodes for t in outs}
    with pytest.raises((TVMError, ValueError), match=text):
        load("dnnl", tensors, nodes, [i for i in inputs if i not in computed])


SOURCE = "__kernel void f(__global const float *x, __global float *y) { y[0] = x[0]; }"
SCALED = "__kernel void f(__global const float *x, __global float *y, {} a) {{ y[0] = x[0] * a; }}"
KERNEL = {"function": "f", "operator": "f", "global_size": [2], "source": SOURCE}
KERNEL |= {"types": "float32:2"}


def without(key: str) -> dict:
    return {k: v for k, v in KERNEL.items() if k != key}


OPENCL = {
    "no source": (without("source"), "source, function or global_size are missing"),
    "no function": (without("function"), "source, function or global_size are missing"),
    "four sizes": (KERNEL | {"global_size": [1] * 9}, "global_size are missing"),
    "other local sizes": (KERNEL | {"local_size": [1, 1]}, "local_size has 2 sizes, global_size 1"),
    "no multiple": (KERNEL | {"local_size": [4]}, "global_size is no multiple of local_size"),
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


@pytest.mark.parametrize("case", OPENCL)
def test_opencl_refuses(case):
    have("opencl")
    attrs, text = OPENCL[case]
    with pytest.raises((TVMError, ValueError), match=text):
        load("opencl", [[2], [2]], [("custom_opencl", [0], [1], attrs)])


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ([("reshape", [-1], [1], {})], "a reshape has no operand"),
        ([("relu", [0], [1], {})], "operator relu was not made a kernel"),
        ([], "reads tensor 1, which has no value there"),
    ],
    ids=["reshape", "operator", "nothing"],
)
def test_opencl_refuses_nodes_that_are_no_kernels(nodes, text):
    have("opencl")
    with pytest.raises((TVMError, ValueError), match=text):
        load("opencl", [[2], [2]], nodes)


@pytest.mark.parametrize(
    ("kind", "number"), [("float", 2.5), ("int", -3), ("uint", 7)], ids=["float", "int", "uint"]
)
def test_scalars_arrive_in_their_type(kind, number):
    have("opencl")
    attrs = KERNEL | {"source": SCALED.format(kind), "scalar_types": kind, "scalars": [number]}
    module = load("opencl", [[2], [2]], [("custom_opencl", [0], [1], attrs)])
    x, y = tvmrt.nd.array(np.float32([4, 5])), tvmrt.nd.empty((2,))
    module["r"](x, y)
    assert y.numpy()[0] == 4 * number


def test_tensors_in_memory_of_the_device_go_in_and_come_out():
    have("opencl")
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
    have("opencl")
    done = subprocess.run(
        [sys.executable, "-c", OUTLIVED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "refused:" in done.stdout


def test_regions_take_tensors_only():
    have("opencl")
    module = load("opencl", [[2], [2]], [("custom_opencl", [0], [1], KERNEL)])
    with pytest.raises((TVMError, ValueError), match="is not given as a tensor"):
        module["r"](3, tvmrt.nd.empty((2,)))


TWO = """__kernel void f(__global const float *x, __global float *y, __global float *z) {
  y[get_global_id(0)] = x[get_global_id(0)];
  z[0] = x[0] + x[1];
}"""


def test_kernel_with_two_results_has_the_extents_of_both():
    have("opencl")
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
    have("opencl")
    module = load("opencl", [[0], [0]], [("reshape", [0], [1], {})])
    out = tvmrt.nd.empty((0,))
    module["r"](tvmrt.nd.empty((0,)), out)
    assert out.numpy().size == 0
