"""Compare operators with data-dependent result sizes, image transforms, and float matmuls with
integer weights with LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
from every_tensor import check_every_tensor
from tflite_case import Net, assert_like, feeds_for, litert_runs, ours

import tvmrt
from tvmrt.error import UnsupportedError

pytest.importorskip("ai_edge_litert")

rng = np.random.default_rng(12)


def _found() -> Net:
    """Return indices of true elements, unique elements, and boxes."""
    net = Net()
    mask, ids = net.input((3, 4), "bool"), net.input((7,), "int32")
    net.op("WHERE", [mask], [net.output((1, 2), "int64")])
    values, places = net.output((1,), "int32"), net.output((7,), "int32")
    net.op("UNIQUE", [ids], [values, places], options="UniqueOptions", idxOutType=2)
    for index in (0, 1):
        net.graph.tensors[net.graph.outputs[index]].shapeSignature = [-1, 2][: 2 - index]
    boxes, scores = net.input((9, 4), "float32"), net.input((9,), "float32")
    limit, overlap, least = (net.const(n) for n in (np.int32(5), np.float32(0.3), np.float32(-0.5)))
    operands = [boxes, scores, limit, overlap, least]
    outs = [net.output((5,), "int32"), net.output((), "int32")]
    net.op("NON_MAX_SUPPRESSION_V4", operands, outs)
    outs = [net.output((5,), "int32"), net.output((5,), "float32"), net.output((), "int32")]
    net.op("NON_MAX_SUPPRESSION_V5", [*operands, net.const(np.float32(0))], outs)
    many = [boxes, scores, net.const(np.int32(12)), overlap, least]
    net.op("NON_MAX_SUPPRESSION_V4", many, [net.output((12,), "int32"), net.output((), "int32")])
    return net


def _masked(net: Net) -> None:
    """Select rows of x by a mask, double them, and select elements by another mask, as converters
    do."""
    x, rows, mask = (
        net.input(s, t) for s, t in (((4, 3), "float32"), ((4,), "bool"), ((4, 3), "bool"))
    )
    places, line = net.tensor((1, 1), "int64"), net.tensor((1,), "int64")
    some = net.tensor((1, 3), "float32")
    net.op("WHERE", [rows], [places])
    net.op("SQUEEZE", [places], [line], options="SqueezeOptions", squeezeDims=[1])
    net.op("GATHER", [x, line], [some], options="GatherOptions", axis=0)
    net.op("ADD", [some, some], [net.output((1, 3), "float32")], options="AddOptions")
    where = net.tensor((1, 2), "int64")
    net.op("WHERE", [mask], [where])
    net.op("GATHER_ND", [x, where], [net.output((1,), "float32")])
    for index in (places, line, some, where, *net.graph.outputs):
        tensor = net.graph.tensors[index]
        tensor.shapeSignature = [-1, *tensor.shape[1:]]


def test_operators_after_a_data_dependent_size(tmp_path):
    net = Net()
    _masked(net)
    data = net.data()
    for seed in (1, 2):
        feeds = feeds_for(data, seed)
        assert_like(ours(data, feeds, tmp_path), litert_runs(data, [feeds])[0])


def test_data_dependent_counts_equal_litert(tmp_path):
    data = _found().data()
    feeds = feeds_for(data, 3)
    corners = rng.uniform(0, 1, (9, 2, 2)).astype(np.float32)
    feeds[2] = np.concatenate([corners.min(1), corners.max(1)], axis=1)
    assert_like(ours(data, feeds, tmp_path), litert_runs(data, [feeds])[0])


def test_soft_suppression_is_refused():
    net = _found()
    net.graph.operators[3].inputs[5] = net.const(np.float32(0.5))
    with pytest.raises(UnsupportedError, match="sigma is not 0"):
        tvmrt.compile(net.data())


def _spread(net: Net) -> None:
    shape = net.const(np.array([3, 4], np.int32))
    values, zero = net.input((2,), "float32"), net.const(np.float32(7))
    places = net.const(np.array([[0, 3], [2, 1]], np.int32))
    net.op("SPARSE_TO_DENSE", [places, shape, values, zero], [net.output((3, 4), "float32")],
           3, "SparseToDenseOptions")  # fmt: skip
    line = [net.const(np.array([1, 4])), net.const(np.array([6])), net.const(np.int32(5))]
    net.op("SPARSE_TO_DENSE", [*line, net.const(np.int32(-1))], [net.output((6,), "int32")],
           2, "SparseToDenseOptions")  # fmt: skip


def _transform(net: Net, shape: tuple[int, ...], lengths: tuple[int, int]) -> None:
    x = net.input(shape, "float32")
    out = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    between = net.tensor(out, "complex64")
    net.op("RFFT2D", [x, net.const(np.array(lengths, np.int32))], [between])
    for name in ("REAL", "IMAG", "COMPLEX_ABS"):
        net.op(name, [between], [net.output(out, "float32")])


def _moved_spectrum(net: Net, length: int) -> None:
    """Return a row's spectrum without axes of extent 1: its real part by a cast, and absolute
    values."""
    x, count = net.input((2, 1, length), "float32"), length // 2 + 1
    spectrum = net.tensor((2, 1, count), "complex64")
    net.op("RFFT2D", [x, net.const(np.array([1, length], np.int32))], [spectrum])
    moved = net.tensor((2, count), "complex64")
    net.op("SQUEEZE", [spectrum], [moved], options="SqueezeOptions", squeezeDims=[1])
    net.op("CAST", [moved], [net.output((2, count), "float32")])
    net.op("COMPLEX_ABS", [moved], [net.output((2, count), "float32")])


def _hybrid(net: Net) -> None:
    def weights(*shape: int) -> int:
        return net.const(rng.integers(-127, 128, shape).astype(np.int8), scale=0.006)

    a = net.input((2, 3, 5), "float32")
    for asymmetric in (False, True):
        net.op("BATCH_MATMUL", [a, weights(2, 5, 4)], [net.output((2, 3, 4), "float32")], 4,
               "BatchMatMulOptions", asymmetricQuantizeInputs=asymmetric)  # fmt: skip


def test_transforms_scattered_values_and_integer_weights(tmp_path):
    net = Net()
    _spread(net)
    _transform(net, (2, 3, 8), (4, 8))
    _transform(net, (1, 5, 5), (4, 4))
    for length in (16, 512):
        _moved_spectrum(net, length)
    _hybrid(net)
    assert len(check_every_tensor(net.data(), tmp_path)) == 14


def test_a_long_transform_has_no_matrix():
    net = Net()
    _moved_spectrum(net, 2048)
    assert tvmrt.compile(net.data()).summary.weights_bytes < 64 << 10


def test_complex_sums_are_refused():
    net = Net()
    _moved_spectrum(net, 16)
    moved = net.graph.operators[1].outputs[0]
    net.op("ADD", [moved, moved], [net.tensor((2, 9), "complex64")], options="AddOptions")
    with pytest.raises(UnsupportedError, match="it has complex operands"):
        tvmrt.compile(net.data())
