"""int8 layers are no slower than float32."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

BENCH = str(Path(__file__).parents[2] / "bench")
TRIES = 3  # a busy machine disturbs some measurements
LAYERS = [
    ("conv", 256, 128, (1, 1), 1, (28, 28), "Relu", 1, 1),
    ("conv", 64, 64, (3, 3), 1, (56, 56), "Relu", 1, 1),
    ("conv", 128, 128, (1, 7), 1, (17, 17), "Relu", 1, 1),
    ("conv", 3, 32, (3, 3), 2, (224, 224), "Clip", 1, 1),
    ("conv", 1, 100, (3, 300), 1, (56, 300), "Relu", 1, 1),
    ("conv", 208, 208, (3, 3), 1, (14, 14), "Relu", 26, 1),
    ("conv", 144, 144, (1, 31), 1, (1, 256), "silu", 144, 1),
    ("conv", 256, 256, (9, 9), 1, (32, 32), "", 256, 1),
    ("matmul", 64, 384, 1536, "Relu"),
    ("gemm", 1, 2048, 1000, ""),
    ("conv", 512, 512, (3, 3), 1, (14, 14), "Relu", 512, 1),
    ("attention", 12, 64, 64, 32),
    ("attention", 12, 1, 256, 64),
    ("pool", "AveragePool", 128, 2, 2, 56),
    ("pool", "MaxPool", 128, 2, 2, 52),
    ("global_pool", 1280, 7),
    ("transpose", (1, 85, 3549), (0, 2, 1)),
    ("transpose", (1, 768, 7, 7), (0, 2, 3, 1)),
    ("resize", "nearest", 64, 56, 2),
]  # of classes whose int8 form is faster; `layers.py --int8` prints the others


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)
    yield importlib.import_module("layers")
    for name in ("layers", "layer_networks", "layer_shapes"):
        sys.modules.pop(name)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: "-".join(map(str, layer)))
def test_int8_is_no_slower_than_float32(layer, dtype, bench, tmp_path):
    runs = []
    for kind in ("float32", dtype):
        path = tmp_path / f"{kind}.so"
        bench.build(layer, kind, "", str(path))
        feeds = bench.feeds_of(bench.network(layer, kind))
        runs.append(bench.ours(path, feeds).run)
    ratios = []
    for _ in range(TRIES):
        fastest = [min(times) for times in zip(*bench.compare(runs, 0.3))]
        ratios.append(fastest[0] / fastest[1])
        if ratios[-1] >= 1:
            return
    assert max(ratios) >= 0.95
