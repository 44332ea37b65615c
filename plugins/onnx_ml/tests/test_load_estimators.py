"""Test that ``tvmrt.load`` accepts scikit-learn models directly."""

from __future__ import annotations

import pickle

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
    label, probabilities = tvmrt.load(model, dims={"batch": 60}, cache=tmp_path)(x)
    assert label.tolist() == model.predict(x).tolist()
    np.testing.assert_allclose(probabilities, model.predict_proba(x), 1e-4, 1e-5)


def fitted(rows: int = 30):
    pytest.importorskip("skl2onnx")
    from sklearn.linear_model import LogisticRegression

    x = rng.standard_normal((rows, 4)).astype(np.float32)
    return x, LogisticRegression().fit(x, x[:, 0] > 0)


def test_an_estimator_takes_any_number_of_rows(tmp_path):
    x, model = fitted(200)
    network = tvmrt.load(model, cache=tmp_path)
    assert network.dims == {"batch": (1, None)}
    np.testing.assert_array_equal(network(x)[0], model.predict(x))
    declared = tvmrt.load(model, dims={"batch": 8}, cache=tmp_path)
    with pytest.raises(ValueError, match="dimension batch has 200 elements, expected 1 to 8"):
        declared(x)


class Table:
    """Columns with names, as of pandas."""

    def __init__(self, x: np.ndarray, columns: str) -> None:
        self.x, self.columns = x, list(columns)

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.x


def test_tables_have_the_columns_that_the_estimator_was_fitted_with():
    x, model = fitted()
    model.feature_names_in_ = np.array([*"abcd"], object)
    net = tvmrt.load(model, cache=False)
    for each in (net, pickle.loads(pickle.dumps(net)), net.with_threads(1)):
        assert each(Table(x, "abcd"))[0].tolist() == each(x)[0].tolist()
        with pytest.raises(ValueError, match=r"input X: column 1 is 'c', but .* fitted with 'b'"):
            each(Table(x[:, [0, 2, 1, 3]], "acbd"))
    model.feature_names_in_ = np.array([f"Column_{i}" for i in range(4)], object)
    tvmrt.load(model, cache=False)(Table(x, "acbd"))  # LightGBM's names of arrays


@pytest.mark.slow
@pytest.mark.parametrize(
    "options, shape",
    [
        ({"shapes": {"X": ("N<=30", 4)}}, ("N", 4)),
        ({"shapes": {"X": ("N", 4)}, "dims": {"N": (1, 30)}}, ("N", 4)),
        ({"shapes": {"X": ("batch", 4)}}, ("batch", 4)),
        ({"shapes": {"X": (30, 4)}}, (30, 4)),
        ({"dims": {}}, ("batch", 4)),
    ],
)
def test_given_sizes_replace_the_default_batch(options, shape):
    x, model = fitted()
    net = tvmrt.load(model, cache=False, **options)
    assert [info.shape for info in net.inputs] == [shape]
    assert net(x)[0].tolist() == model.predict(x).tolist()


@pytest.mark.parametrize(
    "options, error",
    [
        ({"shapes": {"X": (150, 5)}}, "fitted with 4 columns, not 5; give (150, 4)"),
        ({"shapes": {"X": ("N<=8", 3)}}, "fitted with 4 columns, not 3; give ('N<=8', 4)"),
        ({"dims": {"N": 64}}, "no input or output has a dimension N; choose from batch"),
        ({"shapes": {"Z": (150, 4)}}, "the network has no input Z; choose from X"),
    ],
)
def test_sizes_that_do_not_fit_an_estimator(options, error):
    _, model = fitted()
    with pytest.raises((ValueError, KeyError)) as caught:
        tvmrt.load(model, cache=False, **options)
    assert str(caught.value).endswith(error)


