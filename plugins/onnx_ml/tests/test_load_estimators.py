"""Test that ``tvmrt.load`` accepts scikit-learn models directly."""

from __future__ import annotations

import numpy as np
import pytest

import tvmrt

rng = np.random.default_rng(4)


def test_a_model_of_scikit_learn_predicts_as_it_does_there(tmp_path):
    pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    x = rng.standard_normal((60, 3)).astype(np.float32)
    words = np.array(["low", "middle", "high"])[np.clip(x[:, 0].round() + 1, 0, 2).astype(int)]
    model = LogisticRegression().fit(x, words)
    label, probabilities = tvmrt.load(model, dims={"batch": 16}, cache=tmp_path)(x)
    assert label.tolist() == model.predict(x).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(x), 1e-4, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("kind", ["classifier", "regressor", "pipeline"])
def test_boosted_trees_predict_as_in_their_library(library, kind):
    module = pytest.importorskip(library)
    pytest.importorskip("onnxmltools")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = rng.standard_normal((200, 5)).astype(np.float32)
    y = x[:, 0] * 2 + x[:, 1] if kind == "regressor" else (x[:, 0] > 0).astype(int)
    name = {"lightgbm": "LGBM", "xgboost": "XGB"}[library]
    quiet = {"verbose": -1} if library == "lightgbm" else {}
    suffix = "Regressor" if kind == "regressor" else "Classifier"
    model = getattr(module, name + suffix)(n_estimators=4, **quiet)
    model = make_pipeline(StandardScaler(), model) if kind == "pipeline" else model
    net = tvmrt.load(model.fit(x, y), cache=False)
    if kind == "regressor":
        np.testing.assert_allclose(net(x)[:, 0], model.predict(x), 1e-4, 1e-5)
    else:
        np.testing.assert_allclose(net(x)[1], model.predict_proba(x), 1e-4, 1e-5)


@pytest.mark.slow
def test_boosters_predict_as_in_their_library():
    lightgbm = pytest.importorskip("lightgbm")
    xgboost = pytest.importorskip("xgboost")
    pytest.importorskip("onnxmltools")
    x = rng.standard_normal((200, 5)).astype(np.float32)
    y = (x[:, 0] > 0).astype(int)
    trees = lightgbm.train({"verbose": -1, "objective": "binary"}, lightgbm.Dataset(x, y), 3)
    found = tvmrt.load(trees, cache=False)(x)[1][:, 1]
    np.testing.assert_allclose(found, trees.predict(x), 1e-4, 1e-5)
    trees = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(x, y), 3)
    found = tvmrt.load(trees, cache=False)(x)[1][:, 1]
    np.testing.assert_allclose(found, trees.predict(xgboost.DMatrix(x)), 1e-4, 1e-5)


def test_failure_of_a_converter_is_one_sentence():
    pytest.importorskip("skl2onnx")
    from sklearn.base import BaseEstimator

    class Unknown(BaseEstimator):
        n_features_in_ = 3

        def fit(self, x, y):
            return self

    with pytest.raises(ValueError) as caught:
        tvmrt.load(Unknown())
    assert "skl2onnx cannot export a Unknown: Unable to find a shape calc" in str(caught.value)
    assert len(str(caught.value)) < 300
