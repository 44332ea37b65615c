"""Half-precision networks: float16 inputs and outputs, float32 inside."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx_graph import model

import tvmrt
from tvmrt.libinfo import find_include_path

F16 = np.float16


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_float16_network_agrees_with_onnxruntime(tmp_path, executor):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, 8)).astype(F16)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Tanh", ["m"], ["t"]),
        helper.make_node("Cast", ["t"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Exp", ["f"], ["e"]),
        helper.make_node("Cast", ["e"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Add", ["h", "t"], ["y"]),
    ]
    weights = {"w": rng.standard_normal((8, 3)).astype(F16)}
    network = model(nodes, {"x": x}, ["y", "e"], weights)
    network.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    network.graph.output[1].type.tensor_type.elem_type = TensorProto.FLOAT
    tvmrt.compile(network, executor=executor).export_library(tmp_path / "net.so")
    factory = tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0))
    module = (
        tvmrt.contrib.graph_executor.GraphModule
        if executor == "graph"
        else tvmrt.runtime.executor.AotModule
    )
    run = module(factory)
    run.set_input(x=x)
    run.run()
    session = onnxruntime.InferenceSession(network.SerializeToString())
    for i, expected in enumerate(session.run(None, {"x": x})):
        found = run.get_output(i).numpy()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=4e-3, atol=4e-3)


def _subgraph(name, nodes, inputs, outputs):
    infos = {
        "f16": lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT16, None),
        "bool": lambda n: helper.make_tensor_value_info(n, TensorProto.BOOL, []),
        "int64": lambda n: helper.make_tensor_value_info(n, TensorProto.INT64, []),
    }
    return helper.make_graph(
        nodes, name, [infos[k](n) for n, k in inputs], [infos[k](n) for n, k in outputs]
    )


def _if_nodes():
    add = _subgraph("then", [helper.make_node("Add", ["h", "one"], ["a"])], [], [("a", "f16")])
    keep = _subgraph("else", [helper.make_node("Identity", ["h"], ["b"])], [], [("b", "f16")])
    return [helper.make_node("If", ["c"], ["r"], then_branch=add, else_branch=keep)]


def _loop_nodes():
    nodes = [
        helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node("Add", ["v", "one"], ["w"]),
        helper.make_node("Identity", ["w"], ["s"]),
    ]
    inputs = [("i", "int64"), ("go", "bool"), ("v", "f16")]
    body = _subgraph("body", nodes, inputs, [("on", "bool"), ("w", "f16"), ("s", "f16")])
    return [helper.make_node("Loop", ["rounds", "", "h"], ["last", "r"], body=body)]


def _scan_nodes():
    nodes = [helper.make_node("Add", ["e", "first"], ["s"])]
    body = _subgraph("body", nodes, [("e", "f16")], [("s", "f16")])
    return [
        helper.make_node("Slice", ["one", "zero", "rounds"], ["first_row"]),
        helper.make_node("Squeeze", ["first_row"], ["first"]),
        helper.make_node("Scan", ["h"], ["r"], body=body, num_scan_inputs=1),
    ]


@pytest.mark.parametrize("nodes", [_if_nodes, _loop_nodes, _scan_nodes])
def test_casts_round_what_comes_out_of_control_flow(tmp_path, nodes):
    """In half precision 2048 + 1 is 2048, and 1 + 1 is 2."""
    network = model(
        [
            helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
            *nodes(),
            helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT),
        ],
        {"x": np.zeros(2, np.float32), "c": np.zeros((), bool)},
        ["y"],
        {
            "one": np.ones(2, F16),
            "zero": np.array([0], np.int64),
            "rounds": np.array([1], np.int64),
        },
    )
    network.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    tvmrt.compile(network).export_library(tmp_path / "net.so")
    factory = tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0))
    run = tvmrt.contrib.graph_executor.GraphModule(factory)
    run.set_input("x", np.array([2048, 1], np.float32))
    if nodes is _if_nodes:
        run.set_input("c", np.array(True))
    run.run()
    np.testing.assert_array_equal(run.get_output(0).numpy().reshape(-1), [2048, 2])


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Build the conversions as C functions over arrays."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("half")
    text = "#include <tvm/runtime/kernels/scalar/half.h>\n"
    for kind in ("float16", "bfloat16"):
        text += (
            f"void from_{kind}(const uint16_t *x, float *y, int n) {{"
            f" for (int i = 0; i < n; ++i) y[i] = tvmrt_{kind}_to_f32(x[i]); }}\n"
            f"void to_{kind}(const float *x, uint16_t *y, int n) {{"
            f" for (int i = 0; i < n; ++i) y[i] = tvmrt_f32_to_{kind}(x[i]); }}\n"
        )
    (folder / "half.c").write_text(text)
    includes = [f"-I{path}" for path in find_include_path()]
    command = ["cc", "-std=c99", "-O2", "-shared", "-fPIC", *includes, "half.c", "-o", "half.so"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "half.so"))


def call(function, x, out_type):
    y = np.empty(x.shape, out_type)
    function(x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), x.size)
    return y


def kinds():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    return {"float16": np.dtype(F16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_every_half_number_converts_exactly(half, kind):
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = bits.view(kinds()[kind]).astype(np.float32)
    np.testing.assert_array_equal(call(half[f"from_{kind}"], bits, np.float32), expected)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_floats_round_to_the_nearest_half(half, kind):
    dtype = kinds()[kind]
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype).astype(np.float32)
    every = every[np.isfinite(every)]
    rng = np.random.default_rng(1)
    between = (every[:-1].astype(np.float64) + every[1:]) / 2  # ties, and the values next to them
    bits = rng.integers(0, 1 << 32, 200_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        x = np.concatenate([every, between, np.nextafter(every, np.float32(0)), bits])
        x = np.concatenate([x.astype(np.float32), np.array([np.inf, -np.inf, 65519.9, 65520], "f")])
        expected = x.astype(dtype)
    found = call(half[f"to_{kind}"], x, np.uint16).view(dtype)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
