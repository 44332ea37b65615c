"""Compare a custom C kernel with the built-in operator of the same formula: ``python
bench_custom.py``.

Both are one generated C function with plain pointers and known extents. Printed are the shortest of
many runs of each, in turns, on one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("TVM_NUM_THREADS", "1")

import tempfile
import time
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.custom import C, GraphBuilder, Kernel, Tensor

BODY = """
static int32_t leaky(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
  (void)t;
  for (int64_t i = 0; i < s->size; ++i) y[i] = x[i] < 0.0f ? 0.1f * x[i] : x[i];
  return 0;
}
"""
LEAKY = Kernel(
    "Leaky",
    "bench",
    inputs=[Tensor("x", "float32")],
    outputs=[Tensor("y", "float32")],
    c=C(BODY, "leaky"),
)
TURNS = 2000


def session(add, count: int, folder: Path, name: str) -> GraphModule:
    g = GraphBuilder(name)
    g.output("y", add(g, g.input("x", (count,))))
    path = folder / f"{name}.so"
    tvmrt.compile(g).export_library(path)
    made = GraphModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    made.set_input("x", np.random.default_rng(0).standard_normal(count).astype(np.float32))
    return made


def shortest(sessions: list[GraphModule]) -> list[float]:
    """Return the seconds of the shortest run of each."""
    best = [float("inf")] * len(sessions)
    for _ in range(TURNS):
        for i, each in enumerate(sessions):
            begin = time.perf_counter()
            each.run()
            best[i] = min(best[i], time.perf_counter() - begin)
    return best


def main() -> None:
    print(f"{'elements':>10} {'built-in':>12} {'custom':>12}  ratio")
    with tempfile.TemporaryDirectory() as folder:
        for count in (16, 1024, 65536):
            built_in = session(
                lambda g, x: g.LeakyRelu(x, alpha=0.1), count, Path(folder), f"built_in_{count}"
            )
            custom = session(lambda g, x: g.add(LEAKY, x), count, Path(folder), f"custom_{count}")
            a, b = shortest([built_in, custom])
            print(f"{count:>10} {a * 1e6:>9.2f} us {b * 1e6:>9.2f} us  {b / a:.3f}")


if __name__ == "__main__":
    main()
