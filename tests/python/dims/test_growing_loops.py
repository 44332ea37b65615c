"""Loops whose carried tensors change their shape in each iteration, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from any_size_case import EXECUTORS, assert_close, loaded, results
from dynamic_networks import FLOAT, INT64, Draft
from onnx import helper
from test_data_dependent_trip_count import BOOL, body, info

import tvmrt
from tvmrt.error import UnsupportedError

runtime = pytest.importorskip("onnxruntime")


def appending(axis=0, rounds=None):
    """Append twice the last entry, and keep a row before each entry."""
    inner = Draft(1, "in_")
    last = inner.node("Gather", ["c", inner.constant([-1], np.int64)], axis=axis)
    more = inner.node("Concat", ["c", inner.node("Add", [last, "x"])], axis=axis)
    total = inner.node("ReduceSum", [more], keepdims=0)
    go = inner.node("Less", [total, "stop"])
    draft = Draft()
    limit = "M" if rounds is None else draft.constant(rounds, np.int64)
    given = [("i", INT64, []), ("go", BOOL, []), ("c", FLOAT, None)]
    made = [(go, BOOL, []), (more, FLOAT, None), (total, FLOAT, [])]
    draft.nodes.append(
        helper.make_node("Loop", [limit, "", "c0"], ["all", "totals"], "append",
                         body=body(inner, given, made))
    )  # fmt: skip
    y = draft.node("Neg", ["all"])
    each = [2, 3]
    each[axis] = "n"
    one = [2, 3]
    one[axis] = 1
    inputs = {"c0": (FLOAT, each), "x": (FLOAT, one), "stop": (FLOAT, [])}
    if rounds is None:
        inputs["M"] = (INT64, [])
    model = draft.model(inputs, {y: FLOAT, "totals": FLOAT})
    model.graph.value_info.append(info("totals", FLOAT, ["rounds"]))
    return model


def only_carried():
    """Double the rows in every iteration."""
    inner = Draft(1, "in_")
    more = inner.node("Concat", ["c", inner.node("Neg", ["c"])], axis=0)
    return carrying(inner, more, "all", ["many", 3])


def dropping():
    """Drop the last row in each of nine iterations."""
    inner = Draft(1, "in_")
    ends = [inner.constant([n], np.int64) for n in (0, -1, 0)]
    return carrying(inner, inner.node("Slice", ["c", *ends]), "rest", None, 9)


def carrying(inner, after, name, declared, rounds=None):
    draft = Draft()
    given = [("i", INT64, []), ("go", BOOL, []), ("c", FLOAT, None)]
    inside = body(inner, given, [("go", BOOL, []), (after, FLOAT, None)])
    limit = "M" if rounds is None else draft.constant(rounds, np.int64)
    draft.nodes.append(helper.make_node("Loop", [limit, "", "c0"], [name], "carry", body=inside))
    y = draft.node("Neg", [name])
    inputs = {"c0": (FLOAT, ["n", 3]), "M": (INT64, [])}
    model = draft.model(inputs if rounds is None else {"c0": inputs["c0"]}, {y: FLOAT})
    if declared:
        model.graph.value_info.append(info(name, FLOAT, declared))
    return model


def grown(rng, count, axis=0, stop=1e9, **more):
    each, one = [2, 3], [2, 3]
    each[axis], one[axis] = count, 1
    x = {"c0": rng.random(each).astype(np.float32), "x": rng.random(one).astype(np.float32)}
    return {**x, "stop": np.array(stop, np.float32), **{k: np.array(v) for k, v in more.items()}}


CASES = {
    "rows": (appending, {"n": (1, 3), "rounds": 12},
             lambda rng: [grown(rng, 2, M=12), grown(rng, 1, M=1), grown(rng, 3, M=12),
                          grown(rng, 2, M=9, stop=30)]),
    "columns": (lambda: appending(1), {"n": (1, 3), "rounds": 12},
                lambda rng: [grown(rng, 2, 1, M=12), grown(rng, 3, 1, M=5), grown(rng, 1, 1, M=1)]),
    "known": (lambda: appending(1, 20), {"n": (1, 3), "rounds": 20},
              lambda rng: [grown(rng, 2, 1), grown(rng, 3, 1, stop=40)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_loop_carried_value_grows(name, tmp_path):
    make, dims, inputs = CASES[name]
    model, rng = make(), np.random.default_rng(4)
    session = runtime.InferenceSession(model.SerializeToString())
    for executor in EXECUTORS:
        folder = tmp_path / executor
        folder.mkdir()
        network = loaded(tvmrt.compile(model, dims=dims, executor=executor), folder, executor)
        for each in inputs(rng):
            assert_close(results(network, each), session.run(None, each))


def test_zero_iterations_and_too_many(tmp_path):
    """A run beyond the bound writes nothing."""
    dims = {"n": (1, 3), "rounds": (0, 12)}
    network = loaded(tvmrt.compile(appending(), dims=dims), tmp_path, "graph")
    rng = np.random.default_rng(2)
    inputs = grown(rng, 2, M=0)
    y, totals = results(network, inputs)
    np.testing.assert_array_equal(y, -inputs["c0"])
    assert totals.shape == (0,)
    with pytest.raises(ValueError, match=r"append', .* is 1[36], expected 0 to 1[25]"):
        results(network, grown(rng, 3, M=13))
    assert results(network, grown(rng, 3, M=12))[0].shape == (15, 3)


def test_unbounded_loop_carried_value_is_refused_if_memory_is_planned_before():
    """With the other executor the run plans the memory when it knows the trip count."""
    model, rng = appending(), np.random.default_rng(6)
    del model.graph.value_info[:]
    session = runtime.InferenceSession(model.SerializeToString())
    network = tvmrt.load(model)
    for each in (grown(rng, 2, M=30), grown(rng, 4, M=1), grown(rng, 3, M=0)):
        assert_close(list(network(each).values()), session.run(None, each))
    with pytest.raises(UnsupportedError, match=r"axis 0 of all .* in the model, or .* with dims"):
        tvmrt.compile(model, dims={"n": 3}, executor="graph")
    model.graph.value_info.append(info("all", FLOAT, ["many", 3]))
    with pytest.raises(UnsupportedError, match=r"it collects totals; declare"):
        tvmrt.compile(model, dims={"n": 3, "many": 10}, executor="graph")


def test_declared_extent_bounds_the_value(tmp_path):
    """The declared extent is that of a result of a loop without a trip count."""
    model = only_carried()
    library = tvmrt.compile(model, dims={"n": 3, "many": 9})
    assert sum("for (;" in text for text in library.sources.files.values()) == 1
    network = loaded(library, tmp_path, "graph")
    session = runtime.InferenceSession(model.SerializeToString())
    for count, rounds in ((2, 2), (3, 0), (1, 3), (3, 1)):
        c0 = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
        inputs = {"c0": c0, "M": np.array(rounds)}
        assert_close(results(network, inputs), session.run(None, inputs))
    with pytest.raises(ValueError, match="axis 0 of what it carries is 12, expected 0 to 9"):
        results(network, {"c0": np.zeros((3, 3), np.float32), "M": np.array(2)})


def test_loop_carried_value_shrinks(tmp_path):
    model = dropping()
    library = tvmrt.compile(model, dims={"n": (9, 12)})
    assert sum("for (;" in text for text in library.sources.files.values()) == 1
    network = loaded(library, tmp_path, "graph")
    session = runtime.InferenceSession(model.SerializeToString())
    for count in (12, 10):
        inputs = {"c0": np.arange(count * 3, dtype=np.float32).reshape(count, 3)}
        assert_close(results(network, inputs), session.run(None, inputs))
        assert_close(list(tvmrt.load(model)(inputs).values()), session.run(None, inputs))


def test_rows_of_found_parts_have_the_open_extent_of_others():
    """An iteration finds the columns above 0 and all others: as many as the table has."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[M, N] x) => (int64[A, B] y)'
        "<int64[1] none = {0}, int64[1] one = {1}, int64[1] two = {2}, int64 first = {0},"
        "float zero = {0}, bool yes = {1}> { s = Shape(x)  m = Gather(s, first)"
        "n = Slice(s, one, two)  h = Concat<axis = 0>(none, n)"
        "e = ConstantOfShape<value = int64[1] {0}>(h)"
        "y = Loop(m, yes, e) <body = b (int64 i, bool go, int64[P, Q] have)"
        "=> (bool on, int64[R, S] more) { on = Identity(go)  v = Gather(x, i)"
        "a = Greater(v, zero)  b = Not(a)  k = NonZero(a)  l = NonZero(b)"
        "j = Concat<axis = 1>(k, l)  more = Concat<axis = 0>(have, j) }> }"
    )
    network, session = tvmrt.load(model), runtime.InferenceSession(model.SerializeToString())
    for shape in ((3, 4), (1, 7), (5, 1), (0, 4), (2, 0)):
        x = np.random.default_rng(3).integers(-2, 3, shape).astype(np.float32)
        np.testing.assert_array_equal(network(x), session.run(None, {"x": x})[0])


