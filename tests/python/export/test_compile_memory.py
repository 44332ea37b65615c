"""How much memory the compiler takes beside a network's weights."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH = 12, 1024
MEASURE = """
import resource, sys
import tvmrt, tvmrt.pipeline, onnx
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tvmrt.compile(sys.argv[1]).export_sources(sys.argv[2])
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
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
    # a part of what was read, and of that in the order of its kernels; all weights have the
    # assembler and then the linker, each by itself
    assert taken < 1.0
    stored = tmp_path / "net" / "tvmgen_default_weights.bin"
    assert stored.stat().st_size == sum(w.nbytes for w in weights)
