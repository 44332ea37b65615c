"""Loops with a data-dependent trip count, compared with onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import pytest
from any_size_case import EXECUTORS, assert_close, loaded, results
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto, helper

import tvmrt
from tvmrt.error import UnsupportedError

runtime = pytest.importorskip("onnxruntime")

BOOL = TensorProto.BOOL


def info(name, kind, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def body(draft, inputs, outputs):
    """Return the draft's nodes as a subgraph."""
    return helper.make_graph(
        draft.nodes, "body", [info(*v) for v in inputs], [info(*v) for v in outputs], draft.weights
    )


def searching():
    """Repeat a layer until the sum of the state or the trip count ends the loop; keep one row."""
    inner = Draft(1, "in_")
    state = inner.node("Tanh", [inner.node("MatMul", ["c", "weights"])])
    total = inner.node("ReduceSum", [state], keepdims=0)
    row = inner.node("Add", [total, inner.node("Cast", ["i"], to=FLOAT)])
    go = inner.node("Less", [row, "stop"])
    kept = inner.node("Add", [row, "x"])
    given = [("i", INT64, []), ("go", BOOL, []), ("c", FLOAT, ["n", 4])]
    draft = Draft()
    draft.weights.append(draft_weights(4))
    made = [(go, BOOL, []), (state, FLOAT, ["n", 4]), (kept, FLOAT, [3])]
    draft.nodes.append(
        helper.make_node("Loop", ["M", "go0", "c0"], ["last", "rows"], "search",
                         body=body(inner, given, made))
    )  # fmt: skip
    twice = draft.node("Add", ["rows", "rows"])
    inputs = {"M": (INT64, []), "go0": (BOOL, []), "c0": (FLOAT, ["n", 4]), "x": (FLOAT, [3])}
    model = draft.model({**inputs, "stop": (FLOAT, [])}, {"last": FLOAT, twice: FLOAT})
    model.graph.value_info.append(info("rows", FLOAT, ["rounds", 3]))
    return model


def draft_weights(width):
    rng = np.random.default_rng(8)
    array = rng.normal(size=(width, width)).astype(np.float32)
    return helper.make_tensor("weights", FLOAT, array.shape, array.reshape(-1))


def scanning(backward=0, axis=0):
    """Scan with a cell over a dynamic length, with weights and a bias per batch from outside."""
    inner = Draft(2, "in_")
    sum_ = inner.node("Add", ["e", inner.node("MatMul", ["h", "weights"])])
    state = inner.node("Tanh", [inner.node("Add", [sum_, "bias"])])
    out = inner.node("Neg", [state])
    given = [("h", FLOAT, ["n", 4]), ("e", FLOAT, ["n", 4])]
    draft = Draft()
    draft.weights.append(draft_weights(4))
    draft.nodes.append(
        helper.make_node(
            "Scan", ["h0", "x"], ["last", "all"], "cells", num_scan_inputs=1,
            body=body(inner, given, [(state, FLOAT, ["n", 4]), (out, FLOAT, ["n", 4])]),
            scan_input_axes=[axis], scan_output_axes=[axis],
            scan_input_directions=[backward], scan_output_directions=[backward],
        )
    )  # fmt: skip
    shape = ["n", 4]
    shape.insert(axis, "length")
    inputs = {"h0": (FLOAT, ["n", 4]), "x": (FLOAT, shape), "bias": (FLOAT, [4])}
    return draft.model(inputs, {"last": FLOAT, "all": FLOAT})


def nested():
    """Sum rows in an inner loop whose trip count is the outer loop's iteration number."""
    inmost = Draft(0, "inmost_")
    more = inmost.node("Add", ["s", inmost.node("Gather", ["x", "j"], axis=0)])
    inner = Draft(0, "in_")
    given = [("j", INT64, []), ("go2", BOOL, []), ("s", FLOAT, [3])]
    count = inner.node("Add", ["i", inner.constant(1, np.int64)])
    inner.nodes.append(
        helper.make_node("Loop", [count, "", "zero"], ["sum"], "inner",
                         body=body(inmost, given, [("go2", BOOL, []), (more, FLOAT, [3])]))
    )  # fmt: skip
    part = inner.node(
        "Slice", ["x", *[inner.node("Unsqueeze", [v, "first"]) for v in ("i", count)]]
    )
    both = inner.node("Concat", [inner.node("Unsqueeze", ["sum", "first"]), part], axis=0)
    draft = Draft()
    draft.weights.append(helper.make_tensor("zero", FLOAT, [3], np.zeros(3, np.float32)))
    draft.weights.append(helper.make_tensor("first", INT64, [1], [0]))
    rows = draft.node("Squeeze", [draft.extent("x", 0)])
    outer = [("i", INT64, []), ("go", BOOL, [])]
    draft.nodes.append(
        helper.make_node("Loop", [rows, ""], ["y"], "outer",
                         body=body(inner, outer, [("go", BOOL, []), (both, FLOAT, [2, 3])]))
    )  # fmt: skip
    return draft.model({"x": (FLOAT, ["n", 3])}, {"y": FLOAT})


def found():
    """Iterate once per positive element, if any: square as many first elements and
    return their sum."""
    inner = Draft(0, "in_")
    one = inner.node("Gather", ["flat", "i"], axis=0)
    square = inner.node("Mul", [one, one])
    more = inner.node("Add", ["s", square])
    given = [("i", INT64, []), ("go", BOOL, []), ("s", FLOAT, [])]
    made = [("go", BOOL, []), (more, FLOAT, []), (square, FLOAT, [])]
    draft = Draft()
    zero = draft.constant(0, np.float32)
    places = draft.node("NonZero", [draft.node("Greater", ["x", zero])])
    count = draft.node("Squeeze", [draft.extent(places, 1)])
    flat = draft.node("Reshape", ["x", draft.constant([-1], np.int64)])
    draft.nodes.append(helper.make_node("Identity", [flat], ["flat"]))
    draft.nodes.append(
        helper.make_node("Loop", [count, "", zero], ["sum", "squares"], "each",
                         body=body(inner, given, made))
    )  # fmt: skip
    return draft.model({"x": (FLOAT, ["n", 3])}, {"sum": FLOAT, "squares": FLOAT})


