"""Slices, parts and elements of dynamic axes, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from any_size_case import EXECUTORS, assert_close, loaded, results
from dynamic_networks import FLOAT, INT64, Draft
from onnx import helper

import tvmrt
from tvmrt.compiler.ir.sizes import Symbol, bounds, sym_max, sym_min, symbols_of

runtime = pytest.importorskip("onnxruntime")

ALL = 1 << 62
# starts, ends and steps, as of x[:5]
SLICES = [
    (0, 5, 1), (-5, ALL, 1), (2, ALL, 1), (0, -2, 1), (2, 5, 1), (-7, -2, 2), (3, -3, 1), (9, 4, 1),
    (-1, -ALL, -1), (-2, 1, -2), (8, 2, -3), (2, -ALL, -1), (-1, -4, -1),
]  # fmt: skip


def parts():
    """Return each slice, both halves, the first and last rows, paddings and repetitions of one
    axis; some are inputs of a matmul."""
    draft = Draft(3)
    found = []
    for numbers in SLICES:
        starts, ends, steps = (draft.constant([n], np.int64) for n in numbers)
        found.append(draft.node("Slice", ["x", starts, ends, draft.constant([1], np.int64), steps]))
    halves = draft.node("Split", ["x"], 2, axis=1, num_outputs=2)
    ends = ([-1, -2], [0, -1], [[1, -2], [-1, 1]])
    picked = [draft.node("Gather", ["x", draft.constant(e, np.int64)], axis=1) for e in ends]
    weights = draft.weight(3, 4)
    made = [draft.node("MatMul", [y, weights]) for y in (found[0], found[1], found[8])]
    sums = [draft.node("ReduceSum", [y, draft.constant([1], np.int64)]) for y in found[2:8]]
    turned = draft.node("Transpose", ["x"], perm=[0, 2, 1])
    pads = draft.constant([0, 0, 1, 0, 0, 1], np.int64)
    padded = [draft.node("Pad", [turned, pads], mode=mode) for mode in ("reflect", "edge")]
    wider = draft.node("ConvTranspose", [turned, draft.weight(3, 2, 3)], strides=[2])
    times = draft.node("Concat", [draft.extent("x", 0), draft.extent("x", 1)], axis=0)
    tiled = [draft.node("Tile", [draft.weight(*shape), times]) for shape in ((1, 3), (2, 1))]
    names = [*found, *halves, *picked, *made, *sums, *padded, wider, *tiled]
    model = draft.model({"x": (FLOAT, ["batch", "n", 3])}, dict.fromkeys(names, FLOAT))
    model.opset_import[0].version = 18
    return model


@pytest.mark.parametrize("executor", EXECUTORS)
def test_split_parts_have_runtime_extents(executor, tmp_path):
    model, rng = parts(), np.random.default_rng(6)
    session = runtime.InferenceSession(model.SerializeToString())
    library = tvmrt.compile(model, dims={"batch": 2, "n": (2, 12)}, executor=executor)
    network = loaded(library, tmp_path, executor)
    for n in (12, 2, 3, 5, 6, 7, 9, 12):
        x = rng.normal(size=(1 + n % 2, n, 3)).astype(np.float32)
        assert_close(results(network, {"x": x}), session.run(None, {"x": x}))


def test_shape_with_one_replaced_extent(tmp_path):
    """As torch repeats indices along axes that are not indexed."""
    draft = Draft(5)
    one = draft.constant([1], np.int64)
    shape = draft.node("Shape", ["x"])
    expected = draft.node("ScatterElements", [shape, one, draft.extent("i", 0)], axis=0)
    places = draft.node("Reshape", ["i", draft.constant([1, -1, 1], np.int64)])
    y = draft.node("GatherElements", ["x", draft.node("Expand", [places, expected])], axis=1)
    inputs = {"x": (FLOAT, ["batch", "n", 3]), "i": (INT64, ["k"])}
    model, rng = draft.model(inputs, {y: FLOAT}), np.random.default_rng(8)
    library = tvmrt.compile(model, dims={"batch": 2, "n": 9, "k": 5})
    network = loaded(library, tmp_path, "graph")
    session = runtime.InferenceSession(model.SerializeToString())
    for batch, n, k in ((2, 9, 5), (1, 4, 1), (2, 3, 3)):
        x = rng.normal(size=(batch, n, 3)).astype(np.float32)
        feed = {"x": x, "i": rng.integers(0, n, k)}
        assert_close(results(network, feed), session.run(None, feed))


@pytest.mark.parametrize("name", ["((h//4))**2 + 1", "-(-h)//4 + Max(1, h)"])
def test_patches_of_square_images(name, tmp_path):
    """Their number is a square; dimensions named by an unsupported expression count as unnamed."""
    draft = Draft(4)
    wide = draft.node("Conv", ["x", draft.weight(5, 2, 4, 4)], strides=[4, 4])
    flat = draft.node("Reshape", [wide, draft.constant([0, 5, -1], np.int64)])
    side = draft.node("Div", [draft.extent("x", 2), draft.constant([4], np.int64)])
    area = draft.node("Pow", [side, draft.constant(2, np.int64)])
    shape = draft.node("Concat", [draft.constant([1, 5], np.int64), area], axis=0)
    y = draft.node("Mul", [draft.node("Expand", [draft.weight(1), shape]), flat])
    z = draft.node("Concat", [y, draft.weight(1, 5, 1)], axis=2)
    model = draft.model({"x": (FLOAT, [1, 2, "h", "h"])}, {y: FLOAT, z: FLOAT})
    model.graph.output[1].CopyFrom(helper.make_tensor_value_info(z, FLOAT, [1, 5, name]))
    network = loaded(tvmrt.compile(model, dims={"h": (4, 20)}), tmp_path, "graph")
    session, rng = runtime.InferenceSession(model.SerializeToString()), np.random.default_rng(6)
    for h in (20, 4, 7, 13):
        x = rng.normal(size=(1, 2, h, h)).astype(np.float32)
        assert_close(results(network, {"x": x}), session.run(None, {"x": x}))


def test_min_and_max_of_extents():
    """Bounds are exact at all values, and operands cancel."""
    n, m = (Symbol(name, low, 9, f"n_{name}").extent for name, low in (("n", 0), ("m", 1)))
    for a, b in ((n, 5), (5, n), (2 * n, m + 3), (n * m, 12), (7, 3 * n - m)):
        low, high = sym_min(a, b), sym_max(a, b)
        values = [{"n": i, "m": j} for i in range(10) for j in range(1, 10)]

        def numbers(extent, values=values):
            return [extent.at(v) if symbols_of(extent) else extent for v in values]

        ours, pairs = list(zip(numbers(low), numbers(high))), list(zip(numbers(a), numbers(b)))
        assert ours == [(min(pair), max(pair)) for pair in pairs]
        assert low + high == a + b
        assert bounds(low) == (min(map(min, pairs)), max(map(min, pairs)))
    assert sym_min(n, 9) == n and sym_max(n, 0) == n and sym_min(n, -1) == -1
    wide = [Symbol(name, 1, 4000, f"n_{name}").extent for name in "abc"]
    assert bounds(wide[0] * wide[1] * sym_min(wide[2], 128)) == (1, 4000 * 4000 * 128)
