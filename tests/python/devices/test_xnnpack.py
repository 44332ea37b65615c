"""The device xnnpack: floats and 8-bit integers against judges, its borders, what it refuses."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from bytes_case import bytes_network
from device_here import have
from dnnl_case import judge, network, normal, region_ops
from sample_devices import run_library
from written_regions import load

import tvmrt
from tvmrt.compiler.devices.xnnpack import Xnnpack
from tvmrt.error import TVMError


@pytest.fixture(autouse=True)
def xnnpack():
    have("xnnpack")


def run(model, feeds, tmp_path, executor="graph"):
    library = tvmrt.compile(model, devices=[Xnnpack()], executor=executor)
    library.export_library(tmp_path / "net.so")
    return library, run_library(tmp_path / "net.so", executor, dict(feeds))


BLOCK = [
    ("Conv", ["x", "w", "b"], "c", {"pads": [1, 1, 0, 2], "strides": [2, 1], "group": 2}),
    ("Clip", ["c", "low", "high"], "d", {}),
    ("GlobalAveragePool", ["d"], "e", {}),
    ("Conv", ["e", "v"], "f", {}),
    ("Sigmoid", ["f"], "g", {}),
    ("Mul", ["d", "g"], "h", {}),
    ("MaxPool", ["h"], "i", {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    ("PRelu", ["i", "slope"], "y", {}),
]
UP = [
    ("ConvTranspose", ["x", "w"], "c", {"strides": [2, 3], "output_padding": [1, 0], "group": 2}),
    ("Pad", ["c", "pads"], "d", {}),
    ("AveragePool", ["d"], "e", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("Mul", ["e", "scale"], "f", {}),
    ("Softmax", ["f"], "y", {"axis": 1}),
]
ROW = [
    ("Conv", ["x", "w", "b"], "c", {"dilations": [2]}),
    ("Max", ["c", "low"], "d", {}),
    ("ReduceMean", ["d"], "e", {"axes": [2], "keepdims": 0}),
    ("Gemm", ["e", "m", "b"], "f", {"alpha": 0.5}),
    ("Softmax", ["f"], "y", {"axis": 1}),
]
NETWORKS = {
    "squeeze and excite": (
        BLOCK,
        (2, 4, 9, 8),
        {
            "w": normal(6, 2, 3, 3),
            "b": normal(6),
            "low": np.float32(-0.5),
            "high": np.float32(2),
            "v": normal(6, 6, 1, 1),
            "slope": normal(6, 1, 1),
        },
    ),
    "transposed": (
        UP,
        (1, 4, 5, 3),
        {
            "w": normal(4, 3, 3, 2),
            "pads": np.array([0, 0, 1, 0, 0, 0, 2, 3]),
            "scale": normal(6, 1, 1),
        },
    ),
    "rows": (
        ROW,
        (3, 4, 20),
        {"w": normal(5, 4, 3), "b": normal(5), "low": np.float32(0.1), "m": normal(5, 5)},
    ),
}


@pytest.mark.parametrize(
    ("case", "executor"), [*((name, "graph") for name in NETWORKS), ("rows", "aot")]
)
def test_networks_are_one_region_and_right(tmp_path, case, executor):
    nodes, shape, weights = NETWORKS[case]
    feeds = {"x": normal(*shape)}
    model = network(nodes, feeds, weights, {"y": "float32"})
    library, (found,) = run(model, feeds, tmp_path, executor)
    assert len(region_ops(library)) == 1
    np.testing.assert_allclose(found, judge(model, feeds)[0], 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("to", "zero", "scales"),
    [
        pytest.param("int8", 0, np.linspace(0.002, 0.01, 6, dtype=np.float32), id="int8-channels"),
        pytest.param("uint8", 120, np.float32(0.004), id="uint8-one-scale"),
    ],
)
def test_bytes_are_one_region_and_right(tmp_path, to, zero, scales):
    model, feeds = bytes_network(to, zero, scales)
    library, (found,) = run(model, feeds, tmp_path)
    (ops,) = region_ops(library)
    assert {"qconv", "qadd", "qavg_pool", "qmatmul"} <= set(ops)
    plain = tvmrt.compile(model)
    plain.export_library(tmp_path / "plain.so")
    (exact,) = run_library(tmp_path / "plain.so", "graph", dict(feeds))
    steps = np.abs(found.astype(int) - exact.astype(int))
    assert np.ptp(exact.astype(int)) > 20, "the network tells nothing"
    assert steps.max() <= 2  # sums and means may be one step off, which the product sums up


def test_tensors_at_the_very_end_of_memory(tmp_path):
    """XNNPACK reads behind tensors: no page follows these."""
    nodes = [("Conv", ["x", "w"], "c", {}), ("Relu", ["c"], "y", {})]
    feeds = {"x": normal(1, 1, 32, 32)}
    model = network(nodes, feeds, {"w": normal(1, 1, 1, 1)}, {"y": "float32"})
    _, (wanted,) = run(model, feeds, tmp_path)
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    executor = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    size, page = feeds["x"].nbytes, mmap.PAGESIZE
    memory = mmap.mmap(-1, 3 * page)
    array = np.frombuffer(memory, np.float32, size // 4, 2 * page - size).reshape(1, 1, 32, 32)
    array[...] = feeds["x"]
    libc = ctypes.CDLL(None, use_errno=True)
    end = ctypes.c_void_p(array.ctypes.data + size)
    assert libc.mprotect(end, page, 0) == 0
    executor.set_input_zero_copy("x", tvmrt.nd.from_dlpack(array))
    executor.run()
    np.testing.assert_array_equal(executor.get_output(0).numpy(), wanted)
    assert libc.mprotect(end, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


COUNTED = {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1}
REFUSED = {
    "three spatial axes": ("Conv", {}, (1, 2, 3, 4, 5), (3, 2, 1, 1, 1), "at most 4 axes"),
    "batches of matrices": ("MatMul", {}, (2, 3, 4), (4, 5), "without batches"),
    "another operator": ("Tanh", {}, (1, 2, 3, 4), None, "no tanh here"),
    "softmax of rows": ("Softmax", {"axis": 3}, (1, 2, 3, 4), None, "softmax is that of channels"),
    "counted padding": ("AveragePool", COUNTED, (1, 2, 3, 4), None, "do not count padding"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_nodes_say_why_and_stay_right(tmp_path, case):
    op, attrs, shape, weights, reason = REFUSED[case]
    feeds = {"x": normal(*shape)}
    held = {"w": normal(*weights)} if weights else {}
    model = network([(op, ["x", *held], "y", attrs)], feeds, held, {"y": "float32"})
    library, (found,) = run(model, feeds, tmp_path)
    reasons = [row.reason for row in library.summary.nodes]
    assert any(reason in text for text in reasons), reasons
    np.testing.assert_allclose(found, judge(model, feeds)[0], 1e-4, 1e-5)


W = np.ones((4, 2, 3, 3), np.float32)
CONV = {"strides": [1, 1], "dilations": [1, 1], "pads_before": [0, 0], "groups": 1}
IMAGE, OUT = [1, 2, 5, 5], [1, 4, 3, 3]
DAMAGED = {
    "strides too few": ([IMAGE, W, OUT], "conv", CONV | {"strides": [1]}, "strides has 1 numbers"),
    "a stride of nothing": ([IMAGE, W, OUT], "conv", CONV | {"strides": [1, 0]}, "out of range"),
    "other channels": ([[1, 3, 5, 5], W, OUT], "conv", CONV, "weights of other channels"),
    "a smaller result": ([IMAGE, W, [1, 4, 2, 3]], "conv", CONV, "do not fit the result"),
    "another batch": ([IMAGE, W, [2, 4, 3, 3]], "conv", CONV, "different batches"),
    "groups": ([IMAGE, W, OUT], "conv", CONV | {"groups": 3}, "do not fall into groups"),
    "no operand": ([[3], [3]], "add", {}, "operand 1 is missing"),
    "a sum of others": ([[2, 3], [2, 4], [2, 4]], "add", {}, "does not broadcast"),
    "a larger sum": ([[1, 3], [1, 3], [2, 3]], "add", {}, "no operand has the result's extents"),
    "another product": ([[4, 3], np.ones((3, 2), np.float32), [2, 2]], "matmul", {}, "do not fit"),
    "another shape": ([[4], [5]], "relu", {}, "different extents"),
    "more elements": ([[4], [5]], "reshape", {}, "another number of elements"),
    "another type": ([([3], "int64"), ([3], "int64")], "relu", {}, "neither of float32"),
    "no scales": ([(IMAGE, "int8"), W.astype(np.int8), (OUT, "int8")], "qconv", CONV, "operand 2"),
    "other scales": (
        [(IMAGE, "int8"), W.astype(np.int8), np.ones(3, np.float32), (OUT, "int8")],
        "qconv",
        CONV,
        "for 3 channels of 4",
    ),
    "a padding below none": (
        [[3, 2], [2, 2]],
        "pad",
        {"before": [-1, 0], "after": [0, 0]},
        "before is out of range",
    ),
    "no zero point": (
        [
            ([2, 3], "int8"),
            np.ones((3, 0), np.int8),
            np.ones(1, np.float32),
            np.ones(1, np.int32),
            np.ones(0, np.int32),
            ([2, 0], "int8"),
        ],
        "qmatmul",
        {},
        "for 0 channels of 0",
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_regions_that_no_compiler_writes_are_refused(case):
    tensors, op, attrs, text = DAMAGED[case]
    last = len(tensors) - 1
    inputs = [i for i, t in enumerate(tensors[:-1]) if not isinstance(t, np.ndarray)]
    with pytest.raises((TVMError, ValueError), match=text):
        load("xnnpack", tensors, [(op, list(range(last)), [last], attrs)], inputs)
