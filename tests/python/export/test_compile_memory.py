"""Memory of the compiler in addition to a network's weights."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_graph import model

import tvmrt
from tvmrt.compiler import processor
from tvmrt.compiler.export import compiler_flags

LAYERS, WIDTH = 12, 1024
MEASURE = """
import resource, sys
import tvmrt, tvmrt.compiler.pipeline, onnx
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tvmrt.compile(sys.argv[1]).export_sources(sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""
# A C compiler that records its peak memory.
NOTING = """
import resource, subprocess, sys
code = subprocess.run(["cc", *sys.argv[2:]]).returncode
with open(sys.argv[1], "a") as file:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024, file=file)
sys.exit(code)
"""


def test_the_compiler_takes_little_more_memory_than_the_weights(tmp_path):
    rng = np.random.default_rng(0)
    weights = [rng.normal(0, 0.03, (WIDTH, WIDTH)).astype(np.float32) for _ in range(LAYERS)]
    nodes = [
        helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"], f"layer{i}")
        for i in range(LAYERS)
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, [1, WIDTH])],
        [helper.make_tensor_value_info(f"x{LAYERS}", TensorProto.FLOAT, [1, WIDTH])],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "net.onnx"), str(tmp_path / "net")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    taken = int(done.stdout) / sum(w.nbytes for w in weights)
    # parts of the input and of its packed copy; only the assembler and the linker, one after the
    # other, hold all weights
    assert taken < 1.0
    stored = tmp_path / "net" / "tvmgen_default_weights.bin"
    # tiles of some processors do not divide the columns: the last one is padded
    assert 1 <= stored.stat().st_size / sum(w.nbytes for w in weights) < 1.05


def test_float_code_includes_no_intrinsics_headers(monkeypatch, tmp_path):
    """GCC's umbrella header of all intrinsics needs more memory than the kernels."""
    found = subprocess.run(["cc", "-dumpfullversion"], capture_output=True, text=True, check=False)
    if processor.machine() != "x86_64" or int(found.stdout.partition(".")[0] or 0) < 10:
        pytest.skip("needs GCC 10 or later for x86-64 as cc")
    x, w = np.ones((1, 16, 9, 9), np.float32), np.ones((40, 16, 3, 3), np.float32)
    made = model([helper.make_node("Conv", ["x", "w"], ["y"])], {"x": x}, ["y"], {"w": w})
    (tmp_path / "noting.py").write_text(NOTING)
    command = f"{sys.executable} {tmp_path / 'noting.py'} {tmp_path / 'taken'}"
    monkeypatch.setenv("CCACHE_DISABLE", "1")
    library = tvmrt.compile(made, target="x86-64", levels=["v3", "v4"], cc=command)
    library.export_library(tmp_path / "net.so")
    taken = [int(line) for line in (tmp_path / "taken").read_text().split()]
    assert len(taken) > 3
    assert max(taken) < 80 << 20


def test_garbage_collection_flags_are_for_gcc_only():
    flags = [compiler_flags.GCC_SMALL_HEAP, "-O3"]
    assert compiler_flags.translate_flags(["x86_64-linux-gnu-gcc-12"], flags) == flags
    assert compiler_flags.translate_flags(["clang-14"], flags) == ["-O3"]