@pytest.mark.slow
def test_outliers_are_those_of_scikit_learn():
    pytest.importorskip("skl2onnx")
    from sklearn.ensemble import IsolationForest

    x = rng.standard_normal((90, 4)).astype(np.float32)
    model = IsolationForest(n_estimators=9, contamination=0.2, random_state=1).fit(x)
    wanted = model.predict(x)
    assert {-1, 1} == set(wanted.tolist())
    labels = np.asarray(tvmrt.load(model, cache=False)(x)[0])
    assert labels.ravel().tolist() == wanted.tolist()


@pytest.mark.slow
def test_histogram_boosting_with_missing_values_and_mixtures():
    pytest.importorskip("skl2onnx")
    from sklearn import ensemble, mixture

    rng = np.random.default_rng(4)
    x = rng.standard_normal((200, 5)).astype(np.float32)
    classes = np.digitize(x[:, 0], [-0.5, 0.5])
    full = x.copy()
    x[rng.random(x.shape) < 0.1] = np.nan
    trees = ensemble.HistGradientBoostingClassifier(max_iter=9).fit(x, classes)
    labels, probabilities = tvmrt.load(trees, cache=False)(x)
    assert labels.tolist() == trees.predict(x).tolist()
    np.testing.assert_allclose(probabilities, trees.predict_proba(x), 1e-5, 1e-6)
    curve = ensemble.HistGradientBoostingRegressor(max_iter=9).fit(x, full[:, 1])
    np.testing.assert_allclose(
        tvmrt.load(curve, cache=False)(x).ravel(), curve.predict(x), 1e-5, 1e-6
    )
    parts = mixture.GaussianMixture(3, random_state=0).fit(full)
    labels, probabilities = tvmrt.load(parts, cache=False)(full)
    assert np.ravel(labels).tolist() == parts.predict(full).tolist()
    np.testing.assert_allclose(probabilities, parts.predict_proba(full), 1e-4, 1e-5)


def test_a_booster_without_trees_is_reported():
    xgboost = pytest.importorskip("xgboost")
    pytest.importorskip("onnxmltools")
    empty = xgboost.train({}, xgboost.DMatrix(np.ones((4, 2)), np.ones(4)), 0)
    for booster in (xgboost.Booster(), empty):
        with pytest.raises(ValueError) as caught:
            tvmrt.load(booster)
        assert str(caught.value) == "this Booster is not trained; make it with xgboost.train()"


def test_models_that_are_not_fitted_or_have_no_columns():
    pytest.importorskip("sklearn")
    pytest.importorskip("skl2onnx")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    words = make_pipeline(CountVectorizer(), LogisticRegression())
    for model in (LogisticRegression(), words):
        with pytest.raises(ValueError, match="is not fitted; call fit\\(\\) first"):
            tvmrt.load(model)
    words.fit(["good day", "bad day", "good"], [1, 0, 1])
    with pytest.raises(ValueError, match=r"Pipeline has no n_features_in_.*skl2onnx\.to_onnx"):
        tvmrt.load(words)
    with pytest.raises(ValueError, match=r"Normalizer has no n_features_in_.*call fit\(\) with"):
        tvmrt.load(Normalizer())  # has nothing to learn, so it counts as fitted
    with pytest.raises(TypeError, match=r"LogisticRegression is a class.*give an instance"):
        tvmrt.load(LogisticRegression)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("kind", ["classifier", "regressor", "pipeline"])
def test_boosted_trees_predict_as_in_their_library(library, kind):
    module = pytest.importorskip(library)
    pytest.importorskip("onnxmltools")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # A scaled value next to a threshold may round to its other side; these do not.
    x = np.random.default_rng(4).standard_normal((200, 5)).astype(np.float32)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7},
        {"linear_tree": True},
        {"zero_as_missing": True},
        {"objective": "binary", "sigmoid": 2.5},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_of_lightgbm_that_its_converter_ignores(options):
    pytest.importorskip("onnxmltools")
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(2)  # of rows for which each of the options matters
    x = rng.standard_normal((200, 4)).astype(np.float32)
    x[rng.random(x.shape) < 0.3] = 0
    trees = lightgbm.train({"verbose": -1, **options}, lightgbm.Dataset(x, x[:, 0] > x[:, 1]), 5)
    with pytest.raises(ValueError, match=r"has other results than the original: .*; train it w"):
        tvmrt.load(trees, cache=False)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["rank:pairwise", "reg:logistic", "targets"])
