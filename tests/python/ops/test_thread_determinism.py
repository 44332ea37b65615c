"""A network gives bitwise equal results in each run and for any number of threads.

The golden-output tests check real networks for this, too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import tvmrt

# large enough for several tasks: parts of 100,000 floats or 300,000 multiplications
TEXT = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1,16,96,97] x, float[1,64,14,14] s) =>
  (float y0, float y1, float y2, float y3, float y4, float y5, float y6,
   float y7, float y8, float y9, float y10, float y11, float y12, float y13) {
  c = Conv<pads=[1,1,1,1]>(x, w)
  y0 = Relu(c)
  d = Conv<group=16>(x, v)
  y1 = MaxPool<kernel_shape=[3,3], strides=[2,2]>(d)
  y2 = AveragePool<kernel_shape=[3,3]>(x)
  y3 = GlobalAveragePool(x)
  y4 = ReduceSum<keepdims=0>(x, all)
  y5 = ReduceMean<keepdims=0>(x, rows)
  y6 = Softmax<axis=3>(x)
  y7 = LayerNormalization(x, scale)
  y8 = InstanceNormalization(x, ones, ones)
  m = Reshape(x, table)
  t = Transpose<perm=[1, 0]>(m)
  y9 = MatMul(m, t)
  y10 = ReduceLogSumExp<keepdims=0>(x, columns)
  y11 = ConvTranspose<strides=[2,2]>(x, u)
  y12 = GlobalAveragePool(y0)
  y13 = Conv<pads=[1,1,1,1]>(s, few)
}
"""

RUN = """
import sys, numpy as np, tvmrt
from pathlib import Path
library, feeds, out = sys.argv[1:]
module = tvmrt.runtime.load_module(library)
executor = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
with np.load(feeds) as stored:
    for name in stored.files:
        executor.set_input(name, stored[name])
runs = []
for _ in range(2):
    executor.run()
    outputs = [executor.get_output(i).numpy().tobytes() for i in range(executor.get_num_outputs())]
    runs.append(b"".join(outputs))
assert runs[0] == runs[1], "two runs of one process differ"
Path(out).write_bytes(runs[0])
"""


def bits(library: Path, feeds: dict[str, np.ndarray], folder: Path, threads: int) -> bytes:
    """Compute twice in a process with a given number of threads."""
    np.savez(folder / "feeds.npz", **feeds)
    found = folder / f"found{threads}"
    environment = {**os.environ, "TVM_NUM_THREADS": str(threads)}
    arguments = [str(library), str(folder / "feeds.npz"), str(found)]
    subprocess.run([sys.executable, "-c", RUN, *arguments], env=environment, check=True)
    return found.read_bytes()


def check(model, feeds: dict[str, np.ndarray], folder: Path, target: str) -> None:
    library = folder / "net.so"
    tvmrt.compile(model, target=target).export_library(library)
    alone = bits(library, feeds, folder, 1)
    assert alone
    for threads in (2, 3):
        assert bits(library, feeds, folder, threads) == alone, f"{threads} threads"


def wide_network() -> onnx.ModelProto:
    rng = np.random.default_rng(3)

    def weights(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    arrays = {
        "w": weights(8, 16, 3, 3),
        "v": weights(16, 1, 3, 3),
        "u": weights(16, 4, 2, 2),
        "few": weights(256, 64, 3, 3),
        "scale": weights(97),
        "ones": np.ones(16, np.float32),
        "all": np.array([0, 1, 2, 3]),
        "rows": np.array([3]),
        "columns": np.array([1, 2]),
        "table": np.array([16, 96 * 97]),
    }
    model = parser.parse_model(TEXT)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()
    )
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return model


@pytest.mark.slow
@pytest.mark.parametrize("target", ["native", "host"])
def test_every_multithreaded_kernel(target, tmp_path):
    rng = np.random.default_rng(5)
    x, s = (rng.standard_normal((1, *n)).astype(np.float32) for n in ((16, 96, 97), (64, 14, 14)))
    check(wide_network(), {"x": x, "s": s}, tmp_path, target)