ROOM = "k = Cast<to = 7>(v)  u = Unsqueeze(k, zero)  z = ConstantOfShape(u)  o = Add(z, one)"
SUM = f"{ROOM}  d = CumSum(o, axis)  f = ReduceSum<keepdims = 0>(d)"
FOUND = {
    "one size": f"{SUM}  t = Add(s, f)",
    "a size that another one's memory gives": f"{SUM}  g = Cast<to = 7>(f)  h = Unsqueeze(g, zero)"
        "m = ConstantOfShape(h)  a = Add(m, v)  e = CumSum(a, axis)  p = Concat<axis = 0>(d, e)"
        "q = ReduceMax<keepdims = 0>(p)  t = Add(s, q)",
    "in a branch": "b = Greater(v, two)  t = If(b) <"
        f"then_branch = yes () => (float p) {{ {SUM}  p = Add(s, f) }},"
        "else_branch = no () => (float r) { r = Sub(s, v) }>",
    "in a loop of it": f"{ROOM}  d = CumSum(o, axis)  t = Loop(k, on, s) <body = each "
        "(int64 j, bool go2, float s2) => (bool on2, float t2) { on2 = Identity(go2)"
        "v2 = Gather(d, j)  k2 = Cast<to = 7>(v2)  u2 = Unsqueeze(k2, zero)"
        "z2 = ConstantOfShape(u2)  o2 = Add(z2, one)  d2 = CumSum(o2, axis)"
        "f2 = ReduceSum<keepdims = 0>(d2)  t2 = Add(s2, f2) }>",
    "a cube": f"{ROOM.replace('Unsqueeze(k, zero)', 'Expand(k, three)')}"
        "d = CumSum(o, axis)  f = ReduceSum<keepdims = 0>(d)  t = Add(s, f)",
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_memory_for_sizes_that_each_iteration_finds(name):
    """The sizes have no bound, so the loop allocates memory when it has found them."""
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[N] x) => (float y)'
        "<int64[1] zero = {0}, int64[1] three = {3}, int64 axis = {0}, float start = {0},"
        "float one = {1}, float two = {2}, bool more = {1}> { n = Shape(x)  c = Squeeze(n)"
        "y = Loop(c, more, start) <body = step (int64 i, bool go, float s) => (bool on, float t) {"
        f"on = Identity(go)  v = Gather(x, i)  {FOUND[name]} }}> }}"
    )
    network, session = tvmrt.load(model), runtime.InferenceSession(model.SerializeToString())
    for numbers in ((1, 3, 5), (10, 4, 1), (), (7,), (9, 1, 8, 2, 30)):
        x = np.array(numbers, np.float32)
        np.testing.assert_allclose(network(x), session.run(None, {"x": x})[0])
    with pytest.raises(ValueError, match="elements" if name == "a cube" else "size is 3000000000"):
        network(np.array([3, 1300 if name == "a cube" else 3e9], np.float32))