def test_options_of_xgboost_that_its_converter_ignores(objective):
    pytest.importorskip("onnxmltools")
    xgboost = pytest.importorskip("xgboost")
    x = rng.standard_normal((200, 4)).astype(np.float32)
    y = (x[:, 0] > x[:, 1]).astype(np.float32)
    y, options = (x[:, :2], {}) if objective == "targets" else (y, {"objective": objective})
    trees = xgboost.train(options, xgboost.DMatrix(x, y), 5)
    with pytest.raises(ValueError, match=r"a Booster of xgboost has other results than the orig"):
        tvmrt.load(trees, cache=False)


@pytest.mark.slow
def test_categories_and_names_of_columns():
    pytest.importorskip("onnxmltools")
    lightgbm, xgboost = map(pytest.importorskip, ("lightgbm", "xgboost"))
    x = rng.standard_normal((200, 4)).astype(np.float32)
    x[:, 3] = rng.integers(0, 6, 200)
    y = x[:, 3] * 3 % 4 + x[:, 0]
    data = lightgbm.Dataset(x, y, categorical_feature=[3])
    trees = lightgbm.train({"verbose": -1}, data, 5)
    found = tvmrt.load(trees, dims={"batch": 200}, cache=False)(x)
    np.testing.assert_allclose(found.ravel(), trees.predict(x), 1e-4, 1e-5)
    names = {"feature_names": list("abcd"), "feature_types": [*"qqqc"], "enable_categorical": True}
    trees = xgboost.train({}, xgboost.DMatrix(x, y, **names), 5)
    found = tvmrt.load(trees, dims={"batch": 200}, cache=False)(x)
    wanted = trees.predict(xgboost.DMatrix(x, **names))
    np.testing.assert_allclose(found.ravel(), wanted, 1e-4, 1e-5)
    assert trees.feature_names == list("abcd")


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


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosted_trees_that_were_fitted_with_a_table(library):
    pandas = pytest.importorskip("pandas")
    module = pytest.importorskip(library)
    pytest.importorskip("onnxmltools")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler

    columns = ["mean area", "worst/radius", "f7"]
    if library == "lightgbm":  # its names have no JSON characters
        columns[1] = "worst radius"
    x = np.random.default_rng(5).standard_normal((150, 3)).astype(np.float32)
    table = pandas.DataFrame(x, columns=columns)
    name, quiet = ("LGBM", {"verbose": -1}) if library == "lightgbm" else ("XGB", {})
    classifier, regressor = (
        getattr(module, name + kind)(n_estimators=3, **quiet)
        for kind in ("Classifier", "Regressor")
    )
    pipeline = make_pipeline(MinMaxScaler(), classifier).set_output(transform="pandas")
    for model, y in ((pipeline, x[:, 1] > 0), (classifier, x[:, 2] > 0), (regressor, x[:, 0])):
        model.fit(table, y.astype(int) if y.dtype == bool else y)
        found = tvmrt.load(model, cache=False)(table)
        if model is regressor:
            np.testing.assert_allclose(found.ravel(), model.predict(table), 1e-4, 1e-5)
        else:
            assert found[0].tolist() == model.predict(table).tolist()
        assert [name.replace("_", " ") for name in model.feature_names_in_] == columns


def test_estimators_whose_network_differs_are_refused():
    """skl2onnx divides by the largest value, scikit-learn by the largest magnitude."""
    pytest.importorskip("skl2onnx")
    from sklearn.preprocessing import Normalizer

    model = Normalizer("max").fit(rng.standard_normal((9, 3)))
    for call in (tvmrt.load, tvmrt.compile):
        with pytest.raises(ValueError, match=r"skl2onnx makes of a Normalizer has other results"):
            call(model)