@dataclass(frozen=True)
class Case:
    make: Callable[[], Any]
    dims: dict
    inputs: Callable


def search_inputs(rng, maximum, go, count, stop):
    return {
        "M": np.array(maximum),
        "go0": np.array(go),
        "c0": rng.normal(size=(count, 4)).astype(np.float32),
        "x": rng.random(3).astype(np.float32),
        "stop": np.array(stop, np.float32),
    }


def scan_inputs(axis):
    def made(rng):
        for n, length in ((3, 20), (1, 1), (2, 13), (3, 20)):
            shape = [n, 4]
            shape.insert(axis, length)
            h0, x, bias = (rng.normal(size=s).astype(np.float32) for s in ([n, 4], shape, [4]))
            yield {"h0": h0, "x": x, "bias": bias}

    return made


CASES = {
    "loop": Case(
        searching,
        {"n": 3, "rounds": (0, 20)},
        lambda rng: [
            search_inputs(rng, *each)
            for each in ((5, True, 3, 100), (12, True, 2, 4), (20, True, 1, 99), (1, True, 3, 9))
        ],
    ),
    "found": Case(
        found,
        {"n": 4},
        lambda rng: [
            {"x": (rng.normal(size=(n, 3)) + by).astype(np.float32)}
            for n, by in ((4, 0), (2, 0.5), (3, -9), (4, 9))
        ],
    ),
    "scan": Case(scanning, {"n": 3, "length": 20}, scan_inputs(0)),
    "scan backwards": Case(lambda: scanning(1), {"n": 3, "length": 20}, scan_inputs(0)),
    "scan of an inner axis": Case(lambda: scanning(0, 1), {"n": 3, "length": 20}, scan_inputs(1)),
    "loop in a loop": Case(
        nested,
        {"n": 9},
        lambda rng: [{"x": rng.normal(size=(n, 3)).astype(np.float32)} for n in (9, 1, 4)],
    ),
}


@pytest.mark.everyday(3)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", CASES)
def test_trip_count_depends_on_data(name, executor, tmp_path):
    case = CASES[name]
    model = case.make()
    library = tvmrt.compile(model, dims=case.dims, executor=executor)
    assert sum("for (;" in text for text in library.sources.files.values()) == 1
    network = loaded(library, tmp_path, executor)
    session = runtime.InferenceSession(model.SerializeToString())
    for inputs in case.inputs(np.random.default_rng(5)):
        assert_close(results(network, inputs), session.run(None, inputs))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_no_iterations_and_too_many(executor, tmp_path):
    """No iterations: carried values are unchanged, nothing is collected. Too many: an error."""
    dims = {"n": 3, "rounds": (0, 20)}
    network = loaded(tvmrt.compile(searching(), dims=dims, executor=executor), tmp_path, executor)
    rng = np.random.default_rng(2)
    for maximum, go in ((0, True), (4, False), (-3, True)):
        inputs = search_inputs(rng, maximum, go, 2, 9)
        last, rows = results(network, inputs)
        np.testing.assert_array_equal(last, inputs["c0"])
        assert rows.shape == (0, 3)
    with pytest.raises(ValueError, match="search', the trip count is 21, expected 0 to 20"):
        results(network, search_inputs(rng, 21, True, 2, 1e9))
    last, rows = results(network, search_inputs(rng, 20, True, 2, 1e9))
    assert rows.shape == (20, 3)


def test_unbounded_trip_count_is_refused_by_name():
    with pytest.raises(UnsupportedError, match=r"search \(Loop: its trip count .* with dims"):
        tvmrt.compile(searching(), dims={"n": 3}, executor="graph")
    model = searching()  # large enough
    model.graph.input.remove(next(each for each in model.graph.input if each.name == "M"))
    model.graph.initializer.append(helper.make_tensor("M", INT64, [], [2**63 - 1]))
    with pytest.raises(UnsupportedError, match=r"search \(Loop: its trip count .* with dims"):
        tvmrt.compile(model, dims={"n": 3})


def test_loop_without_scan_outputs_needs_no_bound(tmp_path):
    """Halve until the sum is small, for any number of iterations."""
    inner = Draft(0, "in_")
    half = inner.node("Mul", ["c", inner.constant(0.5, "f")])
    go = inner.node("Greater", [inner.node("ReduceSum", [half], keepdims=0), "small"])
    given = [("i", INT64, []), ("go", BOOL, []), ("c", FLOAT, [5])]
    draft = Draft()
    inside = body(inner, given, [(go, BOOL, []), (half, FLOAT, [5])])
    yes = draft.constant(True, bool)
    draft.nodes.append(helper.make_node("Loop", ["", yes, "x"], ["y"], "halves", body=inside))
    model = draft.model({"x": (FLOAT, [5]), "small": (FLOAT, [])}, {"y": FLOAT})
    network = loaded(tvmrt.compile(model), tmp_path, "graph")
    for small in (1.0, 1e-20):
        x = np.arange(1, 6, dtype=np.float32)
        (found,) = results(network, {"x": x, "small": np.array(small, np.float32)})
        assert small / 2 < found.sum() <= small
        np.testing.assert_array_equal(found * (15 / found.sum()), x)
