"""Errors during the search for bounds of dynamic dimensions, and the advice in error texts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto

import tvmrt
from tvmrt.compiler.frontend.onnx import elementwise, registry
from tvmrt.error import UnexpectedImportError, UnsupportedError

runtime = pytest.importorskip("onnxruntime")


@pytest.fixture(autouse=True)
def no_remarks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def counted(monkeypatch, problem: Exception):
    """Return a network, and the sizes at which its Softplus was imported; the importer raises
    ``problem`` where the size is dynamic."""
    tried = []

    def importer(ctx):
        extent = ctx.required(0).shape[0]
        tried.append(extent)
        if not isinstance(extent, int):
            raise problem
        return elementwise.unary(ctx)

    registry.find("", "Softplus")
    monkeypatch.setitem(registry._TABLE, ("", "Softplus"), importer)
    d = Draft()
    return d.model({"x": (FLOAT, ["n", 3])}, {d.node("Softplus", ["x"]): FLOAT}), tried


def test_an_internal_error_ends_the_search(monkeypatch):
    """It is not hidden by one size at which the fault does not occur."""
    model, tried = counted(monkeypatch, AttributeError("'Extent' has no 'foo'"))
    with pytest.raises(UnexpectedImportError, match=r"Softplus.*has no 'foo'"):
        tvmrt.load(model, cache=False)
    assert len(tried) == 1


def test_an_unsupported_operator_ends_the_search_with_sizes_that_compile(monkeypatch):
    model, _ = counted(monkeypatch, UnsupportedError("no kernel"))
    with pytest.raises(UnsupportedError, match=r"no kernel.*; with dims={.*} it compiles") as error:
        tvmrt.load(model, cache=False)
    network = tvmrt.load(model, dims=declared(str(error.value)), cache=False)
    assert network(np.zeros((1, 3), np.float32)).shape == (1, 3)


def declared(text: str) -> dict:
    """Return the last declaration in an error text."""
    return eval(re.findall(r"dims=(\{[^}]*\})", text)[-1])


def means(d: Draft) -> str:
    return d.node("ReduceMean", ["x"], axes=[0, 2], keepdims=0)


def flattened(d: Draft) -> str:
    shape = d.constant([0, -1], np.int64)
    return d.node("Softmax", [d.node("Reshape", ["x", shape])], axis=1)


def pooled(d: Draft) -> str:
    return d.node("MaxPool", ["x"], kernel_shape=[2], strides=[2])


def divided_by_a_size(d: Draft) -> str:
    sizes = d.node("Cast", [d.node("Shape", ["x"])], to=FLOAT)
    return d.node("Div", ["x", d.node("Gather", [sizes, d.constant(1, np.int64)])])


def half_of_the_rows(d: Draft) -> str:
    count = d.node("Div", [d.extent("x", 1), d.constant([2], np.int64)])
    zero, one = d.constant([0], np.int64), d.constant([1], np.int64)
    return d.node("Slice", ["x", zero, count, one])


def wrapped(d: Draft) -> str:
    """Slice by a size modulo 256, as a size in uint8 is."""
    small = d.node("Cast", [d.extent("x", 1)], to=TensorProto.UINT8)
    zero, one = d.constant([0], np.int64), d.constant([1], np.int64)
    return d.node("Slice", ["x", zero, d.node("Cast", [small], to=INT64), one])


NETWORKS: tuple[Callable[[Draft], str], ...] = (
    means, flattened, pooled, divided_by_a_size, half_of_the_rows, wrapped,
)  # fmt: skip
SHAPES = [(1, 1, 2), (2, 1, 3), (1, 4, 2), (9, 3, 5), (3, 700, 4), (2, 5, 600), (600, 2, 2)]


@pytest.mark.parametrize("make", NETWORKS)
def test_advice_about_dims_loads_and_runs(make):
    d = Draft()
    y = make(d)
    model = d.model({"x": (FLOAT, ["batch", "length", "channels"])}, {y: FLOAT})
    session = runtime.InferenceSession(model.SerializeToString())
    network = tvmrt.load(model, cache=False)
    for shape in SHAPES:
        x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
        (right,) = session.run(None, {"x": x})
        try:
            found = network(x)
        except ValueError as problem:
            assert "load it with dims=" in str(problem), shape
            found = tvmrt.load(model, dims=declared(str(problem)), cache=False)(x)
        np.testing.assert_allclose(np.asarray(found), right, 1e-5, 1e-5, err_msg=str(shape))
