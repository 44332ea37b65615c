"""Test the device opencl: its kernels against onnxruntime, the cache of programs, its memory."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import onnx
import pytest
from any_size_case import check_left_to_the_cpu
from device_here import have
from onnx import helper, numpy_helper
from sample_devices import run_library

import tvmrt
from tvmrt.error import TVMError

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def device():
    have("opencl")


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def network(nodes, feeds, weights, outputs) -> onnx.ModelProto:
    """Make a network. ``nodes``: (operator, inputs, output, attributes)."""
    made = [
        helper.make_node(op, ins, [out], name=f"n{i}", **attrs)
        for i, (op, ins, out, attrs) in enumerate(nodes)
    ]
    kind = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info(k, kind(v.dtype), v.shape) for k, v in feeds.items()],
        [helper.make_tensor_value_info(k, kind(np.dtype(t)), None) for k, t in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(model: onnx.ModelProto, feeds, tmp_path, executor="graph"):
    """Check the results; return the compiled library."""
    library = tvmrt.compile(model, devices=["opencl"], executor=executor)
    library.export_library(tmp_path / "net.so")
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = run_library(tmp_path / "net.so", executor, dict(feeds))
    for array, golden in zip(found, session.run(None, dict(feeds)), strict=True):
        assert array.dtype == golden.dtype
        np.testing.assert_allclose(array, golden, 1e-4, 1e-5)
    return library


CASES = {
    "conv-1d": ((1, 4, 9), ("Conv", {"pads": [1, 1]}), [(6, 4, 3)]),
    "conv-3d": ((1, 2, 4, 5, 6), ("Conv", {}), [(3, 2, 2, 2, 2)]),
    "conv-depthwise": (
        (1, 4, 7, 5),
        ("Conv", {"group": 4, "strides": [2, 1], "pads": [1, 1, 1, 1]}),
        [(8, 1, 3, 3), (8,)],
    ),
    "conv-dilated-groups": (
        (2, 4, 9, 8),
        ("Conv", {"group": 2, "dilations": [2, 1]}),
        [(6, 2, 3, 3)],
    ),
    "matmul-broadcast": ((5, 1, 3, 4), ("MatMul", {}), [(2, 4, 6)]),
    "matmul-bias": ((3, 4), ("Gemm", {}), [(4, 6), (6,)]),
}


@pytest.mark.parametrize(
    ("case", "executor"), [*((case, "graph") for case in CASES), ("conv-depthwise", "aot")]
)
def test_layers(tmp_path, case, executor):
    shape, (op, attrs), shapes = CASES[case]
    feeds, weights = {"x": normal(*shape)}, {f"w{i}": normal(*s) for i, s in enumerate(shapes)}
    model = network([(op, ["x", *weights], "y", attrs)], feeds, weights, {"y": "f"})
    library = check(model, feeds, tmp_path, executor)
    assert {row.device for row in library.summary.nodes} == {"opencl"}


FLOATS = (
    "Abs Acos Asin Atan Ceil Cos Cosh Elu Erf Exp Floor HardSigmoid HardSwish Identity IsNaN Neg "
    "LeakyRelu Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus Tan Tanh"
).split()
PAIRS = "Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul PRelu Sub".split()
INTEGERS = "Add Sub Mul Max Min Less Equal Greater".split()


def test_pointwise_operators(tmp_path):
    """Pairs have operands of different extents; integers, comparisons and casts change types."""
    feeds = {"x": np.clip(normal(3, 1, 5), -0.99, 0.99), "p": normal(3, 4, 5)}
    feeds["i"] = RNG.integers(-1000, 1000, (4, 5)).astype(np.int32)
    bools = {"IsNaN", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
    weights = {"s": normal(4, 1), "j": np.int32([[7], [-9], [0], [900]])}
    kinds = ((FLOATS, "x", []), (PAIRS, "p", ["s"]), (INTEGERS, "i", ["j"]))
    made = [(op, [a, *b], f"{op}_{a}", {}) for ops, a, b in kinds for op in ops]
    types = {"x": "f4", "p": "f4", "i": "i4"}
    outputs = {out: "?" if op in bools else types[ins[0]] for op, ins, out, _ in made}
    made += [
        ("Where", ["Less_p", "p", "x"], "w", {}),
        ("And", ["Less_p", "Equal_p"], "a", {}),
        ("Cast", ["i"], "f", {"to": onnx.TensorProto.FLOAT}),
        ("Cast", ["p"], "b", {"to": onnx.TensorProto.BOOL}),
    ]
    outputs |= {"w": "f4", "a": "?", "f": "f4", "b": "?"}
    library = check(network(made, feeds, weights, outputs), feeds, tmp_path)
    assert "cpu" not in {row.device for row in library.summary.nodes}


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_other_operators_stay_on_the_cpu_and_tensors_between_regions_on_the_device(
    tmp_path, executor
):
    """CumSum runs on the CPU; next to it a tensor passes from one region to the next and needs no
    memory in the host's arena."""
    feeds = {"x": normal(1, 8, 16, 16)}
    nodes = [
        ("Conv", ["x", "w"], "a", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["a"], "stays", {}),
        ("Sigmoid", ["a"], "goes", {}),
        ("CumSum", ["goes", "axis"], "back", {}),
        ("Mul", ["stays", "back"], "m", {}),
        ("Reshape", ["m", "flat"], "y", {}),
    ]
    weights = {"w": normal(8, 8, 3, 3), "axis": np.int64(2), "flat": np.array([-1])}
    library = check(network(nodes, feeds, weights, {"y": "f"}), feeds, tmp_path, executor)
    summary = library.summary
    (left,) = [row for row in summary.nodes if row.device == "cpu"]
    assert "there is no OpenCL kernel for cumulative_sum of float32" in left.reason
    nbytes = feeds["x"].nbytes
    assert [row.nbytes for row in summary.borders if row.stays_in == "opencl"] == [nbytes]
    assert {pool.device: pool.used_bytes for pool in summary.pools}["opencl"] == nbytes


