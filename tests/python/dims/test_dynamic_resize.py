"""Images of any size, resized by scales or to another image's size, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from any_size_case import assert_close, loaded, results
from dynamic_networks import FLOAT, Draft

import tvmrt

runtime = pytest.importorskip("onnxruntime")

BY_FACTORS = {
    "linear": ([1, 1, 2, 2], {"mode": "linear"}),
    "align corners": (
        [1, 1, 3, 2],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    "larger and smaller": (
        [1, 1, 1.5, 0.5],
        {"mode": "linear", "coordinate_transformation_mode": "asymmetric"},
    ),
    "cubic": ([1, 1, 2, 3], {"mode": "cubic"}),
    "antialias": ([1, 1, 0.5, 1.5], {"mode": "linear", "antialias": 1}),
    "antialias, cubic": (
        [1, 1, 0.25, 0.5],
        {"mode": "cubic", "antialias": 1, "exclude_outside": 1},
    ),
    "nearest by a fraction": ([1, 1, 1.5, 2], {"mode": "nearest", "nearest_mode": "floor"}),
}
TO_SIZES = {
    "linear": {"mode": "linear"},
    "nearest": {
        "mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor",
    },
    "antialias": {"mode": "linear", "antialias": 1},
    "one element": {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
}  # fmt: skip


def check(model, dims, runs, tmp_path):
    model.opset_import[0].version = 18  # of antialias
    network = loaded(tvmrt.compile(model, dims=dims), tmp_path, "graph")
    session = runtime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(3)
    for shapes in runs:
        inputs = {name: rng.random(shape).astype(np.float32) for name, shape in shapes.items()}
        assert_close(results(network, inputs), session.run(None, inputs))


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", BY_FACTORS)
def test_resize_by_scales(name, tmp_path):
    factors, attrs = BY_FACTORS[name]
    draft = Draft()
    y = draft.node("Resize", ["x", "", draft.constant(factors, "f")], **attrs)
    model = draft.model({"x": (FLOAT, [1, 2, "H", "W"])}, {y: FLOAT})
    runs = [{"x": (1, 2, h, w)} for h, w in ((8, 9), (2, 2), (5, 3), (8, 9))]
    check(model, {"H": 8, "W": (2, 9)}, runs, tmp_path)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", BY_FACTORS)
def test_fixed_number_of_rows(name, tmp_path):
    """The row stride is the dynamic number of columns."""
    factors, attrs = BY_FACTORS[name]
    draft = Draft()
    y = draft.node("Resize", ["x", "", draft.constant(factors, "f")], **attrs)
    model = draft.model({"x": (FLOAT, [1, 2, 6, "W"])}, {y: FLOAT})
    check(model, {"W": (2, 9)}, [{"x": (1, 2, 6, w)} for w in (9, 2, 5)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", TO_SIZES)
def test_resize_to_another_image(name, tmp_path):
    draft = Draft()
    y = draft.node("Resize", ["x", "", "", draft.node("Shape", ["like"])], **TO_SIZES[name])
    inputs = {"x": (FLOAT, [1, 2, "H", "W"]), "like": (FLOAT, [1, 2, "P", "Q"])}
    runs = [
        {"x": (1, 2, *x), "like": (1, 2, *like)}
        for x, like in (((8, 9), (16, 17)), ((3, 4), (3, 1)), ((5, 1), (2, 10)), ((8, 9), (5, 5)))
    ]
    check(draft.model(inputs, {y: FLOAT}), {"H": 8, "W": 9, "P": 16, "Q": 17}, runs, tmp_path)


COORDINATES = ("align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric",
               "pytorch_half_pixel", "tf_crop_and_resize")  # fmt: skip


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_one_element_of_a_picture_without_bounds(coordinates, mode):
    """Sizes without a bound are too large for exact coordinates."""
    draft = Draft()
    roi = draft.constant([0, 0, 0.1, 0.2, 1, 1, 0.9, 0.7], np.float32)
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
    y = draft.node("Resize", ["x", roi, "", draft.node("Shape", ["like"])], **attrs)
    sizes = {"x": (FLOAT, [1, 2, "H", "W"]), "like": (FLOAT, [1, 2, "A", "B"])}
    model = draft.model(sizes, {y: FLOAT})
    model.opset_import[0].version = 19
    network = tvmrt.load(model, cache=False)
    session = runtime.InferenceSession(model.SerializeToString())
    x = np.random.default_rng(3).random((1, 2, 4, 5)).astype(np.float32)
    for size in ((1, 1), (1, 3), (6, 1), (7, 8)):
        inputs = {"x": x, "like": np.zeros((1, 2, *size), np.float32)}
        assert_close([network(inputs)[y]], session.run(None, inputs))


def test_irrational_scale(tmp_path):
    draft = Draft()
    y = draft.node("Resize", ["x", "", draft.constant([1, 1, 1, np.pi], "f")], mode="linear")
    model = draft.model({"x": (FLOAT, [1, 2, 3, "W"])}, {y: FLOAT})
    check(model, {"W": 60000}, [{"x": (1, 2, 3, w)} for w in (1, 7, 113, 59999, 60000)], tmp_path)


# The shorter side of an image becomes 16 pixels, but the longer one at most 40, as in detectors.
SHORTER_SIDE = """
    <ir_version: 9, opset_import: ["" : 18]>
    g (float[1,1,height,width] x) => (float[1,1,a,b] y) {
        s = Shape<start=2>(x) f = Shape<end=2>(x)
        least = ReduceMin<keepdims=0>(s) lf = Cast<to=1>(least) lr = Reciprocal(lf)
        c = Constant<value_float=16.0>() d = Constant<value_float=40.0>() by = Mul(lr, c)
        most = ReduceMax<keepdims=0>(s) mf = Cast<to=1>(most) mr = Reciprocal(mf)
        limit = Mul(mr, d) scale = Min(by, limit)
        sf = Cast<to=1>(s) scaled = Mul(sf, scale) whole = Floor(scaled) n = Cast<to=7>(whole)
        sizes = Concat<axis=0>(f, n)
        y = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , , sizes) }"""


def test_open_images_are_scaled_to_their_shorter_side():
    model = onnx.parser.parse_model(SHORTER_SIDE)
    network = tvmrt.load(model, cache=False)
    session = runtime.InferenceSession(model.SerializeToString())
    for height, width in ((32, 32), (20, 90), (7, 5), (300, 200)):
        x = np.random.default_rng(0).uniform(-1, 1, (1, 1, height, width)).astype(np.float32)
        (expected,) = session.run(None, {"x": x})
        found = network({"x": x})["y"]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-4, 1e-4)
