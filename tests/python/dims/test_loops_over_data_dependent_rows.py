"""Loops with a data-dependent number of rows as trip count, and loops that read such rows."""

from __future__ import annotations

import numpy as np
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto, helper
from test_sizes_in_firmware_graphs import check as check_runs
from test_sizes_in_firmware_graphs import compiled, firmware, on_this_machine  # noqa: F401

import tvmrt

runtime = pytest.importorskip("onnxruntime")

BOOL, ROWS = TensorProto.BOOL, 6
KINDS = {"s": (FLOAT, [ROWS]), "x": (FLOAT, [ROWS, 4]), "m": (FLOAT, [ROWS, 3, 3])}
info = helper.make_tensor_value_info


def found(d, rows):
    mask = d.node("Greater", ["s", d.constant(0.5, "f")])
    return d.node("Compress", [rows, mask], axis=0)


def length(d, rows):
    return d.node("Gather", [d.node("Shape", [rows]), d.constant(0, np.int64)])


def loop(d, rounds, nodes, carried, made, weights=()):
    """Add a Loop; ``carried`` maps names in the body to type, initial value and next value."""
    body = helper.make_graph(
        [*nodes, helper.make_node("Identity", ["go"], ["on"])],
        "round",
        [info("i", INT64, []), info("go", BOOL, []), *(info(n, t, s) for n, t, s, _, _ in carried)],
        [info("on", BOOL, []), *(info(n, t, s) for _, t, s, _, n in carried)]
        + [info(name, FLOAT, None) for name in made],
        list(weights),
    )
    names = [f"{name}_out" for name in (*(c[4] for c in carried), *made)]
    inputs = [rounds, d.constant(True, bool), *(c[3] for c in carried)]
    d.nodes.append(helper.make_node("Loop", inputs, names, "loop", body=body))
    return names


ZERO = helper.make_tensor("axis0", INT64, [1], [0])


def row_of(rows, name="row"):
    return helper.make_node("Gather", [rows, "i"], [name], axis=0)


def appended(d):
    """Paste masks one by one, as the loop of Mask R-CNN."""
    rows, masks = found(d, "x"), found(d, "m")
    none = d.node("ConstantOfShape", [d.constant([0, 3, 3], np.int64)])
    nodes = [
        row_of(rows),
        helper.make_node("ReduceSum", ["row"], ["sum"], keepdims=0),
        row_of(masks, "mask"),
        helper.make_node("Mul", ["mask", "sum"], ["pasted"]),
        helper.make_node("Unsqueeze", ["pasted", "axis0"], ["one"]),
        helper.make_node("Concat", ["have", "one"], ["more"], axis=0),
    ]
    carried = [("have", FLOAT, ["some", 3, 3], none, "more")]
    (y,) = loop(d, length(d, rows), nodes, carried, [], [ZERO])
    return {y: FLOAT, rows: FLOAT}


def collected(d):
    """Collect the distances of each row to all rows, and the number of remaining rows."""
    rows = found(d, "x")
    nodes = [
        row_of(rows),
        helper.make_node("Sub", [rows, "row"], ["apart"]),
        helper.make_node("Mul", ["apart", "apart"], ["squares"]),
        helper.make_node("ReduceSum", ["squares", "axis1"], ["distances"], keepdims=0),
        helper.make_node("Add", ["total", "row"], ["next"]),
    ]
    first = d.constant(np.zeros(4), "f")
    axis = helper.make_tensor("axis1", INT64, [1], [1])
    carried = [("total", FLOAT, [4], first, "next")]
    last, y = loop(d, length(d, rows), nodes, carried, ["distances"], [axis])
    softmax = d.node("Softmax", [d.node("Neg", [y])], axis=-1)
    return {last: FLOAT, y: FLOAT, d.node("MatMul", [softmax, rows]): FLOAT}


def carried_rows(d):
    """Carry a tensor of found rows through a fixed number of iterations, and mark it in each."""
    rows = found(d, "x")
    nodes = [
        helper.make_node("Shape", ["have"], ["shape"]),
        helper.make_node("Expand", ["small", "shape"], ["wide"]),
        helper.make_node("Mul", ["have", "half"], ["halved"]),
        helper.make_node("Add", ["halved", "wide"], ["next"]),
        helper.make_node("ReduceMean", ["next"], ["mean"], axes=[1], keepdims=0),
    ]
    weights = [helper.make_tensor(n, FLOAT, [], [v]) for n, v in (("small", 0.1), ("half", 0.5))]
    carried = [("have", FLOAT, ["n", 4], rows, "next")]
    y, means = loop(d, d.constant(12, np.int64), nodes, carried, ["mean"], weights)
    return {y: FLOAT, means: FLOAT}


def by_scan(d):
    rows = found(d, "x")
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "row"], ["next"]),
            helper.make_node("Mul", ["next", "row"], ["out"]),
        ],
        "step",
        [info("state", FLOAT, [4]), info("row", FLOAT, [4])],
        [info("next", FLOAT, [4]), info("out", FLOAT, [4])],
    )
    node = helper.make_node(
        "Scan", [d.constant(np.zeros(4), "f"), rows], ["last", "all"], "scan",
        body=body, num_scan_inputs=1,
    )  # fmt: skip
    d.nodes.append(node)
    return {"last": FLOAT, "all": FLOAT}


def found_inside(d):
    """Find rows larger than the row of the iteration, again in each iteration."""
    rows = found(d, "s")
    nodes = [
        row_of(rows),
        helper.make_node("Less", [rows, "row"], ["smaller"]),
        helper.make_node("Compress", [rows, "smaller"], ["lower"], axis=0),
        helper.make_node("ReduceSum", ["lower", "axis0"], ["sum"], keepdims=1),
        helper.make_node("Add", ["total", "sum"], ["next"]),
    ]
    carried = [("total", FLOAT, [1], d.constant([0.0], "f"), "next")]
    return dict.fromkeys(loop(d, length(d, rows), nodes, carried, ["sum"], [ZERO]), FLOAT)


