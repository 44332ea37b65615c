"""Test the device opencl: views, fusion, every kernel against onnxruntime, cache, memory,
profile."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sample_devices import run_library

import tvmrt
from tvmrt.error import TVMError

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(3)


@pytest.fixture(scope="module", autouse=True)
def device():
    try:
        found = tvmrt.get_global_func("tvmrt.device.find")("opencl")
    except (TVMError, OSError) as problem:
        pytest.skip(f"the device opencl cannot run here: {problem}")
    if not found:
        pytest.skip("the device opencl is not built: OpenCL's headers or loader are missing")


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def network(nodes, feeds, weights, outputs) -> onnx.ModelProto:
    """Make a network. ``nodes``: (operator, inputs, output or outputs, attributes)."""
    made = [
        helper.make_node(op, ins, [out] if isinstance(out, str) else out, name=f"n{i}", **attrs)
        for i, (op, ins, out, attrs) in enumerate(nodes)
    ]
    value, kinds = helper.make_tensor_value_info, {"float32": TensorProto.FLOAT}
    kinds |= {"int64": TensorProto.INT64, "bool": TensorProto.BOOL, "int32": TensorProto.INT32}
    graph = helper.make_graph(
        made,
        "g",
        [value(k, kinds[v.dtype.name], v.shape) for k, v in feeds.items()],
        [value(name, kinds[dtype], None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def judge(model: onnx.ModelProto, feeds) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def compiled(model, tmp_path, executor="graph", **options):
    library = tvmrt.compile(model, devices=["opencl"], executor=executor, **options)
    library.export_library(tmp_path / "net.so")
    return library


def check(model, feeds, tmp_path, executor="graph"):
    """Check that everything is in one region and the results are correct."""
    library = compiled(model, tmp_path, executor)
    found = run_library(tmp_path / "net.so", executor, dict(feeds))
    for array, golden in zip(found, judge(model, feeds)):
        np.testing.assert_allclose(array, golden, 1e-4, 1e-5)
    (region,) = library.partition.regions
    return region


CASES = {
    "conv-1d": ((1, 4, 9), [("Conv", ["x", "w"], "y", {"pads": [1, 1]})], {"w": (6, 4, 3)}),
    "conv-3d": ((1, 2, 4, 5, 6), [("Conv", ["x", "w"], "y", {})], {"w": (3, 2, 2, 2, 2)}),
    "conv-depthwise": (
        (1, 4, 7, 5),
        [("Conv", ["x", "w", "b"], "y", {"group": 4, "strides": [2, 1], "pads": [1, 1, 1, 1]})],
        {"w": (8, 1, 3, 3), "b": (8,)},
    ),
    "conv-dilated-groups": (
        (2, 4, 9, 8),
        [("Conv", ["x", "w"], "y", {"group": 2, "dilations": [2, 1]})],
        {"w": (6, 2, 3, 3)},
    ),
    "conv-transpose": (
        (1, 4, 5, 4),
        [("ConvTranspose", ["x", "w", "b"], "y", {"group": 2, "strides": [2, 3], "pads": [1] * 4})],
        {"w": (4, 3, 3, 4), "b": (6,)},
    ),
    "matmul-of-transposed-batches": (
        (2, 3, 4),
        [("Transpose", ["x"], "t", {"perm": [0, 2, 1]}), ("MatMul", ["x", "t"], "y", {})],
        {},
    ),
    "matmul-broadcast": ((5, 1, 3, 4), [("MatMul", ["x", "w"], "y", {})], {"w": (2, 4, 6)}),
    "average-pool-counting-pads": (
        (1, 2, 7, 7),
        [
            (
                "AveragePool",
                ["x"],
                "y",
                {"kernel_shape": [3, 3], "pads": [1] * 4, "count_include_pad": 1},
            )
        ],
        {},
    ),
    "reduce-first-axis": ((4, 3, 5), [("ReduceSumSquare", ["x"], "y", {"axes": [0, 2]})], {}),
    "softmax-middle-axis": ((2, 5, 3), [("Softmax", ["x"], "y", {"axis": 1})], {}),
    "layer-norm-of-a-transpose": (
        (4, 3),
        [
            ("Transpose", ["x"], "t", {}),
            ("LayerNormalization", ["t", "s", "b"], "y", {}),
        ],
        {"s": (4,), "b": (4,)},
    ),
    "pad-reflect": (
        (2, 5),
        [("Pad", ["x", "pads"], "y", {"mode": "reflect"})],
        {"pads": np.array([1, 3, 0, 2])},
    ),
    "pad-edge": (
        (2, 5),
        [("Pad", ["x", "pads"], "y", {"mode": "edge"})],
        {"pads": np.array([0, 2, 1, 1])},
    ),
    "resize-linear": (
        (1, 2, 4, 5),
        [("Resize", ["x", "", "scales"], "y", {"mode": "linear"})],
        {"scales": np.array([1, 1, 2, 1.5], np.float32)},
    ),
    "slice-backwards-then-reshape": (
        (3, 4),
        [
            ("Slice", ["x", "from", "to", "axes", "steps"], "s", {}),
            ("Reshape", ["s", "shape"], "r", {}),
            ("Neg", ["r"], "y", {}),
        ],
        {
            "from": np.array([3]),
            "to": np.array([-99]),
            "axes": np.array([1]),
            "steps": np.array([-1]),
            "shape": np.array([12]),
        },
    ),
    "concat-of-views": (
        (2, 6),
        [("Split", ["x"], ["a", "b"], {"axis": 1}), ("Concat", ["b", "a"], "y", {"axis": 0})],
        {},
    ),
    "output-is-a-view": ((2, 3), [("Exp", ["x"], "e", {}), ("Transpose", ["e"], "y", {})], {}),
}


@pytest.mark.parametrize(
    ("case", "executor"), [*((case, "graph") for case in CASES), ("conv-depthwise", "aot")]
)
def test_kernels(tmp_path, case, executor):
    shape, nodes, weights = CASES[case]
    feeds = {"x": normal(*shape)}
    weights = {k: v if isinstance(v, np.ndarray) else normal(*v) for k, v in weights.items()}
    check(network(nodes, feeds, weights, {"y": "float32"}), feeds, tmp_path, executor)


def test_extreme_and_comparison_have_their_own_types(tmp_path):
    feeds = {"x": normal(3, 7)}
    nodes = [
        ("ArgMax", ["x"], "i", {"axis": 1, "keepdims": 0}),
        ("Greater", ["x", "zero"], "g", {}),
        ("Where", ["g", "x", "zero"], "y", {}),
    ]
    outputs = {"i": "int64", "g": "bool", "y": "float32"}
    model = network(nodes, feeds, {"zero": np.float32(0)}, outputs)
    compiled(model, tmp_path)
    found = run_library(tmp_path / "net.so", "graph", feeds)
    for array, golden in zip(found, judge(model, feeds)):
        np.testing.assert_array_equal(array, golden)


def test_pointwise_nodes_become_one_kernel_and_views_none(tmp_path):
    feeds = {"x": normal(4, 6)}
    nodes = [
        ("Transpose", ["x"], "t", {}),
        ("Mul", ["t", "s"], "a", {}),
        ("Tanh", ["a"], "b", {}),
        ("Add", ["b", "t"], "c", {}),
        ("Reshape", ["c", "shape"], "y", {}),
    ]
    weights = {"s": normal(6, 1), "shape": np.array([3, 8])}
    region = check(network(nodes, feeds, weights, {"y": "float32"}), feeds, tmp_path)
    assert [n.op for n in region.nodes] == ["custom_opencl", "reshape"]


RUN = """
import sys, numpy as np, tvmrt
from tvmrt.contrib.graph_executor import GraphModule
net = GraphModule(tvmrt.runtime.load_module(sys.argv[1])["default"](tvmrt.cpu(0)))
net.set_input("x", np.ones((2, 3), np.float32))
net.run()
print(net.get_output(0).numpy().sum())
"""


def run_in_process(path, **environment) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", RUN, str(path)]
    variables = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=variables)


def small(tmp_path):
    feeds = {"x": normal(2, 3)}
    compiled(network([("Exp", ["x"], "y", {})], feeds, {}, {"y": "float32"}), tmp_path)
    return tmp_path / "net.so"


def test_programs_are_cached_on_disk_by_content(tmp_path):
    path, cache = small(tmp_path), tmp_path / "cache"
    first = run_in_process(path, TVMRT_OPENCL_CACHE=str(cache))
    assert first.returncode == 0, first.stderr
    (kept,) = cache.glob("*.clbin")
    written = kept.stat().st_mtime_ns
    second = run_in_process(path, TVMRT_OPENCL_CACHE=str(cache))
    assert second.stdout == first.stdout
    assert kept.stat().st_mtime_ns == written
    whole = kept.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], whole[:100] + b"?" + whole[101:]):
        kept.write_bytes(damaged)
        again = run_in_process(path, TVMRT_OPENCL_CACHE=str(cache))
        assert again.stdout == first.stdout
        assert again.returncode == 0


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"OCL_ICD_VENDORS": "/no/such/folder"}, "no OpenCL device was found; install a driver"),
        ({"TVMRT_OPENCL_DEVICE": "no such one"}, "no OpenCL device name contains 'no such one'"),
    ],
    ids=["no-driver", "another-name"],
)
def test_missing_device_is_an_error(tmp_path, variables, reason):
    done = run_in_process(small(tmp_path), **variables)
    assert done.returncode == 1
    assert reason in done.stderr


def test_tensors_in_memory_of_the_device():
    x = normal(3, 4)
    there = tvmrt.nd.array(x, device=tvmrt.opencl(0))
    copy = tvmrt.nd.empty((3, 4), "float32", device=tvmrt.opencl(0))
    there.copyto(copy)
    np.testing.assert_array_equal(copy.numpy(), x)


def test_kernels_are_profiled_on_request(tmp_path):
    feeds = {"x": normal(1, 2, 6, 6)}
    model = network(
        [("Conv", ["x", "w"], "c", {}), ("MaxPool", ["c"], "y", {"kernel_shape": [2, 2]})],
        feeds,
        {"w": normal(3, 2, 3, 3)},
        {"y": "float32"},
    )
    compiled(model, tmp_path, device_options={"opencl": {"profile": 1}})
    from tvmrt.contrib.graph_executor import GraphModule

    net = GraphModule(tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0)))
    net.set_input("x", feeds["x"])
    for _ in range(3):
        net.run()
    text = str(tvmrt.get_global_func("device.opencl.profile")())
    rows = {row[2]: row for row in (line.split("\t") for line in text.splitlines())}
    assert {"conv", "max_pool"} <= set(rows)
    assert all(int(row[3]) == 3 and int(row[4]) > 0 for row in rows.values())


def test_kernels_refuse_other_extents(tmp_path):
    module = tvmrt.runtime.load_module(small(tmp_path))
    reshape = tvmrt.get_global_func("tvmrt.device.reshape")
    shape = tvmrt.runtime.ShapeTuple((4, 3))
    with pytest.raises(
        ValueError, match=r"\(custom_opencl\) are inconsistent or unknown; .* compile the network"
    ):
        reshape(module, "tvmgen_default_opencl_main_0", 0, shape, 1, shape)


def _load_region(shapes: list[list[int]], node: dict) -> None:
    """Load a library's region of one node, whose last tensor is the result."""
    tensors = [
        {"name": f"t{i}", "dtype": "float32", "shape": shape} for i, shape in enumerate(shapes)
    ]
    last = len(shapes) - 1
    node = {"name": "n", "inputs": list(range(last)), "outputs": [last], **node}
    region = {"symbol": "r", "tensors": tensors, "nodes": [node], "inputs": [0], "outputs": [last]}
    head = {"format": "tvmrt-regions", "version": 1, "device": "opencl", "regions": [region]}
    tvmrt.get_global_func("tvmrt.device.load_regions")(json.dumps(head), bytearray())


