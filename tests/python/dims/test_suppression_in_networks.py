"""Detectors with non-maximum suppression and a fixed number of result rows, as ultralytics exports
them: for each image boxes offset by class, suppressed, gathered, padded."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto, helper

import tvmrt

runtime = pytest.importorskip("onnxruntime")

BOOL, BOXES, CLASSES, MAX_DETECTIONS = TensorProto.BOOL, 24, 3, 5
info = helper.make_tensor_value_info


def whole(d, *numbers):
    return d.constant(list(numbers), np.int64)


def selected(d, rows, mask):
    """Select rows by a mask; PyTorch writes a NonZero for each use of it."""
    places = d.node("Transpose", [d.node("NonZero", [mask])], perm=[1, 0])
    return d.node("GatherND", [rows, places])


def detections(d, boxes, scores):
    """Return the best rows of one image, of boxes [n, 4] and scores [n, classes], zero-padded."""
    best = d.node("ReduceMax", [scores], axes=[1], keepdims=0)
    label = d.node("ArgMax", [scores], axis=1, keepdims=0)
    mask = d.node("Greater", [best, d.constant(0.5, "f")])
    boxes, best, label = (selected(d, rows, mask) for rows in (boxes, best, label))
    label = d.node("Unsqueeze", [d.node("Cast", [label], to=FLOAT), whole(d, 1)])
    rows = d.node("Slice", [d.node("Shape", [label]), whole(d, 0), whole(d, 1)])
    offsets = d.node("Expand", [label, d.node("Concat", [rows, whole(d, 4)], axis=0)])
    moved = d.node("Add", [boxes, d.node("Mul", [offsets, d.constant(9.0, "f")])])
    kept = d.node(
        "NonMaxSuppression",
        [
            d.node("Unsqueeze", [moved, whole(d, 0)]),
            d.node("Unsqueeze", [best, whole(d, 0, 1)]),
            d.constant(np.iinfo(np.int64).max, np.int64),
            d.constant(0.45, "f"),
        ],
    )
    keep = d.node("Squeeze", [d.node("Gather", [kept, whole(d, 2)], axis=1), whole(d, 1)])
    keep = d.node("Slice", [keep, whole(d, 0), whole(d, MAX_DETECTIONS), whole(d, 0)])
    parts = [boxes, d.node("Unsqueeze", [best, whole(d, 1)]), label]
    found = d.node("Concat", [d.node("Gather", [p, keep], axis=0) for p in parts], axis=1)
    count = d.node("Gather", [d.node("Shape", [found]), d.constant(0, np.int64)])
    missing = d.node("Sub", [d.constant(MAX_DETECTIONS, np.int64), count])
    pads = [whole(d, 0, 0), d.node("Unsqueeze", [missing, whole(d, 0)]), whole(d, 0)]
    return d.node("Pad", [found, d.node("Concat", pads, axis=0)])


def unrolled(images):
    """Return a copy of the nodes for each image."""
    d, found = Draft(), []
    for i in range(images):
        image = [d.node("Gather", [x, d.constant(i, np.int64)], axis=0) for x in "bs"]
        found.append(d.node("Unsqueeze", [detections(d, *image), whole(d, 0)]))
    y = d.node("Concat", found, axis=0)
    return d.model({"b": (FLOAT, [images, BOXES, 4]), "s": (FLOAT, [images, BOXES, CLASSES])},
                   {y: FLOAT})  # fmt: skip


def looped(images):
    """Return a Loop over the images, whose number may be dynamic."""
    body = Draft(1, "in_")
    row = detections(body, *(body.node("Gather", [x, "i"], axis=0) for x in "bs"))
    go = body.node("Identity", ["went"])
    d = Draft()
    count = d.node("Gather", [d.node("Shape", ["b"]), d.constant(0, np.int64)])
    graph = helper.make_graph(
        body.nodes,
        "image",
        [info("i", INT64, []), info("went", BOOL, [])],
        [info(go, BOOL, []), info(row, FLOAT, [MAX_DETECTIONS, 6])],
        body.weights,
    )
    inputs = [count, d.constant(True, bool)]
    d.nodes.append(helper.make_node("Loop", inputs, ["y"], "images", body=graph))
    return d.model({"b": (FLOAT, [images, BOXES, 4]), "s": (FLOAT, [images, BOXES, CLASSES])},
                   {"y": FLOAT})  # fmt: skip


def inputs(rng, images, share):
    """Return boxes of images: a small share finds none, a large one all."""
    corner = rng.random((images, BOXES, 2)) * 4
    boxes = np.concatenate([corner, corner + rng.random(corner.shape) * 3 + 0.1], -1)
    scores = rng.random((images, BOXES, CLASSES)) * share + 0.6 * (share > 1)
    return {"b": np.float32(boxes), "s": np.float32(scores)}


@pytest.mark.parametrize(
    "model, dims, images",
    [
        pytest.param(unrolled(1), {}, [1], id="one image"),
        pytest.param(unrolled(2), {}, [2], id="unrolled", marks=pytest.mark.slow),
        pytest.param(looped(9), {}, [9], id="loop", marks=pytest.mark.slow),
        pytest.param(looped("n"), {"n": (1, 12)}, [12, 1, 7], id="loop of an open batch"),
    ],
)
def test_detections_of_a_fixed_number(model, dims, images):
    net = tvmrt.load(model, dims=dims, cache=False)
    session = runtime.InferenceSession(model.SerializeToString())
    rng, empty, full = np.random.default_rng(3), 0, 0
    for count in images:
        for share in (1, 0.4, 5, 0.7, 0.52):
            feed = inputs(rng, count, share)
            (expected,), (found,) = session.run(None, feed), net(feed).values()
            assert found.shape == expected.shape == (count, MAX_DETECTIONS, 6)
            np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
            empty += not expected.any()
            full += bool((expected[..., 4] > 0).all())
    assert empty and full
