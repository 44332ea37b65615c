"""A small Mask R-CNN head: masks of found boxes, each resized to its box and pasted."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto, helper
from test_sizes_in_firmware_graphs import check as check_runs
from test_sizes_in_firmware_graphs import compiled, firmware, on_this_machine  # noqa: F401

import tvmrt

runtime = pytest.importorskip("onnxruntime")

BOOL, BOXES, SIDE, HEIGHT, WIDTH = TensorProto.BOOL, 6, 4, 12, 10
info = helper.make_tensor_value_info


def whole(d, *numbers):
    return d.constant(list(numbers), np.int64)


def element(d, box, place):
    """Return an element of the box as a vector of one."""
    return d.node("Slice", [box, whole(d, place), whole(d, place + 1), whole(d, 0)])


def largest(d, *vectors):
    return d.node("ReduceMax", [d.node("Concat", list(vectors), axis=0)], axes=[0], keepdims=1)


def smallest(d, *vectors):
    return d.node("ReduceMin", [d.node("Concat", list(vectors), axis=0)], axes=[0], keepdims=1)


def zeros(d, rows, columns):
    return d.node("ConstantOfShape", [d.node("Concat", [rows, columns], axis=0)])


def extent(d, x, axis):
    return d.node("Slice", [d.node("Shape", [x]), whole(d, axis), whole(d, axis + 1)])


def pasted(d, mask, box):
    """Return the mask in an image of zeros, as torchvision exports it."""
    left, top, right, bottom = (element(d, box, i) for i in range(4))
    one, zero = whole(d, 1), whole(d, 0)
    width = largest(d, d.node("Add", [d.node("Sub", [right, left]), one]), one)
    height = largest(d, d.node("Add", [d.node("Sub", [bottom, top]), one]), one)
    sizes = d.node("Concat", [whole(d, 1, 1), height, width], axis=0)
    mask = d.node("Unsqueeze", [mask, whole(d, 0, 1)])
    large = d.node(
        "Resize", [mask, "", "", sizes], mode="linear",
        coordinate_transformation_mode="pytorch_half_pixel",
    )  # fmt: skip
    large = d.node("Squeeze", [large, whole(d, 0, 1)])
    x0, y0 = largest(d, left, zero), largest(d, top, zero)
    x1 = smallest(d, d.node("Add", [right, one]), whole(d, WIDTH))
    y1 = smallest(d, d.node("Add", [bottom, one]), whole(d, HEIGHT))
    for axis, (first, last, start) in enumerate(((y0, y1, top), (x0, x1, left))):
        cut = [d.node("Sub", [place, start]) for place in (first, last)]
        large = d.node("Slice", [large, *cut, whole(d, axis)])
    above = zeros(d, y0, extent(d, large, 1))
    below = zeros(d, d.node("Sub", [whole(d, HEIGHT), y1]), extent(d, large, 1))
    tall = d.node("Concat", [above, large, below], axis=0)
    tall = d.node("Slice", [tall, zero, whole(d, HEIGHT), whole(d, 0)])
    before = zeros(d, extent(d, tall, 0), x0)
    after = zeros(d, extent(d, tall, 0), d.node("Sub", [whole(d, WIDTH), x1]))
    wide = d.node("Concat", [before, tall, after], axis=1)
    return d.node("Slice", [wide, zero, whole(d, WIDTH), whole(d, 1)])


def head():
    """Return scores, boxes and masks of proposals; a Loop pastes the masks that are kept."""
    d = Draft()
    kept = d.node("Greater", ["scores", d.constant(0.5, "f")])
    maximum = d.constant([WIDTH - 1, HEIGHT - 1] * 2, "f")
    inside = d.node("Max", [d.node("Min", ["boxes", maximum]), d.constant(0.0, "f")])
    boxes = d.node("Compress", [inside, kept], axis=0)
    masks = d.node("Compress", [d.node("Sigmoid", ["masks"]), kept], axis=0)
    around = d.node("Add", [boxes, d.constant([-1.2, -1.2, 1.2, 1.2], "f")])
    places = d.node("Cast", [around], to=INT64)
    count = d.node("Gather", [d.node("Shape", [boxes]), d.constant(0, np.int64)])
    b = Draft(1, "in_")
    image = pasted(
        b, b.node("Gather", [masks, "i"], axis=0), b.node("Gather", [places, "i"], axis=0)
    )
    more = b.node("Concat", ["have", b.node("Unsqueeze", [image, whole(b, 0)])], axis=0)
    on = b.node("Identity", ["go"])
    body = helper.make_graph(
        b.nodes,
        "paste",
        [info("i", INT64, []), info("go", BOOL, []), info("have", FLOAT, ["n", HEIGHT, WIDTH])],
        [info(on, BOOL, []), info(more, FLOAT, ["m", HEIGHT, WIDTH])],
        b.weights,
    )
    none = d.node("ConstantOfShape", [whole(d, 0, HEIGHT, WIDTH)])
    d.nodes.append(
        helper.make_node("Loop", [count, d.constant(True, bool), none], ["y"], "loop", body=body)
    )
    inputs = {
        "scores": (FLOAT, [BOXES]),
        "boxes": (FLOAT, [BOXES, 4]),
        "masks": (FLOAT, [BOXES, SIDE, SIDE]),
    }
    return d.model(inputs, {boxes: FLOAT, "y": FLOAT})


def inputs(rng, share):
    corner = rng.random((BOXES, 2)) * [WIDTH, HEIGHT] - 1
    sides = rng.random((BOXES, 2)) * [WIDTH, HEIGHT]
    return {
        "scores": np.float32(rng.random(BOXES) * share + (share > 2)),
        "boxes": np.float32(np.concatenate([corner, corner + sides], 1)),
        "masks": rng.normal(size=(BOXES, SIDE, SIDE)).astype(np.float32),
    }


def test_masks_are_pasted_where_their_boxes_are():
    model = head()
    net = tvmrt.load(model, cache=False)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options)
    rng = np.random.default_rng(3)
    for share in (1, 0.4, 9, 1.2, 1):
        feed = inputs(rng, share)
        found, expected = net(feed), session.run(None, feed)
        assert found["y"].shape == expected[1].shape == (len(expected[0]), HEIGHT, WIDTH)
        np.testing.assert_allclose(found["y"], expected[1], 1e-4, 1e-5)
        assert len(expected[0]) == (0 if share < 0.5 else BOXES if share > 2 else len(expected[0]))


@pytest.mark.slow
def test_masks_are_pasted_in_graphs_of_firmware(firmware, tmp_path):  # noqa: F811
    """Buffers have exactly the stated size, checked by sanitizers."""
    model, rng = head(), np.random.default_rng(4)
    runs = [inputs(rng, share) for share in (1, 0.4, 9, 1.2)]
    check_runs(model, runs, on_this_machine(compiled(model, {}), runs, tmp_path, firmware))