def test_an_estimator_that_takes_few_values_is_compared_on_an_example():
    pytest.importorskip("skl2onnx")
    from skl2onnx import update_registered_converter
    from skl2onnx.algebra.onnx_ops import OnnxAbs, OnnxNeg
    from sklearn.base import BaseEstimator, TransformerMixin

    class Codes(TransformerMixin, BaseEstimator):
        def __init__(self, wrong=False):
            self.wrong = wrong

        def fit(self, x, y=None):
            self.n_features_in_ = x.shape[1]
            return self

        def transform(self, x):
            if not np.isin(x, (1000, 2000)).all():
                raise ValueError("these are no codes")
            return -x

    def shape(operator):
        operator.outputs[0].type = operator.inputs[0].type

    def converter(scope, operator, container):
        kind = OnnxAbs if operator.raw_operator.wrong else OnnxNeg
        kind(operator.inputs[0], op_version=18, output_names=operator.outputs).add_to(
            scope, container
        )

    update_registered_converter(Codes, "Codes", shape, converter)
    x = np.array([[1000, 2000], [2000, 2000], [1000, 1000]], np.float32)
    with pytest.raises(
        ValueError, match=r"none of the drawn inputs \(these are no codes\).*example"
    ):
        tvmrt.load(Codes().fit(x))
    net = tvmrt.load(Codes().fit(x), example=x, cache=False)
    assert net(x).tolist() == (-x).tolist()
    with pytest.raises(ValueError, match=r"output 0 has .*000\.0 at .* of the original -.*000\.0;"):
        tvmrt.load(Codes(wrong=True).fit(x), example=x, cache=False)
    with pytest.raises(ValueError, match="takes rows of 2 columns"):
        tvmrt.load(Codes().fit(x), example=x[:, :1])


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_classifiers_without_probabilities(classes):
    pytest.importorskip("skl2onnx")
    from sklearn.svm import SVC

    x = np.random.default_rng(5).standard_normal((120, 4)).astype(np.float32)
    y = np.digitize(x[:, 0] + x[:, 1], [-0.5, 0.5][: classes - 1])
    model = SVC().fit(x, y)
    assert tvmrt.load(model, cache=False)(x)[0].tolist() == model.predict(x).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("fitted_with_missing", [True, False])
@pytest.mark.parametrize("kind", ["tree", "forest", "extra", "bagging", "isolation", "scaled"])
def test_missing_values_take_the_branch_of_scikit_learn(kind, fitted_with_missing):
    pytest.importorskip("skl2onnx")
    from sklearn import ensemble, pipeline, preprocessing, tree

    model = {
        "tree": tree.DecisionTreeClassifier(max_depth=4, random_state=0),
        "forest": ensemble.RandomForestClassifier(6, random_state=0),
        "extra": ensemble.ExtraTreesRegressor(6, random_state=0),
        "bagging": ensemble.BaggingClassifier(tree.DecisionTreeClassifier(max_depth=3), 4),
        "isolation": ensemble.IsolationForest(n_estimators=6, random_state=0),
        "scaled": pipeline.make_pipeline(
            preprocessing.StandardScaler(), ensemble.RandomForestClassifier(4, random_state=0)
        ),
    }[kind]
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 5)).astype(np.float32)
    y = x[:, 0] + x[:, 1] > 0
    missing = np.where(rng.random(x.shape) < 0.2, np.float32("nan"), x)
    model.fit(missing if fitted_with_missing else x, y)
    found = tvmrt.load(model, dims={"batch": 300}, cache=False)(missing)
    found = np.ravel(found[0] if isinstance(found, tuple) else found)
    np.testing.assert_allclose(found, model.predict(missing), 1e-5, 1e-6)
