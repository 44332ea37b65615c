"""Scratch memory that a network reports per thread, compared with the allocated memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import parser

import tvmrt

NETWORKS = {
    "squares": "y = Conv<pads=[1,1,1,1]>(x, w)",
    "ring": "y = Conv<pads=[1,1,1,1], strides=[2,2]>(z, v)",
    "panel": "t = Transpose<perm=[0,1,3,2]>(x) m = MatMul(x, t) y = Relu(m)",
    "attention": "t = Transpose<perm=[0,1,3,2]>(x) s = MatMul(x, t) p = Softmax(s)"
    " y = MatMul(p, x)",
    "none": "y = Relu(x)",
}
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,64,24,24] x, float[1,3,50,50] z) => (float[N,C,H,W] y) { BODY }
"""

# wraps the runtime's functions and records the peak
COUNTER = r"""
#include <stdint.h>
#include <stdlib.h>
static struct { void* at; uint64_t bytes; } blocks[16];
static int count;
uint64_t most_bytes;
void* TVMBackendAllocWorkspace(int type, int id, uint64_t bytes, int code, int bits) {
  uint64_t all = 0;
  (void)type, (void)id, (void)code, (void)bits;
  blocks[count].bytes = (bytes + 4095) / 4096 * 4096;
  blocks[count].at = aligned_alloc(4096, blocks[count].bytes);
  for (int i = 0; i <= count; i++) all += blocks[i].bytes;
  if (all > most_bytes) most_bytes = all;
  return blocks[count++].at;
}
int TVMBackendFreeWorkspace(int type, int id, void* at) {
  (void)type, (void)id, (void)at;
  free(blocks[--count].at);
  return 0;
}
"""
RUN = """
import ctypes, sys, tvmrt
tvmrt.load(sys.argv[1]).warm_executor()
print(ctypes.c_uint64.in_dll(ctypes.CDLL(sys.argv[2]), "most_bytes").value)
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    if not sys.platform.startswith("linux") or shutil.which("cc") is None:
        pytest.skip("functions are put in front of others by Linux, and need a C compiler")
    folder = tmp_path_factory.mktemp("counter")
    (folder / "counter.c").write_text(COUNTER)
    command = ["cc", "-std=c11", "-shared", "-fPIC", "counter.c", "-o", "counter.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "counter.so"


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_reported_scratch_is_what_a_thread_uses(name, counter, tmp_path):
    rng = np.random.default_rng(0)
    model = parser.parse_model(TEXT.replace("BODY", NETWORKS[name]))
    weights = {"w": (64, 64, 3, 3), "v": (8, 3, 3, 3)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), weight)
        for weight, shape in weights.items()
    )
    library = tvmrt.compile(model, target="native")
    library.export_library(tmp_path / "net.so")
    environment = {**os.environ, "LD_PRELOAD": str(counter), "TVM_NUM_THREADS": "1"}
    command = [sys.executable, "-c", RUN, str(tmp_path / "net.so"), str(counter)]
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert library.summary.scratch_bytes == int(found.stdout)
    assert (library.summary.scratch_bytes > 0) == (name != "none")
