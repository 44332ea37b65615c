"""Devices with a failing library: each call fails once at each use, then never again.

A test has the calls in a C file with ``failing_calls.h``, and calls :func:`sweep`.
"""

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
HERE = Path(__file__).parent

# A failing use reports the failed call; if the device has an alternative, its results are right.
# Afterwards the same device works as before.
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
for call, status, is_reloaded in calls:
    found = errors.setdefault(call, [])
    reached = True
    while reached and len(found) < 60:
        if is_reloaded:
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
    """Return the path of the library that the device's plug-in has loaded."""
    have(device)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("where a library lies is read in /proc")
    return next(line.split()[-1] for line in maps.read_text().splitlines() if stem in line)


def sweep(
    tmp_path,
    source,
    device: str,
    stem: str,
    nodes,
    weights,
    shape,
    calls,
    **options,
) -> dict:
    """Return the messages of the uses by failed call; the calls are in the C file ``source``."""
    define = [f'-DLIBRARY="{library_file(device, stem)}"']
    shim = tmp_path / "failing_calls.so"
    built = subprocess.run(
        ["cc", "-shared", "-fPIC", *define, f"-I{HERE}", source, "-o", shim, "-ldl"],
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
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def check(calls, errors) -> None:
    for call, _, _, text in calls:
        assert errors[call], f"{call} is never called"
        report = [error for error in errors[call] if error]
        assert text is None or report, f"{call} fails without an error"
        assert all(text in error for error in report if text), (call, report)
