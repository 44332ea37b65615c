"""Sizes that are computed from data: counts of masks, and bounded numbers."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto, helper

import tvmrt

runtime = pytest.importorskip("onnxruntime")

BOOL, ROWS = TensorProto.BOOL, 12
KINDS = {"x": (FLOAT, [ROWS]), "boxes": (FLOAT, [ROWS, 4])}


def whole(d, *numbers):
    return d.constant(list(numbers), np.int64)


def mask(d):
    return d.node("Greater", ["x", d.constant(0.5, "f")])


def found_rows(d):
    return d.node("Compress", ["boxes", mask(d)], axis=0)


def count(d):
    """Count the elements of the mask by a sum."""
    return d.node("ReduceSum", [d.node("Cast", [mask(d)], to=INT64), whole(d, 0)], keepdims=1)


def rows_of(x):
    return int((x > 0.5).sum())


def write_at_mask(d):
    places = d.node("Transpose", [d.node("NonZero", [mask(d)])], perm=[1, 0])
    values = d.node("Expand", [d.constant(-1.0, "f"), count(d)])
    return d.node("ScatterND", ["x", places, values])


def padded_by_sum(d):
    missing = d.node("Sub", [whole(d, 20), count(d)])
    pads = d.node("Concat", [whole(d, 0, 0), missing, whole(d, 0)], axis=0)
    fixed = d.node("Pad", [found_rows(d), pads])
    return d.node("Add", [fixed, d.constant(np.arange(20)[:, None], "f")])


def filled_up(d):
    """Pad rows with zeros and cut them to 5."""
    few = d.node("Slice", [found_rows(d), whole(d, 0), whole(d, 5), whole(d, 0)])
    have = d.node("Slice", [d.node("Shape", [few]), whole(d, 0), whole(d, 1)])
    missing = d.node("Max", [d.node("Sub", [whole(d, 5), have]), whole(d, 0)])
    zeros = d.node("ConstantOfShape", [d.node("Concat", [missing, whole(d, 4)], axis=0)])
    fixed = d.node("Concat", [few, zeros], axis=0)
    return d.node("Mul", [fixed, d.constant(np.ones((5, 4)), "f")])


def best(d):
    """Take the best min(count, 4) rows, by a comparison as torch.where writes it."""
    total, four = count(d), whole(d, 4)
    k = d.node("Where", [d.node("Less", [total, four]), total, four])
    scores = d.node("Compress", ["x", mask(d)], axis=0)
    _, order = d.node("TopK", [scores, k], 2)
    return d.node("Gather", [found_rows(d), order], axis=0)


def numbered(d):
    """Return a Range up to a clipped element of the data."""
    maximum = d.node("Cast", [d.node("ReduceMax", ["x"], keepdims=0)], to=INT64)
    maximum = d.node("Clip", [maximum, d.constant(0, np.int64), d.constant(7, np.int64)])
    places = d.node("Range", [d.constant(0, np.int64), maximum, d.constant(1, np.int64)])
    return d.node("Mul", [d.node("Cast", [places], to=FLOAT), d.constant(2.0, "f")])


def up_to_the_largest(d):
    """Return as many ones as the index of the largest element."""
    place = d.node("ArgMax", ["x"], axis=0, keepdims=1)
    return d.node("Expand", [d.constant(1.0, "f"), place])


def between(d):
    """Take the rows between two indices of the data."""
    first = d.node("ArgMin", ["x"], axis=0, keepdims=1)
    last = d.node("Max", [d.node("ArgMax", ["x"], axis=0, keepdims=1), first])
    rows = d.node("Slice", ["boxes", first, last, whole(d, 0)])
    more = d.node("Sub", [last, first])
    pads = d.node("Concat", [whole(d, 0, 0), more, whole(d, 0)], axis=0)
    return d.node("Pad", [rows, pads])


def chain(d):
    """Compute a size through a long chain of operators, each of which reads its operand twice."""
    number = d.node("ArgMax", ["x"], axis=0, keepdims=1)
    for _ in range(40):
        half = d.node("Div", [d.node("Add", [number, number]), whole(d, 2)])
        number = d.node("Min", [half, whole(d, 11)])
    return d.node("Expand", [d.constant(1.0, "f"), number])


CASES = [chain, write_at_mask, padded_by_sum, filled_up, best, numbered, up_to_the_largest, between]


@pytest.mark.parametrize("make", CASES)
def test_data_dependent_sizes(make):
    d = Draft()
    y = make(d)
    model = d.model(KINDS, {y: FLOAT})
    net = tvmrt.load(model, cache=False)
    session = runtime.InferenceSession(model.SerializeToString())
    rng, shapes = np.random.default_rng(3), set()
    for share in (0.4, 1, 0.8, 7):
        x = np.float32(rng.random(ROWS) * share + (share > 1))
        boxes = rng.normal(size=(ROWS, 4)).astype(np.float32)
        feed = {info.name: {"x": x, "boxes": boxes}[info.name] for info in session.get_inputs()}
        found, (expected,) = net(feed)[y], session.run(None, feed)
        shapes.add(expected.shape)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    assert len(shapes) > 1 or make in (write_at_mask, padded_by_sum, filled_up)


def test_a_number_without_a_bound_is_refused_on_boards():
    d = Draft()
    size = d.node("Cast", [d.node("ReduceMax", ["x"], keepdims=1)], to=INT64)
    model = d.model({"x": KINDS["x"]}, {d.node("Expand", [d.constant(1.0, "f"), size]): FLOAT})
    with pytest.raises(tvmrt.TVMError, match="computed at run time"):
        tvmrt.compile(model, target="cortex-m4")


def running_sums(rounds):
    """Loop over all but the first column; ``rounds`` makes the trip count."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["i", "one"], ["at"]),
            helper.make_node("Gather", ["x", "at"], ["row"], axis=1),
            helper.make_node("Add", ["state", "row"], ["next"]),
            helper.make_node("Identity", ["next"], ["out"]),
            helper.make_node("Identity", ["went"], ["go"]),
        ],
        "step",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("went", BOOL, []),
            helper.make_tensor_value_info("state", FLOAT, ["batch"]),
        ],
        [
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("next", FLOAT, ["batch"]),
            helper.make_tensor_value_info("out", FLOAT, ["batch"]),
        ],
        [helper.make_tensor("one", INT64, [], [1])],
    )
    d = Draft()
    length = d.node("Gather", [d.node("Shape", ["x"]), d.constant(1, np.int64)])
    first = d.node("Gather", ["x", d.constant(0, np.int64)], axis=1)
    inputs = [rounds(d, length), d.constant(True, bool), first]
    d.nodes.append(helper.make_node("Loop", inputs, ["last", "y"], "loop", body=body))
    return d.model({"x": (FLOAT, ["batch", "seq"])}, {"last": FLOAT, "y": FLOAT})


