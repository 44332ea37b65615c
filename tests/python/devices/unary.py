"""Variants of the device of unary_device.c, and networks for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx

import tvmrt

HERE = Path(__file__).parent
HEADER = '<ir_version: 8, opset_import: ["" : 17]>'


def built(folder: Path, name: str, *macros: str, flags: tuple[str, ...] = ()) -> Path:
    """Build a plug-in of the device of that name in a folder."""
    return plugin(folder, "unary_device.c", name, f"NAME={name}", *macros, flags=flags)


def plugin(folder: Path, source: str, name: str, *macros: str, flags: tuple[str, ...] = ()) -> Path:
    """Build a plug-in of a source next to this file in a folder."""
    folder.mkdir(exist_ok=True)
    path = folder / f"libtvmrt_device_{name}.so"
    config = [sys.executable, "-m", "tvmrt", "config", "--cflags"]
    cflags = subprocess.check_output(config, text=True).split()
    command = ["cc", "-O1", "-shared", "-fPIC", *flags, *cflags]
    command += [f"-D{macro}" for macro in macros]
    subprocess.run([*command, HERE / source, "-o", path, "-lm"], check=True)
    return path


def at_once(log: Path) -> int:
    """Return how many runs were active at the same time, from the log of UNARY_LOG. Timing would
    show it on idle machines only."""
    now, maximum = 0, 0
    for line in log.read_text().split():
        now += {"begins": 1, "ends": -1}.get(line, 0)
        maximum = max(maximum, now)
    assert now == 0
    return maximum


def chain(*operators: str, extents: str = "2,3") -> onnx.ModelProto:
    """Each operator reads the previous result: x, then t0, t1, ..., then y."""
    names = ["x", *(f"t{i}" for i in range(len(operators) - 1)), "y"]
    lines = "".join(f"{b} = {op}({a}) " for a, b, op in zip(names, names[1:], operators))
    text = f"g (float[{extents}] x) => (float[{extents}] y) {{ {lines}}}"
    return onnx.parser.parse_model(HEADER + text)


def executor(path: Path, kind: str = "graph"):
    """Return an executor of the library."""
    return executor_of(tvmrt.runtime.load_module(path), kind)


def executor_of(library, kind: str = "graph"):
    """Return an executor of a loaded library."""
    module = library["default"](tvmrt.cpu(0))
    if kind == "graph":
        return tvmrt.contrib.graph_executor.GraphModule(module)
    return tvmrt.runtime.executor.AotModule(module)
