"""Images as inputs, compared with numpy on equal pixels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.cli import image_inputs, main
from tvmrt.network.inputs import TensorInfo

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(3).integers(0, 256, (6, 4, 3), np.uint8)


@pytest.fixture
def picture(tmp_path):
    Image.fromarray(PIXELS).save(tmp_path / "in.png")
    return tmp_path / "in.png"


@pytest.mark.parametrize(
    ("shape", "dtype", "layout", "scale", "expected"),
    [
        ((1, 6, 4, 3), "uint8", "auto", None, PIXELS[None]),
        ((1, 3, 6, 4), "int8", "auto", None, PIXELS.astype(int).transpose(2, 0, 1)[None] - 128),
        ((3, 6, 4), "float32", "auto", None, PIXELS.transpose(2, 0, 1) / np.float32(255)),
        ((1, 6, 4, 3), "float32", "nhwc", "-1..1", PIXELS[None] / 127.5 - 1),
        ((1, 3, 6, 4), "float32", "nchw", "0..255", PIXELS.transpose(2, 0, 1)[None]),
    ],
)
def test_pixels_become_the_input(picture, shape, dtype, layout, scale, expected):
    found = image_inputs.load(picture, [TensorInfo("x", dtype, shape)], layout, scale)["x"]
    assert found.shape == shape
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_image_is_resized_to_the_input(picture):
    found = image_inputs.load(picture, [TensorInfo("x", "uint8", (1, 1, 12, 8))])["x"]
    grey = PIXELS @ [0.299, 0.587, 0.114]
    assert abs(found.mean() - grey.mean()) < 2


@pytest.mark.parametrize(
    ("infos", "layout", "message"),
    [
        ([("x", (1, 10))], "auto", "is not a picture of 1, 3 or 4 channels"),
        ([("x", (1, 3, 6, 5))], "nhwc", "with --layout nhwc"),
        ([("x", (1, 3, 6, 4)), ("y", (1,))], "auto", "the network has x, y"),
    ],
)
def test_image_for_another_input_is_refused(picture, infos, layout, message):
    with pytest.raises(ValueError, match=message):
        image_inputs.load(picture, [TensorInfo(n, "float32", s) for n, s in infos], layout)


def test_file_that_is_not_an_image_is_refused(tmp_path):
    (tmp_path / "in.png").write_bytes(b"no")
    with pytest.raises(ValueError, match="Pillow cannot read this picture"):
        image_inputs.load(tmp_path / "in.png", [TensorInfo("x", "uint8", (1, 3, 6, 4))])


def test_run_takes_an_image(picture, tmp_path):
    shape = [1, 3, 6, 4]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "n", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    tvmrt.compile(model).export(tmp_path / "n.so")
    line = ["run", tmp_path / "n.so", "--inputs", picture, "--outputs", tmp_path / "out.npz"]
    assert main([*map(str, line), "--scale", "0..255"]) == 0
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_array_equal(found["y"], -PIXELS.transpose(2, 0, 1)[None].astype("f4"))