def by_floats(d, length):
    steps = d.node("Cast", [d.node("Sub", [length, d.constant(1, np.int64)])], to=FLOAT)
    return d.node(
        "Cast", [d.node("Ceil", [d.node("Div", [steps, d.constant(1.0, "f")])])], to=INT64
    )


def by_elements(d, length):
    """Loop once per nonzero element of the first row, minus one."""
    row = d.node("Gather", ["x", d.constant(0, np.int64)], axis=0)
    some = d.node("Cast", [row], to=BOOL)
    total = d.node("ReduceSum", [d.node("Cast", [some], to=INT64), whole(d, 0)], keepdims=0)
    return d.node("Max", [d.node("Sub", [total, d.constant(1, np.int64)]), d.constant(0, np.int64)])


@pytest.mark.parametrize("rounds", [by_floats, by_elements])
def test_loops_over_a_dynamic_length(rounds):
    model = running_sums(rounds)
    net = tvmrt.load(model, dims={"batch": (1, 4), "seq": (2, 64)}, cache=False)
    session = runtime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(4)
    for size in [(1, 2), (3, 7), (4, 64), (2, 20)]:
        x = rng.normal(size=size).astype(np.float32)
        x[0, 3:9] = 0
        found = net({"x": x})
        for name, expected in zip(("last", "y"), session.run(None, {"x": x})):
            assert found[name].shape == expected.shape
            np.testing.assert_allclose(found[name], expected, 1e-4, 1e-4)
