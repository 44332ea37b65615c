"""The device cuda over a stand-in of NVIDIA's libraries that compiles its kernels for this machine:
results against onnxruntime, tensors on the GPU, streams, programs on disk, failures."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from cuda_stand_in import build
from onnx import TensorProto, helper, numpy_helper
from sample_devices import run_library

import tvmrt
from tvmrt.conformance import operators, tensors, threads
from tvmrt.error import TVMError

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(8)
find = tvmrt.get_global_func("tvmrt.device.find")
unregister = tvmrt.get_global_func("tvmrt.device.unregister")


@pytest.fixture(scope="module", autouse=True)
def stand_in(tmp_path_factory):
    if not shutil.which("c++"):
        pytest.skip("the stand-in for NVRTC needs a C++ compiler")
    folder = build(tmp_path_factory.mktemp("nvidia"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVMRT_CUDA_PATH", str(folder))
        patch.setenv("TVMRT_CUDA_CACHE", str(tmp_path_factory.mktemp("programs")))
        if not find("cuda"):
            pytest.skip("the device cuda is not built")
        yield folder
        with contextlib.suppress(ValueError):  # the last test may end without one
            unregister("cuda")


@pytest.fixture
def fresh():
    """The device is found anew, in the test and behind it."""
    if find("cuda"):
        unregister("cuda")
    yield
    with contextlib.suppress(ValueError):  # a test may end without one
        unregister("cuda")


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def network(nodes, feeds, weights, outputs) -> onnx.ModelProto:
    """``nodes``: (operator, inputs, output or outputs, attributes)."""
    made = [
        helper.make_node(op, ins, [out] if isinstance(out, str) else out, name=f"n{i}", **attrs)
        for i, (op, ins, out, attrs) in enumerate(nodes)
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        made,
        "g",
        [value(k, TensorProto.FLOAT, v.shape) for k, v in feeds.items()],
        [value(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def judge(model: onnx.ModelProto, feeds) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def compiled(model, path, executor="graph", **options):
    library = tvmrt.compile(model, devices=["cuda"], executor=executor, **options)
    library.export_library(path)
    return library


def check(model, feeds, tmp_path, executor="graph"):
    """Everything on the device, and right; gives the operators of its nodes."""
    library = compiled(model, tmp_path / "net.so", executor, require_device=["cuda"])
    found = run_library(tmp_path / "net.so", executor, dict(feeds))
    for array, golden in zip(found, judge(model, feeds)):
        np.testing.assert_allclose(array, golden, 1e-4, 1e-5)
    assert {row.device for row in library.summary.nodes} <= {"cuda", None, ""}, (
        library.summary.nodes
    )
    return [n.op for region in library.partition.regions for n in region.nodes]


FLOAT = TensorProto.FLOAT
# Each result is one form of a product; those of cuBLAS first.
PRODUCTS = [
    ("MatMul", ["x", "w"], "same-weights", {}),
    ("MatMul", ["x", "t"], "transposed-batches", {}),
    ("MatMul", ["s", "w"], "rows-of-a-slice", {}),
    ("Conv", ["p", "k", "b"], "windows", {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    ("Conv", ["p", "k1"], "pixels", {}),
    ("Conv", ["half", "k1"], "pixels-of-a-slice", {}),
    ("Conv", ["p", "k"], "dilated", {"dilations": [2, 1]}),
]
KERNELS = [
    ("MatMul", ["b5", "w2"], "broadcast", {}),
    ("Conv", ["p", "g"], "groups", {"group": 4}),
    ("ConvTranspose", ["p", "k1t"], "conv-transpose", {"strides": [2, 2]}),
]


def products_network():
    feeds = {"x": normal(2, 6, 4), "p": normal(2, 8, 7, 6), "b5": normal(5, 1, 3, 4)}
    weights = {"w": normal(4, 5), "w2": normal(2, 4, 6), "k": normal(6, 8, 3, 2), "b": normal(6)}
    weights |= {"k1": normal(4, 8, 1, 1), "k1t": normal(8, 2, 3, 3), "g": normal(8, 2, 2, 2)}
    weights |= {"is": np.array([1]), "ie": np.array([6]), "half-axis": np.array([2])}
    nodes = [
        ("Transpose", ["x"], "t", {"perm": [0, 2, 1]}),
        ("Slice", ["x", "is", "ie", "is"], "s", {}),
        ("Slice", ["p", "is", "ie", "half-axis"], "half", {}),
        *PRODUCTS,
        ("Relu", ["windows"], "activated", {}),
        *KERNELS,
    ]
    outputs = {row[2]: FLOAT for row in [*PRODUCTS, *KERNELS]} | {"activated": FLOAT}
    return network(nodes, feeds, weights, outputs), feeds


def test_products_go_to_cublas_and_are_right(tmp_path):
    model, feeds = products_network()
    ops = check(model, feeds, tmp_path)
    assert ops.count("custom_cuda_product") == len(PRODUCTS)
    assert set(ops) <= {"custom_cuda_product", "custom_cuda", "reshape"}


def test_a_bias_and_what_follows_are_one_kernel(tmp_path):
    nodes = [("Conv", ["x", "w", "b"], "c", {}), ("Relu", ["c"], "y", {})]
    feeds = {"x": normal(1, 8, 4, 4)}
    model = network(nodes, feeds, {"w": normal(3, 8, 1, 1), "b": normal(3)}, {"y": FLOAT})
    assert check(model, feeds, tmp_path) == ["custom_cuda_product", "custom_cuda"]


def test_cells_with_barriers_rows_moves_and_folds_are_right(tmp_path):
    nodes = [
        ("GRU", ["x", "w", "r", "b"], ["y", "h"], {"hidden_size": 5, "linear_before_reset": 1}),
        ("Softmax", ["h"], "soft", {"axis": 2}),
        ("LayerNormalization", ["h", "scale"], "norm", {}),
        ("ReduceMean", ["y"], "mean", {"axes": [0, 3]}),
        ("Pad", ["h", "pads"], "pad", {"mode": "reflect"}),
        ("Gather", ["h", "places"], "gathered", {"axis": 2}),
        ("Erf", ["h"], "erf", {}),
        ("GreaterOrEqual", ["h", "soft"], "truth", {}),
        ("ArgMax", ["h"], "best", {"axis": 2}),
        ("MaxPool", ["y"], "pool", {"kernel_shape": [1, 3], "pads": [0, 1, 0, 1]}),
    ]
    weights = {"w": normal(1, 15, 4), "r": normal(1, 15, 5), "b": normal(1, 30)}
    weights |= {"scale": normal(5), "pads": np.array([0, 0, 2, 0, 0, 1])}
    weights["places"] = np.array([-1, 0, 3])
    floats = ["y", "soft", "norm", "mean", "pad", "gathered", "erf", "pool"]
    outputs = dict.fromkeys(floats, FLOAT) | {"truth": TensorProto.BOOL, "best": TensorProto.INT64}
    feeds = {"x": normal(6, 2, 4)}
    check(network(nodes, feeds, weights, outputs), feeds, tmp_path)


def test_quantised_operators_are_right_to_the_bit(tmp_path):
    """Judged by tvmrt's CPU, which onnxruntime's bytes are compared with elsewhere."""
    nodes = [
        ("QuantizeLinear", ["x", "sx", "z8"], "q", {}),
        ("QLinearConv", ["q", "sx", "z8", "k", "sw", "zk", "so", "z8"], "c", {"pads": [1] * 4}),
        ("DequantizeLinear", ["c", "so", "z8"], "y", {}),
    ]
    weights = {"sx": np.float32(0.02), "sw": np.float32(0.013), "so": np.float32(0.04)}
    weights |= {"z8": np.uint8(120), "zk": np.int8(0)}
    weights["k"] = RNG.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8)
    feeds = {"x": normal(1, 3, 6, 6)}
    model = network(nodes, feeds, weights, {"c": TensorProto.UINT8, "y": FLOAT})
    library = compiled(model, tmp_path / "net.so")
    assert len(library.partition.regions) == 1
    tvmrt.compile(model).export_library(tmp_path / "cpu.so")
    found = run_library(tmp_path / "net.so", "graph", feeds)
    for array, golden in zip(found, run_library(tmp_path / "cpu.so", "graph", feeds)):
        np.testing.assert_array_equal(array, golden)
    np.testing.assert_allclose(found[1], judge(model, feeds)[1], atol=0.041)


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    """A library with a product, its model and inputs."""
    nodes = [("MatMul", ["x", "w"], "m", {}), ("Tanh", ["m"], "y", {})]
    feeds = {"x": normal(4, 16)}
    model = network(nodes, feeds, {"w": normal(16, 16)}, {"y": FLOAT})
    path = tmp_path_factory.mktemp("dense") / "net.so"
    compiled(model, path)
    return path, model, feeds


def moved() -> np.ndarray:
    """Bytes that runs have copied: to the GPU, from it, within it."""
    return np.array(tvmrt.get_global_func("device.cuda.moved")().split(), np.int64)


def executor_of(path):
    module = tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0))
    return tvmrt.contrib.graph_executor.GraphModule(module)


def test_tensors_on_the_gpu_are_worked_on_where_they_are(dense):
    path, model, feeds = dense
    net = executor_of(path)
    there, out = (tvmrt.nd.array(a, device=tvmrt.cuda(0)) for a in (feeds["x"], feeds["x"]))
    net.set_input_zero_copy("x", there)
    net.set_output_zero_copy(0, out)
    before = moved()
    net.run()
    assert list(moved() - before) == [0, 0, 0]
    np.testing.assert_allclose(out.numpy(), judge(model, feeds)[0], 1e-4, 1e-5)
    net.set_output_zero_copy(0, there)  # of its own input
    net.run()
    assert list(moved() - before) == [0, 0, out.numpy().nbytes]
    np.testing.assert_allclose(there.numpy(), judge(model, feeds)[0], 1e-4, 1e-5)


def test_host_tensors_move_once_each_way(dense):
    path, _, feeds = dense
    net = executor_of(path)
    net.set_input("x", feeds["x"])
    before = moved()
    net.run()
    assert list(moved() - before) == [4 * 64, 4 * 64, 0]


def test_copies_and_streams_of_tensors():
    x = normal(3, 4)
    there = tvmrt.nd.array(x, device=tvmrt.cuda(0))
    copy = tvmrt.nd.empty((3, 4), device=tvmrt.cuda(0))
    there.copyto(copy)
    np.testing.assert_array_equal(copy.numpy(), x)
    device = tvmrt.cuda(0)
    first, second = device.create_raw_stream(), device.create_raw_stream()
    device.sync(first)
    device.free_raw_stream(first)
    device.free_raw_stream(second)
    device.sync()
    with pytest.raises((TVMError, ValueError), match="there is no CUDA device 1"):
        tvmrt.nd.empty((2,), device=tvmrt.cuda(1))


def test_executors_share_weights(dense, stand_in):
    """Of the blocks of the GPU's memory an executor that runs beside another has no weights."""
    count = ctypes.CDLL(str(stand_in / "libcuda.so.1")).stand_in_blocks
    path = dense[0]
    before = count()
    module = tvmrt.runtime.load_module(str(path))
    assert count() - before == 2  # weights and the arena
    del module
    assert count() == before


