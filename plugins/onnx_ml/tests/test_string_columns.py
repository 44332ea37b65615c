"""Compare scikit-learn pipelines over string columns with their own predictions."""

from __future__ import annotations

import numpy as np
import onnx_backend
import pytest

pytest.importorskip("skl2onnx")

from ml_networks import run, side_by_side
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import FloatTensorType, StringTensorType
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

COLOURS, CITIES = ["red", "grün", "青"], ["Ulm", "Bonn", "São Paulo", "東京"]


def test_pipelines_take_columns_of_strings(tmp_path):
    rng = np.random.default_rng(0)
    words = np.stack([rng.choice(COLOURS, 120), rng.choice(CITIES, 120)], 1).astype(object)
    numbers = rng.normal(size=(120, 2)).astype(np.float32)
    kinds = np.where(words[:, 0] == "red", "warm", np.where(numbers[:, 0] > 0, "kühl", "mild"))
    hot = OneHotEncoder(handle_unknown="ignore")
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    table = np.hstack([words, numbers.astype(object)])
    columns = ColumnTransformer([("w", hot, [0, 1]), ("n", StandardScaler(), [2, 3])])
    models = {
        "linear": make_pipeline(columns, LogisticRegression()).fit(table, kinds),
        "hot": hot.fit(words),
        "ordinal": ordinal.fit(words),
        "forest": make_pipeline(
            OrdinalEncoder(), RandomForestClassifier(8, max_depth=4, random_state=0)
        ).fit(words, words[:, 0] == "red"),
    }
    types = [("words", StringTensorType([20, 2]))]
    both = [*types, ("numbers", FloatTensorType([20, 2]))]
    exported = {
        name: convert_sklearn(
            model,
            initial_types=both if name == "linear" else types,
            options=None if name in ("hot", "ordinal") else {"zipmap": False},
            target_opset=18,
        )
        for name, model in models.items()
    }
    network = side_by_side(exported)
    some = slice(0, 20)
    asked = words[some].copy()
    asked[3, 1] = "never seen"
    known = words[some]
    feeds = {f"{n}/words": known if n == "forest" else asked for n in models}
    feeds["linear/numbers"] = numbers[some]
    found = run(network, feeds, tmp_path, optimised=False)
    given = np.hstack([asked, numbers[some].astype(object)])
    near = {"atol": 1e-5}
    np.testing.assert_allclose(
        found["linear/probabilities"], models["linear"].predict_proba(given), **near
    )
    labels = models["linear"].classes_[found["linear/label"]]
    np.testing.assert_array_equal(labels, models["linear"].predict(given))
    np.testing.assert_array_equal(found["hot/variable"], models["hot"].transform(asked).toarray())
    np.testing.assert_array_equal(found["ordinal/variable"], models["ordinal"].transform(asked))
    np.testing.assert_allclose(
        found["forest/probabilities"], models["forest"].predict_proba(known), **near
    )


def test_vectorizers_count_words():
    """Words are split, lower-cased, counted and weighted as in scikit-learn."""
    texts = ["The quick fox, jumps!", "lazy dogs the THE", "fox and_dogs", "a b 日本 c", ""]
    vectorizers = {
        "tfidf": TfidfVectorizer(ngram_range=(1, 2), token_pattern="[a-zA-Z0-9_]+"),
        "count": CountVectorizer(token_pattern=r"\b\w+\b", lowercase=False),
        "long": CountVectorizer(token_pattern=r"\b[a-z]{3,}\b"),
    }
    x = np.array(texts, object).reshape(5, 1)
    types = [("x", StringTensorType([5, 1]))]
    exported = {
        name: convert_sklearn(each.fit(texts[:3]), initial_types=types, target_opset=18)
        for name, each in vectorizers.items()
    }
    compiled = onnx_backend.prepare(side_by_side(exported))
    for asked in (x, x[::-1].copy()):
        found = compiled.run({f"{name}/x": asked for name in vectorizers})
        for counts, each in zip(found, vectorizers.values()):
            wanted = each.transform(asked[:, 0]).toarray()
            np.testing.assert_allclose(counts, wanted, atol=1e-6)
