"""Measure the cost of a region boundary: ``python tests/bench/bench_region_boundaries.py``.

A network of many tiny regions, separated by tiny CPU operators, is compared with as many plain C
calls. Printed are the additional nanoseconds per region for code that is called directly, through a
packed function, and through a module's device.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

import tvmrt
from tvmrt import devices
from tvmrt.compiler.devices.skeleton import write_skeleton
from tvmrt.runtime.executor import AotModule

REGIONS = 100
ROUNDS = 7


class Rectifier(devices.Device):
    """ReLU as C source, with plain pointers or as a packed function."""

    def __init__(self, name: str, entry: str) -> None:
        self.name, self.entry = name, entry

    def supports(self, node):
        return None if node.op == "relu" else f"{self.name} takes no {node.op}"

    def codegen(self, regions, context):
        text = "#include <stdint.h>\n#include <tvm/runtime/c_backend_api.h>\n"
        return devices.CSource(text + "".join(map(self._function, regions)), self.entry)

    def _function(self, region):
        body = "for (int i = 0; i < 4; ++i) y[i] = x[i] > 0 ? x[i] : 0;"
        if self.entry == "pointers":
            head = f"int32_t {region.symbol}(const float *x, float *y)"
            return f"{head} {{\n  {body}\n  return 0;\n}}\n"
        return (
            f"TVM_DLL int32_t {region.symbol}(TVMValue *a, int *c, int n, TVMValue *r, int *t,"
            " void *h) {\n  const float *x = ((DLTensor *)a[0].v_handle)->data;\n"
            f"  float *y = ((DLTensor *)a[1].v_handle)->data;\n  {body}\n"
            "  (void)c, (void)n, (void)r, (void)t, (void)h;\n  return 0;\n}\n"
        )


def network():
    """Return relu, neg, relu, neg ... over four floats."""
    nodes = [
        helper.make_node("Relu" if i % 2 == 0 else "Neg", [f"t{i}"], [f"t{i + 1}"], name=f"n{i}")
        for i in range(2 * REGIONS)
    ]
    ends = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, [4])
        for n in ("t0", nodes[-1].output[0])
    ]
    graph = helper.make_graph(nodes, "borders", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def seconds(device, folder: Path) -> float:
    """Return the minimum seconds of several runs."""
    library = tvmrt.compile(network(), executor="aot", devices=[device])
    assert len(library.summary.regions) == REGIONS
    path = folder / "net.so"
    library.export(path)
    module = tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0))
    executor = AotModule(module)
    executor.set_input("t0", np.ones(4, np.float32))
    times = module.time_evaluator("run", tvmrt.cpu(0), number=200, repeat=ROUNDS)()
    return min(times.results)


def plugin(folder: Path) -> str:
    """Build and load the skeleton's device, which computes relu."""
    source, *_ = write_skeleton("boundary_gate", folder)
    flags = [f"-I{path}" for path in tvmrt.libinfo.find_include_path()]
    path = folder / "libtvmrt_device_boundary_gate.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", *flags, source, "-o", path], check=True)
    tvmrt.load_device_plugin(path)
    return "boundary_gate"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = seconds(Rectifier("plain", "pointers"), folder)
        rows = {
            "C source, pointers": plain,
            "C source, packed": seconds(Rectifier("packed", "packed"), folder),
            "module of a device": seconds(plugin(folder), folder),
        }
    for what, time in rows.items():
        total, beyond = time / REGIONS * 1e9, (time - plain) / REGIONS * 1e9
        print(f"{what:20} {total:8.1f} ns per region and operator, {beyond:8.1f} ns beyond plain C")
    if rows["module of a device"] - plain > REGIONS * 1e-6:
        sys.exit("a border costs more than a microsecond")


if __name__ == "__main__":
    main()