def test_programs_are_built_once(dense, fresh, monkeypatch):
    path, model, feeds = dense
    run_library(path, "graph", feeds)
    unregister("cuda")
    monkeypatch.setenv("TVMRT_STAND_IN_FAIL", "nvrtcCompileProgram")
    assert find("cuda")
    np.testing.assert_allclose(
        run_library(path, "graph", feeds)[0], judge(model, feeds)[0], 1e-4, 1e-5
    )
    for file in os.scandir(os.environ["TVMRT_CUDA_CACHE"]):
        os.truncate(file.path, file.stat().st_size // 2)
    unregister("cuda")
    monkeypatch.delenv("TVMRT_STAND_IN_FAIL")
    assert find("cuda")  # what is damaged is built again
    np.testing.assert_allclose(
        run_library(path, "graph", feeds)[0], judge(model, feeds)[0], 1e-4, 1e-5
    )


ABSENT = {
    "driver": ("libcuda.so.1", r"NVIDIA's driver cannot be loaded \(.*\); install it"),
    "compiler": (
        "libnvrtc.so",
        r"NVRTC cannot be loaded .*nvidia-cuda-nvrtc-cu12.* TVMRT_CUDA_PATH",
    ),
}


@pytest.mark.parametrize("part", ABSENT)
def test_without_a_library_the_cpu_steps_in_and_says_why(
    dense, stand_in, fresh, monkeypatch, tmp_path, part
):
    _, model, feeds = dense
    path = tmp_path / "net.so"
    compiled(model, path, device_fallback=True)
    lost, text = ABSENT[part]
    for name in os.listdir(stand_in):
        if name != lost:
            shutil.copy(stand_in / name, tmp_path / name)
    monkeypatch.setenv("TVMRT_CUDA_PATH", str(tmp_path))
    with pytest.raises(TVMError, match=text) as caught:
        find("cuda")
    if "install" not in str(caught.value):
        pytest.skip(f"this machine has a library of its own: {caught.value}")
    net = executor_of(path)
    net.run(**feeds)
    np.testing.assert_allclose(net.get_output(0).numpy(), judge(model, feeds)[0], 1e-4, 1e-5)
    (row,) = tvmrt.device_fallbacks(net)
    assert row["runs"] == 1
    assert "cannot be loaded" in row["reason"]


AT_INIT = {
    "cuInit": "cuInit failed with CUDA error 719: CUDA_ERROR_OF_THE_STAND_IN",
    "cuDeviceGetCount": "cuDeviceGetCount failed",
    "cuDevicePrimaryCtxRetain:2": "cuDevicePrimaryCtxRetain: the GPU is out of memory",
    "cuStreamCreate": "cuStreamCreate failed",
    "nvrtcVersion": "nvrtcVersion failed",
}
AT_LOADING = {
    "cuMemAlloc_v2:2": "cuMemAlloc: the GPU is out of memory",
    "cuMemcpyHtoDAsync_v2": "copying weights failed",
    "cuEventCreate": "cuEventCreate failed",
    "cuModuleGetFunction": "has no kernel pointwise",
    "cublasCreate_v2": "cublasCreate failed with status 719",
    "cublasSetStream_v2": "cublasSetStream failed",
}
AT_RUNNING = {
    "cuMemAllocHost_v2": "cuMemAllocHost failed",
    "cuMemcpyHtoDAsync_v2": "copying an input failed",
    "cuLaunchKernel": "pointwise failed",
    "cublasSgemmStridedBatched:13": "cublasSgemmStridedBatched failed with status 13",
    "cuMemcpyDtoHAsync_v2": "copying an output failed",
    "cuEventRecord": "cuEventRecord failed",
    "cuEventSynchronize": "running a region failed",
}


def test_calls_that_fail_are_told_and_leave_the_device_whole(dense, fresh, monkeypatch):
    path, model, feeds = dense
    for call, text in AT_INIT.items():
        monkeypatch.setenv("TVMRT_STAND_IN_FAIL", call)
        with pytest.raises(TVMError, match=text):
            find("cuda")
    monkeypatch.delenv("TVMRT_STAND_IN_FAIL")
    run_library(path, "graph", feeds)
    for call, text in AT_LOADING.items():
        monkeypatch.setenv("TVMRT_STAND_IN_FAIL", call)
        with pytest.raises((TVMError, ValueError), match=text):
            tvmrt.runtime.load_module(str(path))
    monkeypatch.delenv("TVMRT_STAND_IN_FAIL")
    for call, text in AT_RUNNING.items():
        net = executor_of(path)
        monkeypatch.setenv("TVMRT_STAND_IN_FAIL", call)
        with pytest.raises((TVMError, ValueError), match=text):
            net.run(**feeds)
        monkeypatch.delenv("TVMRT_STAND_IN_FAIL")
        net.run(**feeds)
        golden = judge(model, feeds)[0]
        np.testing.assert_allclose(net.get_output(0).numpy(), golden, 1e-4, 1e-5)


def load(nodes, tensors=((4,), (4,), (4,))):
    """A region of its own writing; the first two tensors are its inputs, the last its output."""
    region = {
        "symbol": "r",
        "name": "r",
        "tensors": [{"name": "t", "dtype": "float32", "shape": list(s)} for s in tensors],
        "nodes": [
            {"name": "n", "op": op, "inputs": i, "outputs": o, "attrs": a} for op, i, o, a in nodes
        ],
        "inputs": [0, 1],
        "outputs": [len(tensors) - 1],
    }
    head = {"format": "tvmrt-regions", "version": 1, "device": "cuda", "regions": [region]}
    return tvmrt.get_global_func("tvmrt.device.load_regions")(json.dumps(head), bytearray())


PRODUCT = {"sizes": [1, 2, 2, 2], "a": [0, 2, 0, 0], "b": [0, 2, 0, 0], "types": "float32:4"}
KERNEL = {
    "operator": "f",
    "source": "__kernel void f(__global const float *x, __global const float *w, __global float *y,"
    " const int a) { y[0] = x[0]; }",
    "function": "f",
    "build_options": "",
    "global_size": [64],
    "local_size": [64],
    "scalar_types": "int",
    "scalars": [1.0],
    "types": "float32:4",
}
DAMAGED = {
    "beyond": ("custom_cuda_product", {"a": [1, 2, 0, 0]}, "reaches beyond a tensor"),
    "lead": ("custom_cuda_product", {"b": [0, 1, 0, 0]}, "reaches beyond a tensor"),
    "result": ("custom_cuda_product", {"sizes": [1, 1, 2, 2]}, "reaches beyond a tensor"),
    "numbers": ("custom_cuda_product", {"sizes": [2, 2]}, "no four numbers in sizes"),
    "source": ("custom_cuda", {"source": "__kernel void f("}, "source of f does not compile"),
    "name": ("custom_cuda", {"function": "g"}, "has no kernel g"),
    "sizes": ("custom_cuda", {"global_size": [65]}, "no multiple of local_size"),
    "scalar": ("custom_cuda", {"scalars": [0.5e10]}, "is not of type int"),
    "scalars": ("custom_cuda", {"scalars": []}, "fewer scalars"),
    "option": (
        "custom_cuda",
        {"build_options": "--no-such"},
        "does not know .* sm_90, or an option of f",
    ),
    "types": ("custom_cuda", {"types": "float32:5"}, "made for other extents"),
    "operator": ("relu", {}, "was not made a kernel"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_regions_that_no_compiler_made_are_refused(case):
    op, change, text = DAMAGED[case]
    whole = PRODUCT if op == "custom_cuda_product" else KERNEL
    with pytest.raises((TVMError, ValueError), match=text):
        load([(op, [0, 1], [2], whole | change)])


@pytest.mark.parametrize("check", [operators, tensors, threads])
def test_the_kit_passes(check):
    """Of its networks two: ``tvmrt device test cuda`` runs them all, below where there is a GPU."""
    found = check.check(tvmrt.devices.get("cuda"), 1e-3, ("MatMul: rank 2", "Softmax"))
    assert found
    assert not [f for f in found if not f.passed]


def test_a_gpu_of_the_machine_computes_as_the_stand_in_does(tmp_path):
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as problem:
        pytest.skip(f"this machine has no driver of NVIDIA's: {problem}")
    environment = {k: v for k, v in os.environ.items() if k != "TVMRT_CUDA_PATH"}
    program = "import tvmrt; print(tvmrt.get_global_func('tvmrt.device.find')('cuda'))"
    probe = [sys.executable, "-c", program]
    done = subprocess.run(probe, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the GPU of this machine cannot be used: {done.stderr.splitlines()[-1]}")
    command = [sys.executable, "-m", "tvmrt", "device", "test", "cuda"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
