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
