"""Devices whose library fails: each of its calls in turn, at each use, and then never more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from device_here import have
from onnx import TensorProto, helper, numpy_helper

import tvmrt

ort = pytest.importorskip("onnxruntime")
SOURCE = Path(__file__).with_name("failing_calls.c")

# A use that fails says what failed; where the device has another way, its numbers are right; and
# after that the same device does its work as before.
SWEEP = """
import ctypes, gc, json, sys
import numpy as np
shim = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
import tvmrt
from tvmrt.contrib.graph_executor import GraphModule

path, device, calls = sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
x, golden = np.load(path + ".x.npy"), np.load(path + ".y.npy")
unregister = tvmrt.get_global_func("tvmrt.device.unregister")

def use():
    net = GraphModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    net.set_input("x", x)
    net.run()
    np.testing.assert_allclose(net.get_output(0).numpy(), golden, 1e-4, 1e-5)

errors = {}
for call, status, anew in calls:
    found = errors.setdefault(call, [])
    reached = True
    while reached and len(found) < 60:
        if anew:
            gc.collect()
            if device in tvmrt.runtime.list_devices():
                unregister(device)
        shim.fail_call(call.encode(), len(found), status)
        try:
            use()
            found.append("")
        except (tvmrt.error.TVMError, ValueError, OSError) as error:
            found.append(str(error))
        reached = bool(shim.has_failed())
        shim.fail_call(b"", 0, 0)
        use()
    assert found.pop() == "", (call, found)
print(json.dumps(errors))
"""


def library_file(device: str, stem: str) -> str:
    """Which file the device's plug-in has loaded."""
    have(device)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("where a library lies is read in /proc")
    return next(line.split()[-1] for line in maps.read_text().splitlines() if stem in line)


def sweep(tmp_path, device: str, stem: str, nodes, weights, shape, calls, **options) -> dict:
    """What the uses said, by the call that failed."""
    macro = {"opencl": "OPENCL", "dnnl": "DNNL"}[device]
    define = [f"-D{macro}", f'-DLIBRARY="{library_file(device, stem)}"']
    shim = tmp_path / "failing_calls.so"
    built = subprocess.run(
        ["cc", "-shared", "-fPIC", *define, SOURCE, "-o", shim, "-ldl"],
        capture_output=True,
        text=True,
        check=False,
    )
    if built.returncode != 0:
        pytest.skip(f"the library's headers are of another version: {built.stderr[:300]}")
    value = helper.make_tensor_value_info
    made = [helper.make_node(op, i, [o], name=o, **attrs) for op, i, o, attrs in nodes]
    graph = helper.make_graph(
        made,
        "g",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    path = tmp_path / "net.so"
    library = tvmrt.compile(model, **options)
    assert len(library.partition.regions) == 1
    library.export_library(path)
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.save(f"{path}.x.npy", x)
    np.save(f"{path}.y.npy", session.run(None, {"x": x})[0])
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, shim, path, device, json.dumps(calls)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TVMRT_OPENCL_CACHE": str(tmp_path / "programs")},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


OUT_OF_MEMORY, LOST, WORK_GROUP, OTHER = -5, -2, -54, -36
# The call, its status, whether the device is registered anew before, and what the error says; None:
# the device has another way.
OPENCL = [
    ("clCreateProgramWithSource", OUT_OF_MEMORY, False, "device is out of memory"),
    ("clGetPlatformIDs", OTHER, True, "no OpenCL device was found"),
    ("clGetDeviceIDs", OTHER, True, "no OpenCL device was found"),
    ("clGetDeviceInfo", OTHER, True, None),
    ("clCreateContext", LOST, True, "clCreateContext: the OpenCL device is lost"),
    ("clCreateCommandQueue", OUT_OF_MEMORY, True, "device is out of memory"),
    ("clCreateProgramWithBinary", OTHER, True, None),
    ("clBuildProgram", OTHER, True, None),
    ("clCreateBuffer", OUT_OF_MEMORY, False, "clCreateBuffer: the OpenCL device is out of memory"),
    ("clCreateKernel", OTHER, False, "clCreateKernel failed with OpenCL error -36"),
    ("clGetKernelInfo", OTHER, False, "clGetKernelInfo failed"),
    ("clSetKernelArg", OTHER, False, "parameter failed with OpenCL error -36"),
    ("clEnqueueNDRangeKernel", WORK_GROUP, False, "local size does not suit"),
    ("clEnqueueWriteBuffer", OTHER, False, "writing an input failed"),
    ("clEnqueueReadBuffer", OTHER, False, "reading an output failed"),
    ("clFlush", LOST, False, "clFlush: the OpenCL device is lost"),
    ("clWaitForEvents", LOST, False, "running a region: the OpenCL device is lost"),
]


def check(calls, errors) -> None:
    for call, _, _, text in calls:
        assert errors[call], f"{call} is never called"
        told = [error for error in errors[call] if error]
        assert text is None or told, f"{call} fails without an error"
        assert all(text in error for error in told if text), (call, told)


def test_opencl_calls_that_fail_are_told_and_leave_the_device_whole(tmp_path):
    errors = sweep(
        tmp_path,
        "opencl",
        "libOpenCL",
        [("Exp", ["x"], "e", {}), ("ReduceSum", ["e"], "y", {"keepdims": 1})],
        {},
        (2, 3),
        [call[:3] for call in OPENCL],
        devices=["opencl"],
        device_options={"opencl": {"profile": 1}},
    )
    check(OPENCL, errors)


NO_MEMORY, RUN_TIME = 1, 5
DNNL = [
    ("dnnl_engine_create", RUN_TIME, True, "oneDNN has no engine for this processor"),
    ("dnnl_stream_create", RUN_TIME, True, "oneDNN gives no stream"),
    ("dnnl_memory_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_primitive_desc_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_reorder_primitive_desc_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_primitive_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_primitive_attr_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_primitive_attr_set_post_ops", NO_MEMORY, False, "out of memory"),
    ("dnnl_post_ops_create", NO_MEMORY, False, "out of memory"),
    ("dnnl_memory_set_data_handle", RUN_TIME, False, "a run-time error"),
    ("dnnl_primitive_execute", RUN_TIME, False, "a run-time error"),
    ("dnnl_stream_wait", RUN_TIME, False, "oneDNN"),
]


def test_onednn_calls_that_fail_are_told_and_leave_the_device_whole(tmp_path):
    rng = np.random.default_rng(6)
    weights = {
        "w": rng.standard_normal((16, 8, 3, 3)).astype(np.float32) / 8,
        "m": rng.standard_normal((6, 5)).astype(np.float32),
    }
    nodes = [
        ("Conv", ["x", "w"], "c", {}),
        ("Relu", ["c"], "d", {}),
        ("MatMul", ["d", "m"], "y", {}),
    ]
    errors = sweep(
        tmp_path,
        "dnnl",
        "libdnnl",
        nodes,
        weights,
        (1, 8, 8, 8),
        [call[:3] for call in DNNL],
        devices=["dnnl"],
    )
    check(DNNL, errors)