def test_a_reshape_to_another_size_is_refused():
    """A damaged library may contain such a reshape: the result would be read past its buffer."""
    with pytest.raises(TVMError, match="reshape n: operand and result differ in size"):
        _load_region([[3], [3, 2]], {"op": "reshape", "attrs": {}})


@pytest.mark.parametrize(
    ("kind", "number"), [("int", 2.0**31), ("int", -1e300), ("uint", -1.0), ("bool", 2.0)]
)
def test_scalar_out_of_range_is_refused(kind, number):
    source = "__kernel void f(__global const float *x, __global float *y, int a) { }"
    attrs = {"function": "f", "operator": "f", "global_size": [1], "source": source}
    attrs |= {"scalars": [number], "scalar_types": kind, "types": "float32:2"}
    with pytest.raises(TVMError, match=f"scalar 0 of a kernel is .*, which is not of type {kind}"):
        _load_region([[2], [2]], {"op": "custom_opencl", "attrs": attrs})


def test_memory_is_refused_where_there_is_no_device():
    with pytest.raises((TVMError, ValueError), match="no OpenCL device 1"):
        tvmrt.nd.empty((2,), device=tvmrt.opencl(1))


def test_waiting_for_the_device_ends():
    tvmrt.opencl(0).sync()


def test_programs_are_cached_per_user(tmp_path):
    path = small(tmp_path)
    done = run_in_process(path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "cache/tvmrt/opencl").glob("*.clbin"))) == 1


