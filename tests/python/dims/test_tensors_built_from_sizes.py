"""Matrices, ranges, tables and transforms that are built from dynamic sizes.

The reference is onnxruntime without optimisations, at each size.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from dynamic_networks import Draft
from onnx import TensorProto

import tvmrt

runtime = pytest.importorskip("onnxruntime")
FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
DIMS = {"n": (1, 16), "m": (1, 16)}
SIZES = [(1, 1), (3, 7), (16, 2), (5, 16)]


def session_of(model: onnx.ModelProto):
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.enable_mem_reuse = False  # its DFT fails for some lengths
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(model.SerializeToString(), options)


def compare(d: Draft, results: list[str], inputs: dict | None = None, sizes=SIZES, opset=17):
    """Compare all results of a network over x [n, m] with onnxruntime's."""
    kinds = {"x": (FLOAT, ["n", "m"]), **{n: (INT64, ["n", "m"]) for n in inputs or {}}}
    names = [d.node("Cast", [name], to=FLOAT) for name in results]
    model = d.model(kinds, {name: FLOAT for name in names})
    model.opset_import[0].version = opset
    session, net = session_of(model), tvmrt.load(model, dims=DIMS, cache=False)
    rng = np.random.default_rng(0)
    for size in sizes:
        feed = {"x": rng.normal(size=size).astype(np.float32)}
        feed.update({name: make(rng, size) for name, make in (inputs or {}).items()})
        found = net(feed)
        found = [found] if len(names) == 1 else [found[name] for name in names]
        for place, expected in enumerate(session.run(names, feed)):
            assert found[place].shape == expected.shape, results[place]
            np.testing.assert_allclose(found[place], expected, 1e-4, 1e-4, err_msg=results[place])


def number(d: Draft, axis: int) -> str:
    return d.node("Squeeze", [d.extent("x", axis)])


def test_unit_and_triangular_matrices():
    d = Draft()
    square = d.node("Concat", [d.extent("x", 1)] * 2, axis=0)
    zeros = d.node("ConstantOfShape", [square])
    unit = d.node("EyeLike", [zeros], dtype=FLOAT)
    results = [d.node("MatMul", ["x", unit])]
    results += [d.node("EyeLike", ["x"], k=k, dtype=INT64) for k in (0, 1, -2)]
    ones = d.node("Add", [zeros, d.constant(1, np.float32)])
    offset = d.node("Sub", [number(d, 0), d.constant(3, np.int64)])
    results += [d.node("Trilu", [ones, offset], upper=upper) for upper in (0, 1)]
    compare(d, results)


def test_one_hot_of_dynamic_depth():
    d = Draft()
    values = d.constant([-1, 2], np.float32)
    results = [d.node("OneHot", ["i", number(d, 1), values], axis=axis) for axis in (-1, 0, 1)]
    results.append(d.node("OneHot", ["i", d.constant([5], np.int64), values]))
    results.append(d.node("OneHot", ["i", d.node("Cast", [number(d, 1)], to=FLOAT), values]))
    # from -m to m, and one below and above
    indices = {"i": lambda rng, size: rng.integers(-size[1] - 1, size[1] + 2, size)}
    compare(d, results, indices)


def test_ranges_with_dynamic_ends():
    d = Draft()
    m, results = number(d, 1), []

    def ranges(start, limit, delta):
        ends = [d.constant(v, np.int64) if isinstance(v, int) else v for v in (start, limit, delta)]
        results.append(d.node("Range", ends))

    for start, delta in [(0, 1), (3, 1), (0, 2), (5, 3), (-2, 1), (16, -1), (9, -3)]:
        ranges(start, m, delta)
    ranges(d.node("Neg", [m]), 0, 1)
    ranges(0, 16, m)
    ranges(0, d.node("Squeeze", [d.node("Size", ["x"])]), m)
    ranges(16, 0, d.node("Neg", [m]))
    for kind, dtype in ((FLOAT, np.float32), (INT32, np.int32)):
        ends = [d.constant(1, dtype), d.node("Cast", [m], to=kind), d.constant(2, dtype)]
        results.append(d.node("Range", ends))
    compare(d, results)


def pairs(d: Draft, x: str = "x") -> str:
    """Reshape [n, m] to [n, m, 1]."""
    return d.node("Unsqueeze", [x, d.constant([-1], np.int64)])


def test_fourier_transforms_of_dynamic_length():
    d = Draft()
    axis, m, x = d.constant(1, np.int64), number(d, 1), pairs(d)
    spectrum = d.node("DFT", [x, "", axis])
    half = d.node("DFT", [x, "", axis], onesided=1)
    results = [spectrum, half]
    results.append(d.node("DFT", [spectrum, "", axis], inverse=1))
    results.append(d.node("DFT", [half, m, axis], inverse=1, onesided=1))
    # more and fewer elements than the axis has
    twice = d.node("Mul", [m, d.constant(2, np.int64)])
    results.append(d.node("DFT", [x, twice, axis]))
    some = d.node("Div", [d.node("Add", [m, d.constant(3, np.int64)]), d.constant(2, np.int64)])
    results.append(d.node("DFT", [x, some, axis], onesided=1))
    results.append(d.node("DFT", [x, "", d.constant(0, np.int64)]))
    compare(d, results, opset=20)


def test_windows_of_dynamic_length():
    d = Draft()
    size, results = d.node("Add", [number(d, 1), d.constant(1, np.int64)]), []
    for op in ("BlackmanWindow", "HammingWindow", "HannWindow"):
        results += [d.node(op, [size], periodic=periodic) for periodic in (0, 1)]
    compare(d, results)


def test_frames_of_a_dynamic_signal():
    """The window is constant or computed; a signal shorter than the window is refused."""
    d = Draft()
    x, step, window = pairs(d), d.constant(2, np.int64), d.constant(np.hanning(6), np.float32)
    first = d.node("Slice", ["x", *(d.constant([n], np.int64) for n in (0, 1, 0))])
    other = d.node("Slice", [first, *(d.constant([n], np.int64) for n in (0, 6, 1))])
    weights = d.node("Reshape", [d.node("Sigmoid", [other]), d.constant([6], np.int64)])
    results = [d.node("STFT", [x, step, w], onesided=s) for w, s in ((window, 0), (weights, 1))]
    compare(d, results, sizes=[(1, 6), (3, 7), (2, 16)])


def test_sort_of_an_axis_that_may_be_empty():
    d = Draft()
    first, last, axis = (d.constant([n], np.int64) for n in (-1, -(2**62), 1))
    names = [d.node("Slice", ["x", first, last, axis, d.constant([n], np.int64)]) for n in (-1, -2)]
    model = d.model({"x": (FLOAT, ["n", "m"])}, dict.fromkeys(names, FLOAT))
    net = tvmrt.load(model, dims={"n": (1, 4), "m": (0, 9)}, cache=False)
    for size in [(2, 0), (1, 1), (3, 2), (4, 9)]:
        x = np.random.default_rng(0).normal(size=size).astype(np.float32)
        found = net({"x": x})
        np.testing.assert_array_equal(found[names[0]], x[:, ::-1])
        np.testing.assert_array_equal(found[names[1]], x[:, ::-2])