def test_nodes_of_open_extents_stay_on_the_cpu():
    check_left_to_the_cpu("opencl", "is known only at run time")


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


@pytest.fixture
def small(tmp_path):
    feeds = {"x": normal(2, 3)}
    check(network([("Exp", ["x"], "y", {})], feeds, {}, {"y": "f"}), feeds, tmp_path)
    return tmp_path / "net.so"


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"OCL_ICD_VENDORS": "/no/such/folder"}, "no OpenCL device was found; install a driver"),
        ({"TVMRT_OPENCL_DEVICE": "no such one"}, "no OpenCL device name contains 'no such one'"),
    ],
    ids=["no-driver", "another-name"],
)
def test_missing_device_is_an_error(small, variables, reason):
    done = run_in_process(small, **variables)
    assert done.returncode == 1
    assert reason in done.stderr


def test_inputs_and_outputs_may_be_in_device_memory(small):
    """Also if the output shares the memory of the input."""
    net = tvmrt.contrib.graph_executor.GraphModule(
        tvmrt.runtime.load_module(small)["default"](tvmrt.cpu(0))
    )
    x = normal(2, 3)
    there = tvmrt.nd.array(x, device=tvmrt.opencl(0))
    copy = tvmrt.nd.empty((2, 3), "float32", device=tvmrt.opencl(0))
    net.set_input_zero_copy("x", there)
    net.set_output_zero_copy(0, there)
    net.run()
    tvmrt.opencl(0).sync()
    there.copyto(copy)
    np.testing.assert_allclose(copy.numpy(), np.exp(x), 1e-5)


def test_memory_is_refused_where_there_is_no_device():
    with pytest.raises((TVMError, ValueError), match="no OpenCL device 1"):
        tvmrt.nd.empty((2,), device=tvmrt.opencl(1))
