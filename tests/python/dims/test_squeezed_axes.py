"""Squeeze without axes on dynamic shapes, compared with onnxruntime without optimisations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from onnx import helper
from test_tensors_built_from_sizes import session_of

import tvmrt
from tvmrt.error import TvmrtWarning, UnsupportedError

DIMS = {"n": (1, 6), "m": (1, 5)}
SIZES = [(1, 1), (4, 1), (1, 3), (3, 4), (6, 5)]


def compare(model: Any, feeds: Sequence[dict], ranks: bool = True, **options: Any) -> None:
    """Compare the results; without equal ``ranks``, only their elements."""
    net, session = tvmrt.load(model, cache=False, **options), session_of(model)
    for feed in feeds:
        for found, expected in zip(net(feed).values(), session.run(None, feed)):
            assert found.shape == expected.shape if ranks else found.size == expected.size
            np.testing.assert_allclose(found.reshape(-1), expected.reshape(-1), 1e-4, 1e-5)


def cubes(*last: int) -> list[dict]:
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(size=(*size, *last)).astype(np.float32)} for size in SIZES]


def flat(d: Draft, x: str) -> str:
    return d.node("Reshape", [x, d.constant([-1], np.int64)])


def turned(d: Draft) -> str:
    """Permute axes, as columns of four elements."""
    x = d.node("Squeeze", [d.node("Transpose", ["x"], perm=[2, 1, 0, 3])])
    y = d.node("ReduceSum", [d.node("Mul", [d.node("Squeeze", ["x"]), d.weight(1)])], keepdims=0)
    columns = d.node("Add", [d.node("ReduceMax", [x], keepdims=0), y])
    return d.node("Mul", [columns, d.weight(4, 3)])


READERS: dict[str, Callable[[Draft, str], str]] = {
    "reshape": lambda d, y: d.node("Reshape", [y, d.constant([-1, 4], np.int64)]),
    "mean": lambda d, y: d.node("ReduceMean", [d.node("Softmax", [y], axis=-1)], keepdims=0),
    "product": lambda d, y: flat(d, d.node("MatMul", [y, d.weight(4, 3)])),
    "broadcast": lambda d, y: d.node("Add", [d.node("Exp", [y]), d.weight(1, 1, 1)]),
    "rank": lambda d, y: d.node("Cast", [d.node("Size", [d.node("Shape", [y])])], to=FLOAT),
    "turned": lambda d, y: flat(d, d.node("MatMul", [y, turned(d)])),
    "both": lambda d, y: flat(d, d.node("Mul", [y, d.node("Squeeze", [d.node("Neg", ["x"])])])),
}


@pytest.mark.parametrize("name", ["rank", *(pytest.param(n, marks=pytest.mark.slow)
                                            for n in READERS if n != "rank")])  # fmt: skip
def test_squeezed_axes_depend_on_runtime_extents(name):
    d = Draft()
    y = READERS[name](d, d.node("Squeeze", ["x"]))
    model = d.model({"x": (FLOAT, ["n", 1, "m", 4])}, {y: FLOAT})
    compare(model, [{"x": feed["x"][:, None]} for feed in cubes(4)], dims=DIMS)


def squeezed(shape: Sequence[Any] | None) -> Any:
    """Squeeze the scores of a batch, as at the end of a classifier."""
    d = Draft()
    y = d.node("Squeeze", [d.node("Relu", [d.node("Squeeze", ["x"])])])
    model = d.model({"x": (FLOAT, ["n", "m", 1])}, {y: FLOAT})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(y, FLOAT, shape))
    return model


def test_result_has_the_declared_axes():
    compare(squeezed(["n", "m"]), cubes(1), ranks=False, dims=DIMS)
    net = tvmrt.load(squeezed(["n", "m"]), cache=False, dims=DIMS)
    assert [next(iter(net(feed).values())).shape for feed in cubes(1)] == SIZES


def test_data_dependent_rank_is_refused():
    words = r"depending on the extent n of .*; an output has one rank: declare the shape"
    with pytest.raises(UnsupportedError, match=rf"{words} .* or bounds at which n is not 1$"):
        tvmrt.compile(squeezed(None), dims=DIMS)
    feeds = [feed for feed in cubes(1) if min(feed["x"].shape[:2]) > 1]
    compare(squeezed(None), feeds, dims={"n": (2, 6), "m": (2, 5)})


def test_consumer_may_fit_one_rank_only():
    d = Draft()
    y = d.node("Transpose", [d.node("Squeeze", ["x"])], perm=[1, 0])
    model = d.model({"x": (FLOAT, ["n", 1, 4])}, {y: FLOAT})
    with pytest.warns(
        TvmrtWarning, match=r"\(Squeeze\): its result without the axis of n elements is invalid"
    ):
        net = tvmrt.load(model, dims={"n": (1, 6)}, cache=False)
    x = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
    np.testing.assert_array_equal(net(x), x[:, 0].T)
    with pytest.raises(ValueError, match="without the axis of n elements is incompatible with"):
        net(x[:1])


def test_data_dependent_extent_may_be_one():
    """Indices of nonzero elements, as torch's nonzero().squeeze()."""
    d = Draft()
    found = d.node("Squeeze", [d.node("NonZero", ["x"])])
    y = d.node("Gather", ["table", d.node("Add", [found, d.constant(1, np.int64)])])
    model = d.model({"x": (INT64, ["n"]), "table": (FLOAT, [8])}, {y: FLOAT})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info(y, FLOAT, ["k"]))
    table = np.linspace(1, 2, 8, dtype=np.float32)
    feeds = [{"x": np.array(x), "table": table} for x in ([0, 1, 1], [0, 0, 3, 0], [0], [2])]
    compare(model, feeds, ranks=False, dims={"n": (1, 6)})
