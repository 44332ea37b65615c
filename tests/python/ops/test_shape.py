"""Operators that reshape, move, slice and concatenate tensors."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Batch, case
from onnx import helper
from onnx_graph import model as graph_of

import tvmrt
from tvmrt.compiler import pipeline
from tvmrt.error import UnsupportedError

RNG = np.random.default_rng(12)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*numbers):
    return np.array(numbers, np.int64)


def exact(id, op, inputs, constants=(), **attrs):
    return case(id, op, inputs, constants, rtol=0, atol=0, **attrs)


def reshape_cases():
    yield exact("minus-one", "Reshape", [f32(2, 3, 4), i64(4, -1)], [1])
    yield exact("zero-copies", "Reshape", [f32(2, 3, 4), i64(0, 12)], [1])
    yield exact("allowzero", "Reshape", [f32(0, 3), i64(3, 0)], [1], allowzero=1)
    yield exact("scalar", "Reshape", [f32(1, 1), i64()], [1])
    for axis in (0, 1, 2, 3, -1):
        yield exact(f"axis{axis}", "Flatten", [f32(2, 3, 4)], axis=axis)
    yield exact("all", "Squeeze", [f32(1, 3, 1)])
    yield exact("one", "Squeeze", [f32(1, 3, 1), i64(-1)], [1])
    yield exact("two", "Unsqueeze", [f32(3, 4), i64(0, -1)], [1])
    yield exact("plain", "Transpose", [f32(2, 3, 4)])
    for perm in ((0, 2, 1), (1, 2, 0), (2, 0, 1)):
        yield exact(f"perm{perm}", "Transpose", [f32(2, 30, 40)], perm=list(perm))
    for shape in ((16, 16), (15, 40), (17, 31), (49, 130)):  # around blocks of 16 x 16 bytes
        for dtype in (np.int8, np.uint8):
            name = f"{np.dtype(dtype)}-{shape[0]}x{shape[1]}"
            values = RNG.integers(-128, 128, shape).astype(dtype)
            yield exact(name, "Transpose", [values], perm=[1, 0])
    for mode in ("DCR", "CRD"):
        yield exact(mode, "DepthToSpace", [f32(2, 18, 3, 5)], blocksize=3, mode=mode)
    yield exact("2", "SpaceToDepth", [f32(2, 3, 4, 6)], blocksize=2)
    yield exact("rows", "Expand", [f32(3, 1), i64(2, 1, 6)], [1])
    yield exact("both-ways", "Expand", [f32(2, 1, 4), i64(3, 1)], [1])
    yield exact("three", "Tile", [f32(2, 3, 4), i64(2, 1, 3)], [1])
    yield exact("one", "Tile", [f32(3), i64(4)], [1])
    yield exact("shape", "Shape", [f32(2, 3, 4)])
    yield exact("part", "Shape", [f32(2, 3, 4)], start=1)
    yield exact("cut", "Shape", [f32(2, 3, 4)], start=-9, end=-1)
    yield exact("size", "Size", [f32(2, 3, 4)])
    value = helper.make_tensor("value", 7, [1], [5])
    yield exact("i64", "ConstantOfShape", [i64(2, 3)], [0], value=value)
    yield exact("plain", "ConstantOfShape", [i64(4)], [0])
    yield exact("i64", "Range", [np.array(n) for n in (10, 1, -3)], [0, 1, 2])
    numbers = [np.array(n, np.float32) for n in (0.5, 2.2, 0.25)]
    yield case("f32", "Range", numbers, [0, 1, 2], rtol=1e-6)
    yield exact("empty", "Range", [np.array(n) for n in (5, 1, 2)], [0, 1, 2])
    yield exact("plain", "EyeLike", [f32(3, 4)])
    yield exact("shifted", "EyeLike", [f32(4, 3)], k=-1, dtype=7)
    yield exact("center", "CenterCropPad", [f32(5, 4, 3), i64(3, 7, 3)], [1])
    yield exact("odd", "CenterCropPad", [f32(5, 4), i64(8, 1)], [1])
    yield exact("axes", "CenterCropPad", [f32(5, 4, 3), i64(2, 6)], [1], axes=[2, 0])
    for upper in (0, 1):
        for k in (-2, 0, 1, 5):
            inputs = [f32(2, 4, 5), np.array(k)]
            yield exact(f"upper{upper}-k{k}", "Trilu", inputs, [1], upper=upper)
        yield exact(f"upper{upper}-computed", "Trilu", [f32(4, 5), np.array(1)], upper=upper)
    for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        yield case("10", op, [np.array(10)], [0], rtol=1e-5, atol=1e-6)
    yield exact("i64", "Trilu", [RNG.integers(0, 9, (3, 3))])


RESHAPE = Batch(18, reshape_cases())


def cut_cases():
    x = f32(5, 6, 7)
    yield exact("plain", "Slice", [x, i64(1, 0), i64(4, 3)], [1, 2])
    yield exact("axes", "Slice", [x, i64(1), i64(99), i64(-1)], [1, 2, 3])
    yield exact("steps", "Slice", [x, i64(0, 1), i64(5, 6), i64(0, 2), i64(2, 3)], [1, 2, 3, 4])
    reverse = [x, i64(-1, 4), i64(-99, 0), i64(0, 1), i64(-1, -2)]
    yield exact("backwards", "Slice", reverse, [1, 2, 3, 4])
    last = [x, i64(np.iinfo(np.int64).max), i64(np.iinfo(np.int64).min), i64(1), i64(-1)]
    yield exact("backwards-all", "Slice", last, [1, 2, 3, 4])
    yield exact("empty", "Slice", [x, i64(4), i64(2), i64(0)], [1, 2, 3])
    yield exact("i32", "Slice", [x, *(np.array([n], np.int32) for n in (1, 4, 1))], [1, 2, 3])
    yield exact("even", "Split", [f32(6, 4)], axis=0, num_outputs=3, outputs=3)
    yield exact("uneven", "Split", [f32(7, 4)], axis=0, num_outputs=3, outputs=3)
    yield exact("sizes", "Split", [f32(3, 8), i64(1, 5, 2)], [1], axis=-1, outputs=3)
    yield exact("empty-part", "Split", [f32(3, 8), i64(0, 8)], [1], axis=1, outputs=2)
    for axis in (0, 1, -1):
        parts = [f32(2, 3, 4)] * 2
        yield exact(f"axis{axis}", "Concat", parts, axis=axis)
    yield exact("lengths", "Concat", [f32(2, 1, 4), f32(2, 5, 4), f32(2, 2, 4)], axis=1)
    yield exact("empty", "Concat", [f32(2, 0), f32(2, 3)], axis=1)
    yield exact("constants", "Concat", [f32(2), f32(3), f32(1)], [0, 2], axis=0)
    yield exact("one", "Concat", [f32(2, 3)], axis=0)


CUT = Batch(18, cut_cases())

PADS = {
    "inner": (0, 0, 0, 2, 0, 0, 0, 3),
    "image": (0, 0, 1, 2, 0, 0, 3, 1),
    "channels": (0, 2, 0, 0, 0, 1, 0, 0),
    "all": (1, 1, 1, 1, 1, 1, 1, 1),
    "cut": (0, 0, -1, 2, 0, 0, 1, -2),
    "none": (0,) * 8,
}


def pad_cases():
    for mode in ("constant", "reflect", "edge", "wrap"):
        for name, pads in PADS.items():
            if mode != "constant" and name in ("all", "cut", "channels"):
                continue
            yield exact(f"{mode}-{name}", "Pad", [f32(2, 3, 5, 6), i64(*pads)], [1], mode=mode)
        yield exact(f"{mode}-row", "Pad", [f32(9), i64(4, 3)], [1], mode=mode)
    for mode in ("reflect", "edge", "wrap"):
        inputs = [f32(3, 4, 5), i64(2, 1, 1, 1, 2, 3)]
        yield exact(f"{mode}-every-axis", "Pad", inputs, [1], mode=mode)
    value = np.array(2.5, np.float32)
    yield exact("value", "Pad", [f32(3, 4), i64(1, 0, 0, 2), value], [1, 2])
    yield exact("computed-value", "Pad", [f32(3, 4), i64(1, 0, 0, 2), value], [1])
    yield exact("axes", "Pad", [f32(2, 3, 4), i64(1, 2), None, i64(-1)], [1, 3])
    numbers = RNG.integers(-9, 9, (3, 4))
    yield exact("i64", "Pad", [numbers, i64(1, 1, 1, 1), np.array(-1)], [1, 2])
    yield exact("u8", "Pad", [numbers.astype(np.uint8), i64(1, 1, 1, 1)], [1])
    yield exact("bool", "Pad", [numbers > 0, i64(1, 1, 1, 1)], [1])
    yield exact("empty", "Pad", [f32(0, 4), i64(1, 0, 2, 0)], [1])


PAD = Batch(19, pad_cases())

OLD = Batch(
    9,
    [
        exact("attributes", "Slice", [f32(5, 6)], starts=[1, -3], ends=[9, -1], axes=[0, 1]),
        exact("no-axes", "Slice", [f32(5, 6)], starts=[1], ends=[3]),
        exact("attribute", "Squeeze", [f32(1, 3, 1)], axes=[0]),
        exact("attribute", "Unsqueeze", [f32(3)], axes=[0, 2]),
        exact("attribute", "Split", [f32(2, 5)], axis=1, split=[1, 4], outputs=2),
        exact("even", "Split", [f32(4, 5)], outputs=2),
        exact("attributes", "Pad", [f32(3, 4)], pads=[1, 0, 0, 2], value=1.5),
        exact("reflect", "Pad", [f32(3, 4)], pads=[1, 0, 0, 2], mode="reflect"),
        exact("plain", "DepthToSpace", [f32(1, 8, 2, 3)], blocksize=2),
    ],
)


@pytest.mark.parametrize("part", [*RESHAPE])
def test_reshape(part):
    part.check()


@pytest.mark.parametrize("part", [*CUT])
def test_slice_split_and_concat(part):
    part.check()


@pytest.mark.parametrize("part", [*PAD])
def test_pad(part):
    part.check()


def space_to_depth(x, block):
    """Depth first, then the position inside the block."""
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // block, block, w // block, block)
    return blocks.transpose(0, 1, 3, 5, 2, 4).reshape(n, -1, h // block, w // block)


BLOCKS = f32(2, 3, 4, 6)
NEW = Batch(
    28,
    [
        exact(
            "depth-first",
            "SpaceToDepth",
            [BLOCKS],
            blocksize=2,
            mode="CRD",
            wanted=[space_to_depth(BLOCKS, 2)],
        )
    ],
)


@pytest.mark.parametrize("part", [*OLD, *NEW])
def test_versions(part):
    part.check()


CHANNELS_LAST = {
    "pad": [
        helper.make_node("Pad", ["p"], ["y"], pads=[0, 0, 1, 2, 0, 0, 2, 1], mode="edge"),
    ],
    "pad-channels": [helper.make_node("Pad", ["p"], ["y"], pads=[0, 1, 0, 2, 0, 2, 0, 1])],
    "argmax": [helper.make_node("ArgMax", ["p"], ["y"], axis=1)],
    "argmax-rows": [helper.make_node("ArgMax", ["p"], ["y"], axis=3, keepdims=0)],
    "reduce": [helper.make_node("ReduceSum", ["p"], ["y"], axes=[1])],
    "gather": [
        helper.make_node("Constant", [], ["i"], value_ints=[2, 0, 0]),
        helper.make_node("Gather", ["p", "i"], ["y"], axis=1),
    ],
}


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", CHANNELS_LAST)
def test_after_convolution(name, tmp_path):
    """Convolutions give channels-last results; later operators must see the logical order."""
    from nn_case import run_compiled

    x, w = f32(2, 3, 6, 7), f32(5, 3, 3, 3)
    nodes = [helper.make_node("Conv", ["x", "w"], ["p"], pads=[1] * 4), *CHANNELS_LAST[name]]
    network = graph_of(nodes, {"x": x}, ["y"], {"w": w}, opset=12 if "reduce" in name else 10)
    if "gather" in name:
        network.opset_import[0].version = 12
    if "pad" in name:
        network.opset_import[0].version = 10
    import onnxruntime

    session = onnxruntime.InferenceSession(network.SerializeToString())
    (wanted,) = session.run(None, {"x": x})
    found = run_compiled(network, {"x": x}, tmp_path)["y"]
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


REFUSED = {
    "Reshape": ([f32(4), i64(2, 2)], "the shape|shape"),
    "Pad": ([f32(2), i64(1, 1)], "pads"),
}


@pytest.mark.parametrize("op", REFUSED)
def test_computed_shape_is_refused(op):
    arrays, what = REFUSED[op]
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    network = graph_of([helper.make_node(op, list(feeds), ["y"], "layer")], feeds, ["y"], opset=18)
    with pytest.raises(UnsupportedError, match=f"layer .*({what}).*make it a constant"):
        pipeline.compile(network, executor="graph")


@pytest.mark.parametrize("op", ["Expand", "Tile", "ConstantOfShape", "HannWindow"])
def test_a_size_that_is_an_input_may_be_any(op, tmp_path):
    import onnxruntime

    def number(value: int) -> np.ndarray:
        return i64(value).reshape(()) if op == "HannWindow" else i64(value)

    x = [] if op in ("ConstantOfShape", "HannWindow") else [f32(1)]
    feeds = {f"x{i}": a for i, a in enumerate([*x, number(3)])}
    network = graph_of([helper.make_node(op, list(feeds), ["y"], "layer")], feeds, ["y"], opset=18)
    session = onnxruntime.InferenceSession(network.SerializeToString())
    loaded = tvmrt.load(network, cache=False)
    for size in (3, 0, 5000):
        feeds[list(feeds)[-1]] = number(size)
        np.testing.assert_allclose(loaded(feeds)["y"], session.run(None, feeds)[0], 1e-5, 1e-7)
    feeds[list(feeds)[-1]] = number(-2)
    with pytest.raises(ValueError, match="is -2, expected 0 to 2147483647"):
        loaded(feeds)


WRONG = {
    "reshape": ("Reshape", [f32(4), i64(3)], [1], {}, "as many elements as x"),
    "two-inferred": ("Reshape", [f32(4), i64(-1, -1)], [1], {}, r"\[-1, -1\].* one may be -1"),
    "below-1": ("Reshape", [f32(4), i64(-2, 2)], [1], {}, r"\[-2, 2\].* 0 or more"),
    "short-perm": ("Transpose", [f32(2, 3, 4)], [], {"perm": [0, 1]}, r"perm is \[0, 1\]"),
    "squeeze": ("Squeeze", [f32(4), i64(0)], [1], {}, "extent 1"),
    "split": ("Split", [f32(4), i64(1, 2)], [1], {}, "do not add up"),
    "zero-step": ("Slice", [f32(4), i64(0), i64(4), i64(0), i64(0)], [1, 2, 3, 4], {}, "is 0"),
    "run-time-zero-step": (
        "Slice",
        [f32(4), i64(0), i64(4), i64(0), i64(0)],
        [3, 4],
        {},
        "none may be 0",
    ),
    "run-time-axis": ("Slice", [f32(4), i64(0), i64(4), i64(1)], [3], {}, "axis 1 is outside"),
    "run-time-twice": (
        "Slice",
        [f32(4), i64(0, 0), i64(4, 4), i64(0, -1)],
        [3],
        {},
        "an axis twice",
    ),
    "blocks": ("DepthToSpace", [f32(1, 3, 2, 2)], [], {"blocksize": 2}, "not a multiple"),
    "over-cut": ("Pad", [f32(4), i64(-3, -3)], [1], {}, "cut more"),
    "mirror-nothing": ("Pad", [f32(0), i64(1, 1)], [1], {"mode": "edge"}, "no element"),
    "axis": ("Concat", [f32(2), f32(3)], [], {"axis": 3}, "axis 3"),
}


@pytest.mark.parametrize("name", WRONG)
def test_contradictory_shape_is_named(name):
    op, arrays, constants, attrs, what = WRONG[name]
    each = {f"x{i}": a for i, a in enumerate(arrays)}
    node = helper.make_node(op, list(each), ["y"], "layer", **attrs)
    feeds = {k: a for i, (k, a) in enumerate(each.items()) if i not in constants}
    weights = {k: a for i, (k, a) in enumerate(each.items()) if i in constants}
    with pytest.raises(ValueError, match=f"layer .*{what}"):
        pipeline.compile(graph_of([node], feeds, ["y"], weights, opset=18))
