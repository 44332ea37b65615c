"""Equal data-dependent sizes: masks of the same elements give the same symbol."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto

import tvmrt

runtime = pytest.importorskip("onnxruntime")

BOOL = TensorProto.BOOL
MASKS = {
    "again": lambda d: d.node("Greater", ["x", d.constant(0.5, "f")]),
    "swapped": lambda d: d.node("Less", [d.constant(0.5, "f"), "x"]),
    "copied": lambda d: d.node("Identity", [d.node("Greater", ["x", d.constant(0.5, "f")])]),
    "cast": lambda d: d.node(
        "Cast",
        [d.node("Cast", [d.node("Greater", ["x", d.constant(0.5, "f")])], to=INT64)],
        to=BOOL,
    ),
    "negated twice": lambda d: d.node(
        "Not", [d.node("Not", [d.node("Greater", ["x", d.constant(0.5, "f")])])]
    ),
    "expanded": lambda d: d.node(
        "Expand", [d.node("Greater", ["x", d.constant(0.5, "f")]), d.constant([20], np.int64)]
    ),
    "chosen": lambda d: d.node(
        "Where",
        [
            d.node("Greater", ["x", d.constant(0.5, "f")]),
            d.constant(1.0, "f"),
            d.constant(0.0, "f"),
        ],
    ),
    "both": lambda d: d.node("And", [d.node("Less", [d.constant(0.5, "f"), "x"]), "there"]),
}


def selected(d: Draft, rows: str, mask: str) -> str:
    """Select rows by a mask, as PyTorch writes ``rows[mask]``."""
    places = d.node("Transpose", [d.node("NonZero", [mask])], perm=[1, 0])
    return d.node("GatherND", [rows, places])


def inputs(rng, share):
    return {
        "x": (rng.random(20) * share).astype(np.float32),
        "there": np.ones(20, bool),
        "boxes": rng.normal(size=(20, 4)).astype(np.float32),
        "offsets": rng.normal(size=(20, 4)).astype(np.float32),
    }


KINDS = {"x": (FLOAT, [20]), "there": (BOOL, [20])}
KINDS.update({name: (FLOAT, [20, 4]) for name in ("boxes", "offsets")})


def check(model, runs):
    """Compare runs of a compiled model with onnxruntime."""
    net = tvmrt.load(model, cache=False)
    session = runtime.InferenceSession(model.SerializeToString())
    for feed in runs:
        names = [i.name for i in session.get_inputs()]
        given = {name: feed[name] for name in names}
        found = net(given)
        for info, expected in zip(session.get_outputs(), session.run(None, given)):
            assert found[info.name].shape == expected.shape
            np.testing.assert_allclose(found[info.name], expected, 1e-5, 1e-6)
    return net


def counted(model):
    """Return the names of the data-dependent sizes."""
    library = tvmrt.compile(model)
    found = {s.name for step in library.program.steps for s in step.symbols()}
    return found | {s.name for s in library.program.data_dependent_dims}


@pytest.mark.parametrize("name", MASKS)
def test_selections_by_the_same_mask_are_added(name):
    d = Draft()
    first = MASKS["both" if name == "both" else "again"](d)
    kept = selected(d, "boxes", first), selected(d, "offsets", MASKS[name](d))
    model = d.model(KINDS, {d.node("Add", list(kept)): FLOAT})
    rng = np.random.default_rng(3)
    check(model, [inputs(rng, share) for share in (0.4, 1, 0.8, 9)])
    assert len(counted(model)) == 1


def test_moves_and_copies_of_a_mask_are_counted_once():
    """A mask of columns, its transpose, its number of true elements, and its use by Compress."""
    d = Draft()
    mask = d.node("Greater", ["x", d.constant(0.5, "f")])
    column = d.node("Reshape", [mask, d.constant([20, 1], np.int64)])
    wide = d.node("NonZero", [d.node("Expand", [column, d.constant([20, 4], np.int64)])])
    places = d.node("Transpose", [wide], perm=[1, 0])
    values = d.node("GatherND", ["boxes", places])  # four of each row
    again = d.node("GatherND", ["offsets", places])
    rows = d.node("Reshape", [d.node("Mul", [values, again]), d.constant([-1, 4], np.int64)])
    turned = d.node("NonZero", [d.node("Transpose", [column], perm=[1, 0])])
    weights = d.node("Cast", [d.node("Transpose", [turned], perm=[1, 0])], to=FLOAT)
    last = d.node("Slice", [weights, *(d.constant([n], np.int64) for n in (1, 2, 1))])
    y = d.node("Add", [d.node("Mul", [rows, last]), d.node("Compress", ["boxes", mask], axis=0)])
    model = d.model(KINDS, {y: FLOAT})
    rng = np.random.default_rng(4)
    check(model, [inputs(rng, share) for share in (0.4, 1, 0.8, 9)])
    assert len(counted(model)) == 1


def test_suppressions_of_the_same_boxes_are_one():
    """Boxes and scores of kept rows, with one suppression for each, as exporters write it."""
    d = Draft()
    numbers = [d.constant(5, np.int64), d.constant(0.4, "f"), d.constant(0.3, "f")]
    parts = []
    for source, axis in (("b", 1), ("s", 2)):
        kept = d.node("NonMaxSuppression", ["b", "s", *numbers])
        which = d.node("Gather", [kept, d.constant(2, np.int64)], axis=1)
        parts.append(d.node("Gather", [source, which], axis=axis))
    scores = d.node("Transpose", [parts[1]], perm=[0, 2, 1])
    y = d.node("Concat", [parts[0], scores], axis=2)
    model = d.model({"b": (FLOAT, [1, 12, 4]), "s": (FLOAT, [1, 1, 12])}, {y: FLOAT})
    rng = np.random.default_rng(5)
    corner = rng.random((4, 1, 12, 2)) * 2
    boxes = np.concatenate([corner, corner + rng.random(corner.shape)], -1)
    scores = rng.random((4, 1, 1, 12)) * np.array([1, 0.2, 0.6, 1])[:, None, None, None]
    check(model, [{"b": np.float32(b), "s": np.float32(s)} for b, s in zip(boxes, scores)])
    assert len(counted(model)) == 1


@pytest.mark.parametrize("other", ["GreaterOrEqual", "Less"])
def test_masks_of_other_elements_are_other_sizes(other):
    d = Draft()
    limit = d.constant(0.5, "f")
    outputs = {selected(d, "boxes", d.node(op, ["x", limit])): FLOAT for op in ("Greater", other)}
    model = d.model(KINDS, outputs)
    feed = inputs(np.random.default_rng(6), 1)
    feed["x"][:3] = 0.5
    check(model, [feed])
    assert len(counted(model)) == 2


def test_sizes_that_must_be_equal_are_checked_by_the_run():
    """Rows of masks of different inputs are added if their numbers are equal."""
    d = Draft()
    limit = d.constant(0.5, "f")
    pairs = (("boxes", "x"), ("offsets", "z"))
    kept = [selected(d, rows, d.node("Greater", [x, limit])) for rows, x in pairs]
    y = d.node("Add", kept)
    model = d.model({**KINDS, "z": (FLOAT, [20])}, {y: FLOAT})
    rng = np.random.default_rng(7)
    feeds = [inputs(rng, share) for share in (0.4, 1, 9)]
    feeds = [{**feed, "z": rng.permutation(feed["x"])} for feed in feeds]
    net = check(model, feeds)
    feeds[1]["z"][:] = 1
    names = [info.name for info in model.graph.input]
    found = r"NonZero5_0', count: the run has \[20\]"
    with pytest.raises(ValueError, match=rf"{found}, .* NonZero\d_0_count, which node {y} needs"):
        net({name: feeds[1][name] for name in names})


def test_data_dependent_size_is_checked_against_a_constant():
    d = Draft()
    kept = selected(d, "boxes", d.node("Greater", ["x", d.constant(0.5, "f")]))
    y = d.node("Reshape", [kept, d.constant([2, 3, 4], np.int64)])
    model = d.model(KINDS, {y: FLOAT})
    rng = np.random.default_rng(8)
    six, seven = inputs(rng, 1), inputs(rng, 1)
    six["x"][:], seven["x"][:] = np.arange(20) < 6, np.arange(20) < 7
    net = check(model, [six])
    with pytest.raises(ValueError, match=rf"count: the run has \[7\], .* 6, which node {y} needs"):
        net({name: seven[name] for name in KINDS})


def test_long_chains_before_a_mask():
    """Each result is read twice, so the number of paths to the mask is exponential."""
    d = Draft()
    x = "x"
    for _ in range(80):
        x = d.node("Mul", [d.node("Add", [x, x]), d.constant(0.5, "f")])
    mask = d.node("Greater", [x, d.constant(0.5, "f")])
    y = d.node("Add", [selected(d, "boxes", mask), selected(d, "offsets", mask)])
    model = d.model(KINDS, {y: FLOAT})
    check(model, [inputs(np.random.default_rng(9), 1)])
