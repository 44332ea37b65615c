"""Test that converted estimators and pipelines predict what their libraries predict."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("skl2onnx")
import estimators
from ml_networks import run, side_by_side


def _outputs(fitted: dict, folder) -> dict[str, list[np.ndarray]]:
    """Return the outputs of all networks by name, from one library."""
    model = side_by_side({name: one.model for name, one in fitted.items()})
    feeds = {f"{n}/{one.model.graph.input[0].name}": one.x for n, one in fitted.items()}
    found = run(model, feeds, folder, optimised=False)
    return {
        name: [found[f"{name}/{output.name}"] for output in one.model.graph.output]
        for name, one in fitted.items()
    }


def _compare(one: estimators.Fitted, found: list[np.ndarray]) -> None:
    for i, wanted in one.wanted:
        assert found[i].size == wanted.size
        got = found[i].reshape(wanted.shape)  # some converters keep an axis of 1
        if wanted.dtype.kind == "i":
            assert (got == wanted).all()
        else:
            np.testing.assert_allclose(got, wanted, one.tolerance, one.tolerance / 5)


@pytest.fixture(scope="module")
def scikit_learn(tmp_path_factory):
    fitted = dict(estimators.scikit_learn())
    return fitted, _outputs(fitted, tmp_path_factory.mktemp("scikit_learn"))


@pytest.mark.parametrize("name", estimators.NAMES)
def test_an_estimator_predicts_as_scikit_learn(scikit_learn, name):
    fitted, found = scikit_learn
    _compare(fitted[name], found[name])


@pytest.fixture(scope="module")
def boosted(tmp_path_factory):
    converters = pytest.importorskip("onnxmltools")
    fitted = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, module in estimators.BOOSTERS.items():
            fitted[name] = estimators.booster(name, pytest.importorskip(module), converters)
    return fitted, _outputs(fitted, tmp_path_factory.mktemp("boosted"))


@pytest.mark.parametrize("name", estimators.BOOSTERS)
def test_boosted_trees_predict_as_their_library(boosted, name):
    fitted, found = boosted
    _compare(fitted[name], found[name])
