"""Constraints on several sizes together, which a run checks before it computes anything.

The reference is onnxruntime without optimisations, at each size.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from dynamic_networks import FLOAT, Draft
from test_size_constraints import expected, load
from test_sizes_in_firmware_graphs import compiled, firmware, on_this_machine  # noqa: F401

pytest.importorskip("onnxruntime")


def area_attention(infer_areas: bool) -> onnx.ModelProto:
    """Attention within four areas of equally many pixels each. With ``infer_areas`` the number of
    areas of all images is -1 in the Reshape."""
    d, channels, heads = Draft(3), 8, 2
    n, h, w = (d.node("Shape", ["x"], start=axis, end=axis + 1) for axis in (0, 2, 3))
    four, each = d.constant([4], np.int64), d.constant([3 * channels], np.int64)
    pixels = d.node("Mul", [h, w])
    part, areas = d.node("Div", [pixels, four]), d.node("Mul", [n, four])
    left = d.constant([-1], np.int64)
    x = d.node("Conv", ["x", d.weight(3 * channels, channels, 1, 1)])
    x = d.node("Reshape", [x, d.node("Concat", [n, each, left], axis=0)])
    shape = d.node("Concat", [left if infer_areas else areas, part, each], axis=0)
    x = d.node("Reshape", [d.node("Transpose", [x], perm=[0, 2, 1]), shape])
    per_head = d.constant([heads, 3 * channels // heads], np.int64)
    x = d.node("Reshape", [x, d.node("Concat", [areas, part, per_head], axis=0)])
    q, k, v = d.node("Split", [d.node("Transpose", [x], perm=[0, 2, 1, 3])], 3, axis=3)
    scores = d.node("MatMul", [q, d.node("Transpose", [k], perm=[0, 1, 3, 2])])
    y = d.node("MatMul", [d.node("Softmax", [scores], axis=-1), v])
    whole = d.node("Concat", [n, h, w, d.constant([channels], np.int64)], axis=0)
    y = d.node("Reshape", [d.node("Transpose", [y], perm=[0, 2, 1, 3]), whole])
    return d.model({"x": (FLOAT, ["n", channels, "h", "w"])}, {y: FLOAT})


def positions() -> onnx.ModelProto:
    """Add 48 positions of weights to the pixels of an image."""
    d = Draft(4)
    shape = d.node("Concat", [d.node("Shape", ["x"], end=2), d.constant([-1], np.int64)], axis=0)
    rows = d.node("Transpose", [d.node("Reshape", ["x", shape])], perm=[0, 2, 1])
    y = d.node("MatMul", [d.node("Add", [rows, d.weight(1, 48, 3)]), d.weight(3, 5)])
    return d.model({"x": (FLOAT, ["n", 3, "h", "w"])}, {y: FLOAT})


def layer_of_all() -> onnx.ModelProto:
    """A fully connected layer of 96 inputs: the pixels of two channels."""
    d = Draft(5)
    y = d.node("Gemm", [d.node("Flatten", ["x"]), d.weight(96, 5)])
    return d.model({"x": (FLOAT, ["n", 2, "h", "w"])}, {y: FLOAT})


def rows_of_four() -> onnx.ModelProto:
    """Reshape all axes to rows of four elements."""
    d = Draft(6)
    rows = d.node("Softmax", [d.node("Reshape", ["x", d.constant([-1, 4], np.int64)])], axis=-1)
    y = d.node("Reshape", [rows, d.node("Shape", ["x"])])
    return d.model({"x": (FLOAT, ["h", "w"])}, {y: FLOAT})


def pyramid(ceil_mode: bool) -> onnx.ModelProto:
    """Three levels, each joined with the upsampled one below it. They are made by poolings that
    round up, or by convolutions with stride and padding."""
    d = Draft(11)
    conv, up = {"pads": [1] * 4}, {"mode": "nearest", "nearest_mode": "floor"}
    up["coordinate_transformation_mode"] = "asymmetric"
    levels, x = [], "x"
    for _ in range(3):
        if ceil_mode:
            x = d.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
        else:
            x = d.node("Conv", [x, d.weight(3, 3, 3, 3)], strides=[2, 2], **conv)
        levels.append(x)
    twice = d.constant([1, 1, 2, 2], np.float32)
    for side in levels[1::-1]:
        x = d.node("Concat", [d.node("Resize", [x, "", twice], **up), side], axis=1)
        x = d.node("Conv", [x, d.weight(3, 6, 3, 3)], **conv)
    return d.model({"x": (FLOAT, ["n", 3, "h", "w"])}, {x: FLOAT})


MANY = [(1, 4, 4), (2, 6, 10), (2, 16, 5), (1, 3, 3), (1, 2, 2), (2, 15, 5)]
OF_48 = [(1, 6, 8), (2, 3, 16), (2, 16, 3), (1, 4, 4), (2, 12, 4)]
NETWORKS = {
    "area attention": (area_attention(False), 8, MANY, "is a multiple of 4"),
    "areas that are left": (area_attention(True), 8, MANY, "is a multiple of 4"),
    "positions": (positions(), 3, OF_48, "is 48"),
    "layer of all": (layer_of_all(), 2, OF_48, "is 48"),
}


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("name", NETWORKS)
def test_valid_sizes_run(name, executor):
    model, channels, sizes, words = NETWORKS[name]
    dims = {"n": (1, 2), "h": (2, 16), "w": (2, 16)}
    net, remarks = load(model, dims, executor=executor)
    assert any(f"sizes at which (h * w) {words}, as node" in text for text in remarks)
    rng, ran = np.random.default_rng(7), 0
    for n, h, w in sizes:
        inputs = {"x": rng.normal(size=(n, channels, h, w)).astype(np.float32)}
        right = expected(model, inputs)
        if right is None:
            with pytest.raises(ValueError, match=rf"sizes \[h, w\]: the run has \[{h}, {w}\]"):
                net(inputs)
            continue
        (found,) = net(inputs).values()
        assert found.shape == right.shape
        np.testing.assert_allclose(found, right, 1e-4, 1e-5)
        ran += 1
    assert 0 < ran < len(sizes)


@pytest.mark.parametrize("ceil_mode", [True, False])
def test_constraints_without_a_stride(ceil_mode):
    """Not only multiples of 8 are valid."""
    model, rng = pyramid(ceil_mode), np.random.default_rng(12)
    net, remarks = load(model, {"n": (1, 2), "h": (8, 40), "w": (9, 33)})
    for name in "hw":
        assert any(f"at which {name} modulo 8 is 0 or 7, as node" in text for text in remarks)
    for h in range(8, 41):
        inputs = {"x": rng.normal(size=(1, 3, h, 32 - h % 2)).astype(np.float32)}
        right = expected(model, inputs)
        assert (right is not None) == (h % 8 in (0, 7))
        if right is not None:
            (found,) = net(inputs).values()
            np.testing.assert_allclose(found, right, 1e-4, 1e-5 * np.abs(right).max())
        else:
            with pytest.raises(
                ValueError, match=rf"\[h\]: the run has \[{h}\], .* modulo 8 is 0 or 7"
            ):
                net(inputs)


def test_equal_areas_of_two_inputs():
    """Two images of different shapes must have equally many pixels."""
    d = Draft(8)
    flat = d.constant([-1], np.int64)
    y = d.node("Add", [d.node("Reshape", [x, flat]) for x in ("x", "z")])
    model = d.model({"x": (FLOAT, ["a", "b"]), "z": (FLOAT, ["c", "d"])}, {y: FLOAT})
    net, remarks = load(model, dict.fromkeys("abcd", (1, 8)))
    assert any("at which (a * b) is (c * d), as node" in text for text in remarks)
    for one, other, fits in [((2, 6), (3, 4), 1), ((8, 8), (8, 8), 1), ((5, 6), (3, 4), 0)]:
        x, z = (np.float32(np.random.default_rng(9).normal(size=s)) for s in (one, other))
        if fits:
            np.testing.assert_array_equal(net({"x": x, "z": z})[y], x.ravel() + z.ravel())
        else:
            with pytest.raises(ValueError, match=r"the run has \[5, 6, 3, 4\]"):
                net({"x": x, "z": z})


def test_sizes_that_never_fit_together_are_refused_when_compiling():
    with pytest.raises(ValueError, match=r"operand b is float32\[96, 5\], .*h \* w \* 2"):
        load(layer_of_all(), {"n": (1, 2), "h": (1, 4), "w": (1, 11)})


@pytest.mark.slow
def test_runtime_checks_in_firmware_graphs(firmware, tmp_path):  # noqa: F811
    """A run of invalid sizes fails there as well, without findings of the sanitizers."""
    model, rng = rows_of_four(), np.random.default_rng(10)
    library = compiled(model, {"h": (1, 12), "w": (1, 12)})
    sizes = [(12, 12), (2, 6), (3, 7), (5, 4)]
    runs = [{"x": np.float32(rng.normal(size=each))} for each in sizes]
    found = on_this_machine(library, runs, tmp_path, firmware)
    assert [code == 0 for code, *_ in found] == [h * w % 4 == 0 for h, w in sizes]
    for inputs, (code, _, results) in zip(runs, found):
        if code == 0:
            np.testing.assert_allclose(results[0], expected(model, inputs), 1e-5)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_last_window_may_start_past_the_end(op):
    """Two poolings that round up: at some sizes the last window would cover padding only, and is
    left out."""
    d, rng = Draft(13), np.random.default_rng(14)
    x = d.node("MaxPool", ["x"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    pads = {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1] * 4, "ceil_mode": 1}
    model = d.model({"x": (FLOAT, ["n", 3, "h", "w"])}, {d.node(op, [x], **pads): FLOAT})
    net, _ = load(model, {"n": (1, 2), "h": (4, 40), "w": (5, 33)})
    for h in range(4, 41, 3):
        inputs = {"x": rng.normal(size=(1, 3, h, 5 + h % 29)).astype(np.float32)}
        (found,), right = net(inputs).values(), expected(model, inputs)
        assert found.shape == right.shape
        np.testing.assert_allclose(found, right, 1e-5, 1e-6)