def by_condition(d):
    """Iterate while the iteration number is below the number of rows, as in exported loops."""
    rows = found(d, "x")
    count = length(d, rows)
    nodes = [
        row_of(rows),
        helper.make_node("Add", ["i", "one"], ["next"]),
        helper.make_node("Less", ["next", count], ["on"]),
    ]
    body = helper.make_graph(
        nodes,
        "round",
        [info("i", INT64, []), info("go", BOOL, [])],
        [info("on", BOOL, []), info("row", FLOAT, [4])],
        [helper.make_tensor("one", INT64, [], [1])],
    )
    first = d.node("Less", [d.constant(0, np.int64), count])
    maximum = d.constant(np.iinfo(np.int64).max, np.int64)
    d.nodes.append(helper.make_node("Loop", [maximum, first], ["y"], "loop", body=body))
    return {"y": FLOAT}


def grown_by_found(d):
    """Append the rows that the threshold of the iteration finds."""
    nodes = [
        helper.make_node("Cast", ["i"], ["number"], to=FLOAT),
        helper.make_node("Mul", ["number", "share"], ["limit"]),
        helper.make_node("Greater", ["s", "limit"], ["mask"]),
        helper.make_node("Compress", ["x", "mask"], ["some"], axis=0),
        helper.make_node("Concat", ["have", "some"], ["more"], axis=0),
    ]
    none = d.node("ConstantOfShape", [d.constant([0, 4], np.int64)])
    weights = [helper.make_tensor("share", FLOAT, [], [0.1])]
    carried = [("have", FLOAT, ["n", 4], none, "more")]
    (y,) = loop(d, d.constant(12, np.int64), nodes, carried, [], weights)
    return {y: FLOAT}


def shrunk(d):
    """Take the first row in each iteration and keep the others, as in greedy selection."""
    rows = found(d, "x")
    nodes = [
        helper.make_node("ReduceSum", ["have", "axis0"], ["sum"], keepdims=0),
        helper.make_node("Slice", ["have", "one", "far", "axis0"], ["rest"]),
    ]
    far = np.iinfo(np.int32).max
    weights = [helper.make_tensor(n, INT64, [1], [v]) for n, v in (("one", 1), ("far", far))]
    carried = [("have", FLOAT, ["n", 4], rows, "rest")]
    names = loop(d, length(d, rows), nodes, carried, ["sum"], [ZERO, *weights])
    return dict.fromkeys(names, FLOAT)


CASES = [
    grown_by_found,
    shrunk,
    by_condition,
    appended,
    collected,
    carried_rows,
    by_scan,
    found_inside,
]


SCORES = ([1, 0, 1, 0, 0, 1], [1] * 6, [0, 1, 0, 0, 0, 0], [0] * 6, [0, 1, 1, 1, 1, 1])


def inputs(scores):
    rng = np.random.default_rng(sum(scores))
    feed = {"s": np.float32(scores + rng.random(ROWS) * 0.4)}
    feed["x"] = rng.normal(size=(ROWS, 4)).astype(np.float32)
    feed["m"] = rng.normal(size=(ROWS, 3, 3)).astype(np.float32)
    return feed


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("make", CASES)
def test_trip_count_is_the_number_of_rows(make, executor):
    d = Draft()
    model = d.model(KINDS, make(d))
    net = tvmrt.load(model, cache=False, executor=executor)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(model.SerializeToString(), options)
    shapes = set()
    for scores in SCORES:
        feed = inputs(scores)
        given = {each.name: feed[each.name] for each in session.get_inputs()}
        mine = net(given)
        if make is by_scan and not any(scores):  # not supported by onnxruntime
            right = [np.zeros(4), np.zeros((0, 4))]
        else:
            right = session.run(None, given)
        for each, expected in zip(session.get_outputs(), right):
            assert mine[each.name].shape == expected.shape
            np.testing.assert_allclose(mine[each.name], expected, 1e-4, 1e-5)
            shapes.add(expected.shape)
    assert len(shapes) > 4


@pytest.mark.slow
@pytest.mark.parametrize("make", CASES)
def test_data_dependent_trip_count_in_firmware_graphs(make, firmware, tmp_path):  # noqa: F811
    """Buffers have exactly the stated size, checked by sanitizers."""
    d = Draft()
    model = d.model(KINDS, make(d))
    runs = [inputs(scores) for scores in SCORES if any(scores)]
    check_runs(model, runs, on_this_machine(compiled(model, {}), runs, tmp_path, firmware))


def test_first_iteration_without_condition():
    """The first iteration runs without rows as well: the trip count is not the number of rows."""
    d = Draft()
    rows = found(d, "x")
    nodes = [
        helper.make_node("Add", ["i", "one"], ["next"]),
        helper.make_node("Less", ["next", length(d, rows)], ["on"]),
        helper.make_node("Add", ["total", "one"], ["more"]),
    ]
    body = helper.make_graph(
        nodes,
        "round",
        [info("i", INT64, []), info("go", BOOL, []), info("total", INT64, [])],
        [info("on", BOOL, []), info("more", INT64, [])],
        [helper.make_tensor("one", INT64, [], [1])],
    )
    zero = d.constant(0, np.int64)
    node = helper.make_node("Loop", ["", d.constant(True, bool), zero], ["y"], "loop", body=body)
    d.nodes.append(node)
    net = tvmrt.load(d.model(KINDS, {"y": INT64}), cache=False)
    assert [int(net(inputs(scores))["y"]) for scores in SCORES] == [3, 6, 1, 1, 5]
