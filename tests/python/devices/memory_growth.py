"""Growth of a process's memory by a network's weights."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tvmrt

# Growth of resident memory by loading and running a library, after another one of the same device:
# memory of drivers is then allocated. Prints it with the largest error against onnxruntime.
PROGRAM = """
import gc, sys
import numpy as np
import tvmrt
from tvmrt.runtime.executor import AotModule

def resident():
    gc.collect()
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))

def run(path, x):
    net = AotModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    net.set_input("x", x)
    net.run()
    return net, net.get_output(0).numpy()

small, large, data = sys.argv[1:]
arrays = np.load(data)
x, golden = arrays["x"], arrays["y"]
first, _ = run(small, np.zeros((1, 8), np.float32))
before = resident()
net, y = run(large, x)
after = resident()
np.testing.assert_allclose(y, golden, rtol=1e-3, atol=1e-3)
assert all(row["runs"] == 0 for row in tvmrt.device_fallbacks(net))
print(after - before)
"""


def model(rows, columns, seed=7):
    weights = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, (1, rows))],
        [value("y", TensorProto.FLOAT, (1, columns))],
        [numpy_helper.from_array(weights, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made, weights


def grown(folder, device, rows, columns, fallback=False) -> int:
    """Return the growth of a separate process in bytes."""
    paths = []
    for name, extents in {"small": (8, 8), "large": (rows, columns)}.items():
        network, weights = model(*extents)
        library = tvmrt.compile(network, devices=[device], executor="aot", device_fallback=fallback)
        assert [row.device for row in library.summary.regions] == [device]
        paths.append(folder / f"{name}.so")
        library.export_library(paths[-1])
    x = np.random.default_rng(3).standard_normal((1, rows)).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=x @ weights)
    path = os.pathsep.join([str(folder), os.environ.get("TVMRT_DEVICE_PATH", "")])
    command = [sys.executable, "-c", PROGRAM, *map(str, paths), str(folder / "data.npz")]
    return int(
        subprocess.check_output(command, text=True, env={**os.environ, "TVMRT_DEVICE_PATH": path})
    )


def check_large(folder, device) -> None:
    """Check that the weights of a network of 62 MB are in memory once."""
    growth = grown(folder, device, 3960, 3960, fallback=True)
    print(f"{device}: {growth / 1e6:.1f} MB for weights of {3960 * 3960 * 4 / 1e6:.1f} MB")
    assert growth < 3960 * 3960 * 4 + 10e6