def test_programs_need_no_cache(tmp_path):
    path = small(tmp_path)
    folder = tmp_path / "file"
    folder.write_text("no folder")
    done = run_in_process(path, TVMRT_OPENCL_CACHE=str(folder))
    assert done.returncode == 0, done.stderr


def test_programs_run_without_a_home_directory(tmp_path):
    path = small(tmp_path)
    before = run_in_process(path, TVMRT_OPENCL_CACHE=str(tmp_path / "cache"))
    done = run_in_process(path, HOME="", XDG_CACHE_HOME="")
    assert done.returncode == 0, done.stderr
    assert done.stdout == before.stdout


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_tensors_between_regions_stay_in_device_memory(tmp_path, executor):
    """CumSum runs on the CPU; next to it a tensor passes from one region to the next and needs no
    memory in the host's arena."""
    feeds = {"x": normal(1, 8, 16, 16)}
    nodes = [
        ("Conv", ["x", "w"], "a", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["a"], "stays", {}),
        ("Sigmoid", ["a"], "goes", {}),
        ("CumSum", ["goes", "axis"], "back", {}),
        ("Mul", ["stays", "back"], "y", {}),
    ]
    weights = {"w": normal(8, 8, 3, 3), "axis": np.int64(2)}
    model = network(nodes, feeds, weights, {"y": "float32"})
    library = compiled(model, tmp_path, executor)
    summary = library.summary
    nbytes = feeds["x"].nbytes
    assert [row.nbytes for row in summary.borders if row.stays_in == "opencl"] == [nbytes]
    assert [row.nbytes for row in summary.borders if not row.stays_in] == [nbytes] * 4
    assert {pool.device: pool.used_bytes for pool in summary.pools}["opencl"] == nbytes
    (golden,) = judge(model, feeds)
    (found,) = run_library(tmp_path / "net.so", executor, feeds)
    np.testing.assert_allclose(found, golden, 1e-4, 1e-4)


def test_inputs_and_outputs_may_be_in_device_memory(tmp_path):
    feeds = {"x": normal(4, 16)}
    model = network([("Tanh", ["x"], "y", {})], feeds, {}, {"y": "float32"})
    compiled(model, tmp_path)
    module = tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0))
    net = tvmrt.contrib.graph_executor.GraphModule(module)
    y = tvmrt.nd.empty((4, 16), device=tvmrt.opencl(0))
    net.set_input_zero_copy("x", tvmrt.nd.array(feeds["x"], device=tvmrt.opencl(0)))
    net.set_output_zero_copy(0, y)
    net.run()
    np.testing.assert_allclose(y.numpy(), np.tanh(feeds["x"]), 1e-5, 1e-6)
