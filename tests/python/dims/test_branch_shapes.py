"""If with branches that are valid at some sizes only, compared with unoptimised onnxruntime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto
from test_branch_ranks import either
from test_tensors_built_from_sizes import session_of

import tvmrt
from tvmrt.error import TvmrtWarning

BOOL = TensorProto.BOOL


def plain(d: Draft) -> str:
    return d.node("Relu", ["x"])


def product(d: Draft) -> str:
    """Return a branch that needs 6 columns."""
    return d.node("MatMul", [d.node("Tanh", ["x"]), d.weight(6, 3)])


def pairs(d: Draft) -> str:
    """Return a branch that needs an even number of columns, and adds pairs of them."""
    x = d.node("Reshape", ["x", d.constant([0, -1, 2], np.int64)])
    return d.node("ReduceSum", [x, d.constant([2], np.int64)], keepdims=0)


def window(d: Draft) -> str:
    """Return a branch that needs at least 4 columns."""
    x = d.node("Unsqueeze", ["x", d.constant([1], np.int64)])
    x = d.node("Conv", [x, d.weight(1, 1, 4)])
    return d.node("Squeeze", [x, d.constant([1], np.int64)])


def square(d: Draft) -> str:
    """Return a branch that needs as many rows as columns."""
    return d.node("Add", [d.node("MatMul", ["x", "x"]), d.node("Transpose", ["x"], perm=[1, 0])])


def by_extent(d: Draft) -> str:
    """Return a branch that needs 12 columns, by an extent that is computed outside."""
    shape = d.node("Concat", [d.constant([-1], np.int64), "columns"], axis=0)
    return d.node("MatMul", [d.node("Reshape", [d.node("Neg", ["x"]), shape]), d.weight(12, 3)])


BRANCHES = [
    pytest.param(product, [(1, 6), (8, 6)], [(3, 5), (2, 7)], "m is 6", id="product"),
    pytest.param(pairs, [(1, 2), (3, 12)], [(3, 1), (2, 7)], "m .*multiples of 2", id="pairs"),
    pytest.param(window, [(1, 4), (8, 12)], [(2, 1), (1, 3)], "m ranges from 4 to 12", id="window"),
    pytest.param(square, [(1, 1), (4, 4), (8, 8)], [(3, 4), (1, 2)], "n is m|m is n", id="square"),
    pytest.param(by_extent, [(1, 12), (5, 12)], [(3, 4), (1, 9)], "m is 12", id="extent"),
]


def network(make: Callable[[Draft], str], first: bool):
    """Return a network that runs ``make`` if the flag is ``first``, else the relu of x."""
    d = Draft()
    d.extent("x", 1)
    d.nodes[-1].output[0] = "columns"
    sides = (make, plain) if first else (plain, make)
    y = d.node("Abs", [either(d, "flag", *sides)])
    return d.model({"x": (FLOAT, ["n", "m"]), "flag": (BOOL, [])}, {y: FLOAT})


@pytest.mark.parametrize("first", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("make, fitting, others, words", BRANCHES)
def test_branch_runs_at_its_valid_sizes(make, fitting, others, words, first):
    model, side = network(make, first), "then" if first else "else"
    with pytest.warns(
        TvmrtWarning, match=rf"run that takes its {side} branch needs sizes at which {words}"
    ):
        net = tvmrt.load(model, dims={"n": (1, 8), "m": (1, 12)}, cache=False)
    session = session_of(model)
    rng = np.random.default_rng(0)
    for size in (*fitting, *others, *fitting):
        x = rng.normal(size=size).astype(np.float32)
        for flag in (first, not first):
            feed = {"x": x, "flag": np.array(flag)}
            if flag == first and size in others:
                with pytest.raises(
                    ValueError, match=f"{side} branch.*compiled for sizes at which {words}"
                ):
                    net(feed)
                continue
            (found,) = net(feed).values()
            (expected,) = session.run(None, feed)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, 1e-4, 1e-5)


def test_size_decides_the_valid_branch():
    """A window is moved where it fits."""
    d = Draft()
    large = d.node("GreaterOrEqual", [d.extent("x", 1), d.constant([4], np.int64)])
    y = d.node("Abs", [either(d, d.node("Squeeze", [large]), window, plain)])
    model = d.model({"x": (FLOAT, ["n", "m"])}, {y: FLOAT})
    net = tvmrt.load(model, dims={"n": (1, 8), "m": (1, 12)}, cache=False)
    session = session_of(model)
    for size in [(1, 1), (2, 3), (2, 4), (8, 12)]:
        feed = {"x": np.random.default_rng(1).normal(size=size).astype(np.float32)}
        np.testing.assert_allclose(net(feed)[y], session.run(None, feed)[0], 1e-4, 1e-5)


def test_branches_are_valid_at_different_sizes():
    """One library with windows of two lengths, as for two sampling rates."""
    d = Draft()
    wide = d.node("Equal", ["rate", d.constant(16, np.int64)])
    y = d.node("Neg", [either(d, wide, product, lambda b: b.node("MatMul", ["x", b.weight(4, 3)]))])
    model = d.model({"x": (FLOAT, ["n", "m"]), "rate": (INT64, [])}, {y: FLOAT})
    net = tvmrt.load(model, dims={"n": (1, 8), "m": (1, 12)}, cache=False)
    session = session_of(model)
    for size, rate in [((1, 6), 16), ((2, 4), 8), ((8, 6), 16)]:
        x = np.random.default_rng(rate).normal(size=size).astype(np.float32)
        feed = {"x": x, "rate": np.array(rate)}
        np.testing.assert_allclose(net(feed)[y], session.run(None, feed)[0], 1e-4, 1e-5)
        with pytest.raises(ValueError, match="sizes at which m is"):
            net({**feed, "rate": np.array(24 - rate)})
