"""If with branches of different ranks, compared with onnxruntime without optimisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
import pytest
from dynamic_networks import Draft
from onnx import TensorProto, helper
from test_tensors_built_from_sizes import session_of

import tvmrt
from tvmrt.error import TvmrtWarning, UnsupportedError

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DIMS = {"n": (1, 8), "m": (1, 8)}
SIZES = [(1, 1), (3, 1), (1, 4), (3, 5), (8, 8)]
count = iter(range(1000))


def branch(make: Callable[[Draft], str]) -> onnx.GraphProto:
    d = Draft(prefix=f"branch{next(count)}_")
    y = make(d)
    info = helper.make_tensor_value_info(y, FLOAT, None)
    return helper.make_graph(d.nodes, "branch", [], [info], d.weights)


def either(d: Draft, condition: str, yes: Callable, no: Callable) -> str:
    return d.node("If", [condition], then_branch=branch(yes), else_branch=branch(no))


def squeezed(d: Draft, x: str, axis: int) -> str:
    """Squeeze an axis if it has one element, as PyTorch's older exporter writes squeeze."""
    extent = d.node("Gather", [d.node("Shape", [x]), d.constant(axis, np.int64)], axis=0)
    is_one = d.node("Equal", [extent, d.constant(1, np.int64)])
    return either(
        d,
        is_one,
        lambda b: b.node("Squeeze", [x, b.constant([axis], np.int64)]),
        lambda b: b.node("Identity", [x]),
    )


def flat(d: Draft, x: str) -> str:
    return d.node("Reshape", [x, d.constant([-1], np.int64)])


def compare(d: Draft, results: Sequence[str], inputs: dict, feeds: Sequence[dict], dims=DIMS):
    model = d.model(inputs, {name: FLOAT for name in results})
    session, net = session_of(model), tvmrt.load(model, dims=dims, cache=False)
    for feed in feeds:
        found = net(feed)
        for name, expected in zip(results, session.run(list(results), feed)):
            assert found[name].shape == expected.shape, name
            np.testing.assert_allclose(found[name], expected, 1e-4, 1e-5, err_msg=name)


def cubes(sizes: Sequence[tuple]) -> list[dict]:
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(size=(*size, 4)).astype(np.float32)} for size in sizes]


@pytest.mark.parametrize("open_", [pytest.param(True, marks=pytest.mark.slow), False])
def test_branches_of_different_ranks(open_):
    """The branches give x, or -x with a leading axis; their consumer reshapes both to one shape."""
    d = Draft()
    y = either(
        d,
        "c",
        lambda b: b.node("Identity", ["x"]),
        lambda b: b.node("Unsqueeze", [b.node("Neg", ["x"]), b.constant([0], np.int64)]),
    )
    moved = d.node("Transpose", ["x"], perm=[1, 0])
    results = [
        flat(d, y),
        d.node("ReduceMax", [d.node("Relu", [y])], keepdims=0),
        flat(d, d.node("MatMul", [y, moved])),
        flat(d, d.node("Softmax", [y], axis=-1)),
        d.node("Cast", [d.node("Size", [y])], to=FLOAT),
        d.node("Cast", [d.node("Size", [d.node("Shape", [y])])], to=FLOAT),
        d.node("Add", [y, d.weight(1, 1, 1)]),
    ]
    sizes = [(1, 1), (3, 5), (2, 7)] if open_ else [(2, 7)]
    x = [np.random.default_rng(1).normal(size=size).astype(np.float32) for size in sizes]
    feeds = [{"c": np.array(c), "x": each} for each in x for c in (True, False)]
    shape, dims = (["n", "m"], DIMS) if open_ else ([2, 7], {})
    compare(d, results, {"c": (BOOL, []), "x": (FLOAT, shape)}, feeds, dims)


def test_squeeze_of_axes_of_extent_one():
    d = Draft()
    once = squeezed(d, "x", 1)
    twice = squeezed(d, once, 0)
    last = d.node("Gather", [d.node("Shape", [once]), d.constant([-1], np.int64)], axis=0)
    shape = d.node("Concat", [d.constant([-1], np.int64), last], axis=0)
    results = [
        d.node("Reshape", [once, shape]),
        flat(d, d.node("MatMul", [once, d.weight(4, 3)])),
        d.node("ReduceMean", [twice], keepdims=0),
    ]
    compare(d, results, {"x": (FLOAT, ["n", "m", 4])}, cubes(SIZES))


def test_branch_with_incompatible_consumer():
    """Transpose needs three axes: a run with a result of two axes is an error."""
    d = Draft()
    y = d.node("Transpose", [squeezed(d, "x", 1)], perm=[0, 2, 1])
    model = d.model({"x": (FLOAT, ["n", "m", 4])}, {y: FLOAT})
    with pytest.warns(TvmrtWarning, match=r"If.*then branch is invalid"):
        net = tvmrt.load(model, dims=DIMS, cache=False)
    session = session_of(model)
    for feed in cubes([(1, 4), (3, 5)]):
        np.testing.assert_array_equal(net(feed)[y], session.run(None, feed)[0])
    (feed,) = cubes([(3, 1)])
    with pytest.raises(ValueError, match=r"If.*then branch is incompatible"):
        net(feed)


def test_result_has_the_declared_rank():
    d = Draft()
    y = squeezed(d, "x", 1)
    model = d.model({"x": (FLOAT, ["n", "m", 4])}, {y: FLOAT})
    with pytest.raises(UnsupportedError, match=rf"output {y} is .*If.*declare the shape"):
        tvmrt.compile(model, dims=DIMS)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(y, FLOAT, ["n", "m", 4]))
    net = tvmrt.load(model, dims=DIMS, cache=False)
    for feed in cubes([(1, 4), (3, 5)]):
        np.testing.assert_array_equal(net(feed)[y], feed["x"])
    with pytest.raises(ValueError, match="then branch is incompatible"):
        net(cubes([(3, 1)])[0])


def test_branch_constraints_do_not_narrow_bounds():
    """Only the branch that is taken must fit; x + y needs equal extents."""
    d = Draft()
    y = either(
        d,
        "c",
        lambda b: b.node("ReduceSum", [b.node("Add", ["x", "y"])], keepdims=0),
        lambda b: b.node("ReduceSum", ["x"], keepdims=0),
    )
    inputs = {"c": (BOOL, []), "x": (FLOAT, ["n"]), "y": (FLOAT, ["m"])}
    model = d.model(inputs, {y: FLOAT})
    net = tvmrt.load(model, dims=DIMS, cache=False)
    x, other = np.ones(3, np.float32), np.ones(5, np.float32)
    assert net({"c": np.array(False), "x": x, "y": other})[y] == 3


def test_nested_branch_that_is_not_taken():
    """The inner condition is not computed then, nor any node that depends on it."""
    d = Draft()
    inner = [
        lambda b: b.node("Squeeze", ["x", b.constant([0], np.int64)]),
        lambda b: b.node("ReduceSum", ["x", b.constant([0], np.int64)], keepdims=0),
    ]

    def outer(b: Draft) -> str:
        extent = b.node("Shape", ["x"], start=0, end=1)
        is_one = b.node("Equal", [extent, b.constant([1], np.int64)])
        return either(b, b.node("Squeeze", [is_one]), *inner)

    y = either(d, "c", outer, lambda b: b.node("ReduceMax", ["x"], axes=[0], keepdims=0))
    inputs = {"c": (BOOL, []), "x": (FLOAT, ["n", "m", 4])}
    feeds = [{**feed, "c": np.array(c)} for feed in cubes(SIZES) for c in (True, False)]
    compare(d, [y], inputs, feeds)
