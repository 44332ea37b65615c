"""Test reductions of quantised integers bit by bit: rounding, and the order of factors."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_case import Net, litert_runs, ours

from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend import import_model

pytest.importorskip("ai_edge_litert")

# Type, scale and zero point of the operand and of the result.
KINDS = {
    "int8": ("int8", 0.02, 3, 0.03, -4), "int8 coarse": ("int8", 0.5, -100, 1.5, 7),
    "int16": ("int16", 0.0003, 0, 0.0004, 0), "int16 fine": ("int16", 2e-5, 0, 1e-6, 0),
}  # fmt: skip
SHAPES = [
    ((40, 1), [1]), ((40, 2), [1]), ((3, 40), [0]), ((40, 12), [-1]), ((20, 13), [1]),
    ((5, 40), [1]), ((2, 3, 4, 2), [1, 3]), ((2, 3, 2, 2), [0, 2, 0]), ((2, 5), [0, 1]),
]  # fmt: skip


def reduced(net: Net, shape, axes, kind: tuple, keep: bool, op: str = "REDUCE_PROD") -> None:
    dtype, scale, zero, scale_of_y, zero_of_y = kind
    folded = {a % len(shape) for a in axes}
    left = [1 if i in folded else n for i, n in enumerate(shape) if keep or i not in folded]
    x = net.input(shape, dtype, scale=scale, zero=zero)
    y = net.output(left, dtype, scale=scale_of_y, zero=zero_of_y)
    net.op(op, [x, net.const(np.array(axes, np.int32))], [y], 2, "ReducerOptions",
           keepDims=keep)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_reduce_prod_equals_litert(kind, tmp_path):
    net, rng, feeds = Net(), np.random.default_rng(2), []
    info = np.iinfo(kind[0])
    for number, (shape, axes) in enumerate(SHAPES):
        reduced(net, shape, axes, kind, number % 2 == 0)
        feeds.append(rng.integers(info.min, info.max, shape, endpoint=True).astype(kind[0]))
        feeds[-1][:1] = info.max if number % 3 else info.min
    (right,) = litert_runs(net.data(), [feeds])
    for mine, wanted in zip(ours(net.data(), feeds, tmp_path), right):
        np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("op", ["SUM", "MEAN"])
def test_sums_and_means_equal_litert(op, dtype, tmp_path):
    """Sums of signed types are scaled in float32, others by an integer multiplier. These differ in
    few bytes: here are many, of many scales. The reference kernel of sums reads bytes as uint8."""
    is_optimised = op == "SUM" and dtype != "uint8"
    kernels = "BUILTIN_WITHOUT_DEFAULT_DELEGATES" if is_optimised else "BUILTIN_REF"
    net, rng, feeds = Net(), np.random.default_rng(3), []
    info = np.iinfo(dtype)
    for number in range(30):
        zeros = rng.integers(info.min, info.max, 2) if info.bits == 8 else (0, 0)
        scales = rng.uniform(0.01, 0.2), rng.uniform(0.05, 1.0)
        kind = (dtype, scales[0], int(zeros[0]), scales[1], int(zeros[1]))
        axes = sorted(rng.choice(3, number % 3 + 1, replace=False).tolist())
        shape = tuple(map(int, rng.integers(1, 9, 3)))
        reduced(net, shape, axes, kind, number % 2 == 0, op)
        feeds.append(rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype))
    (right,) = litert_runs(net.data(), [feeds], kernels)
    for mine, wanted in zip(ours(net.data(), feeds, tmp_path), right):
        np.testing.assert_array_equal(mine, wanted)


def test_empty_product_is_refused():
    net = Net()
    reduced(net, (3, 0), [1], KINDS["int8"], False)
    with pytest.raises(UnsupportedError, match="a product of 0 quantised elements"):
        import_model(net.data())
