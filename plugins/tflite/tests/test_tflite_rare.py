"""Compare rarely used operators with LiteRT; list the operators that are not supported."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tflite_case import Net, assert_like, litert_runs, ours

from tvmrt.plugins.tflite.frontend.options import BUILTIN
from tvmrt.plugins.tflite.frontend.registry import find

rng = np.random.default_rng(31)
PAGE = Path(__file__).parents[1] / "docs" / "tflite.md"


def _ints(net: Net, *values: int) -> int:
    return net.const(np.array(values, np.int32))


def _segments(net: Net, x: int, count: int, dtype: str) -> None:
    """Sum five rows by segment; segment 1 is empty, and one row belongs to no segment."""
    ids, number = _ints(net, 3, 0, -1, 2, 0), net.const(np.int32(count))
    for kind in ("SUM", "PROD", "MAX", "MIN"):
        out = net.output((count, 3), dtype)
        name = f"UNSORTED_SEGMENT_{kind}"
        net.op(name, [x, ids, number], [out], options=f"UnsortedSegment{kind.title()}Options")


def _buckets(net: Net, x: int, shape: tuple[int, ...]) -> None:
    net.op("BUCKETIZE", [x], [net.output(shape, "int32")], options="BucketizeOptions",
           boundaries=[-1.5, 0.0, 0.0, 2.0, 3.25])  # fmt: skip


def _casts(net: Net, floats: int, words: int) -> None:
    """Cast floats float32[5, 3] and words int16[3, 2]."""
    for x, shape, dtype in (
        (floats, (5, 3), "int32"),
        (floats, (5, 3, 4), "uint8"),
        (words, (3, 2), "uint16"),
        (words, (3,), "float32"),
        (words, (3, 2, 2), "int8"),
    ):
        net.op("BITCAST", [x], [net.output(shape, dtype)], options="BitcastOptions")


def _volumes(net: Net) -> None:
    """Convolve volumes with different strides; extents are odd, so that padding before and after
    differs."""
    x = net.input((1, 3, 4, 3, 2), "float32")
    bias = net.const(rng.standard_normal(4).astype(np.float32))
    w = net.const(rng.standard_normal((3, 2, 3, 4, 2)).astype(np.float32))
    for padding, shape, bias_operand in ((0, (1, 6, 4, 8, 4), [bias]), (1, (1, 7, 5, 9, 4), [])):
        net.op("CONV_3D_TRANSPOSE", [_ints(net, *shape), w, x, *bias_operand],
               [net.output(shape, "float32")], options="Conv3DOptions", padding=padding, strideD=2,
               strideW=3, strideH=1, dilationDFactor=1, dilationWFactor=1, dilationHFactor=1,
               fusedActivationFunction=int(bool(bias_operand)))  # fmt: skip


def _diagonals(net: Net) -> None:
    line = net.input((2, 3), "float32")
    net.op("MATRIX_DIAG", [line], [net.output((2, 3, 3), "float32")], options="MatrixDiagOptions")
    for shape in ((2, 3, 5), (2, 4, 3)):
        x = net.input(shape, "float32")
        net.op("MATRIX_SET_DIAG", [x, line], [net.output(shape, "float32")],
               options="MatrixSetDiagOptions")  # fmt: skip


def _network() -> Net:
    net = Net()
    floats, whole = net.input((5, 3), "float32"), net.input((5, 3), "int32")
    words, wide = net.input((3, 2), "int16"), net.input((4,), "int64")
    _segments(net, floats, 4, "float32")
    _segments(net, whole, 4, "int32")
    net.op("SEGMENT_SUM", [floats, _ints(net, 0, 0, 1, 2, 2)], [net.output((3, 3), "float32")],
           options="SegmentSumOptions")  # fmt: skip
    _buckets(net, net.input((2, 4), "float32"), (2, 4))
    _buckets(net, wide, (4,))
    _casts(net, floats, words)
    _volumes(net)
    picture = net.input((1, 2, 3, 7), "float32")
    net.op("LOCAL_RESPONSE_NORMALIZATION", [picture], [net.output((1, 2, 3, 7), "float32")],
           options="LocalResponseNormalizationOptions", radius=2, bias=1.5, alpha=0.3,
           beta=0.6)  # fmt: skip
    _diagonals(net)
    points = [net.input((12,), "float32") for _ in "yx"]
    net.op("ATAN2", points, [net.output((12,), "float32")], options="ATan2Options")
    return net


def _feeds() -> list[np.ndarray]:
    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    found = [floats(5, 3), rng.integers(-99, 99, (5, 3)).astype(np.int32)]
    found += [rng.integers(-(2**15), 2**15, (3, 2)).astype(np.int16), np.array([-2, 0, 3, 4])]
    found += [np.array([[2, 0, np.nan, -np.inf], [-1.5, -2, 3, 4]], np.float32)]
    found += [floats(1, 3, 4, 3, 2), floats(1, 2, 3, 7), floats(2, 3), floats(2, 3, 5)]
    found += [floats(2, 4, 3)]
    inf = np.inf
    found += [
        np.array([0.0, -0.0, 0.0, -0.0, 1, -1, inf, -inf, inf, 3, -3, 2], np.float32),
        np.array([0.0, 0.0, -0.0, -0.0, 0, 0, inf, -inf, 1, -inf, 1e-30, -5], np.float32),
    ]
    return found


def test_rare_operators_equal_litert(tmp_path):
    pytest.importorskip("ai_edge_litert")
    data, feeds = _network().data(), _feeds()
    # the reference kernels support half of these
    right = litert_runs(data, [feeds], "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    assert_like(ours(data, feeds, tmp_path), right[0])


def test_page_lists_unsupported_operators():
    text = PAGE.read_text()
    table = text.partition("## Not supported")[2].partition("\n## ")[0]
    listed = re.findall(r"`([A-Z][A-Z0-9_]+)`", table)
    missing = {name for name in BUILTIN if find(name) is None} - {"CUSTOM"}
    plain = {name for name in missing if not name.startswith("STABLEHLO_")}
    assert sorted(listed) == sorted(plain) and "`STABLEHLO_...`" in table
    assert not any(find(f"STABLEHLO_{name}") for name in ("ADD", "CASE"))
