"""Compare sparse weights, which DENSIFY expands, with LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_case import Net, assert_like, feeds_for, litert_runs, ours

rng = np.random.default_rng(61)
ROWS, COLUMNS, BLOCK = 6, 8, 4


def _level(net: Net, size: int, segments: list[int] | None = None, indices=()) -> object:
    """Return a dense level, or a compressed one with its lists as bytes."""
    level = net.schema.DimensionMetadataT()
    if segments is None:
        level.format, level.denseSize = 0, size
        return level
    level.format = 1
    for field, numbers in (("arraySegments", segments), ("arrayIndices", indices)):
        vector = net.schema.Uint8VectorT()
        vector.values = np.array(numbers, np.uint8)
        setattr(level, field, vector)
        setattr(level, f"{field}Type", 3)
    return level


def _sparse(net: Net, dense: np.ndarray, block: int, **quantization) -> int:
    """Return a matrix that omits zero blocks of ``block`` columns."""
    blocks = dense.reshape(ROWS, COLUMNS // block, block)
    there = blocks.any(axis=2)
    values = blocks[there]
    segments = [0, *np.cumsum(there.sum(axis=1)).tolist()]
    index = net.tensor(dense.shape, dense.dtype.name, values, **quantization)
    found = net.graph.tensors[index].sparsity = net.schema.SparsityParametersT()
    found.dimMetadata = [
        _level(net, ROWS),
        _level(net, COLUMNS // block, segments, np.nonzero(there)[1].tolist()),
    ]
    found.traversalOrder = np.arange(2, dtype=np.int32)
    if block > 1:
        found.dimMetadata.append(_level(net, block))
        found.traversalOrder = np.arange(3, dtype=np.int32)
        found.blockMap = np.array([1], np.int32)
    return index


def _weights(dtype: str, block: int) -> np.ndarray:
    dense = rng.integers(-100, 100, (ROWS, COLUMNS))
    left_out = rng.random((ROWS, COLUMNS // block)) < 0.6
    dense[np.repeat(left_out, block, axis=1)] = 0
    dense[2] = 0  # a row without any element
    return dense.astype(dtype) if dtype == "int8" else (dense / 64).astype(dtype)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("block", [1, BLOCK])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_matmul_with_sparse_weights_equals_litert(dtype, block, tmp_path):
    pytest.importorskip("ai_edge_litert")
    net = Net()
    steps = {"scale": 0.02} if dtype == "int8" else {}
    dense = net.tensor((ROWS, COLUMNS), dtype, **steps)
    net.op("DENSIFY", [_sparse(net, _weights(dtype, block), block, **steps)], [dense])
    real = dense
    if dtype != "float32":
        real = net.tensor((ROWS, COLUMNS), "float32")
        net.op("DEQUANTIZE", [dense], [real], version=3)
    x = net.input((3, COLUMNS), "float32")
    net.op("FULLY_CONNECTED", [x, real, -1], [net.output((3, ROWS), "float32")],
           options="FullyConnectedOptions")  # fmt: skip
    data = net.data()
    feeds = feeds_for(data)
    assert_like(ours(data, feeds, tmp_path), litert_runs(data, [feeds])[0])
