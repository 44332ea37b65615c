"""Tables with columns of text, for models that know the categories, compared with the model's own
predictions."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import helper

import tvmrt
from tvmrt.conversion import COLUMNS

pandas = pytest.importorskip("pandas")
pytest.importorskip("skl2onnx")

ROWS = 240
rng = np.random.default_rng(0)


def table(kind="object", missing=False):
    """Return columns of numbers, of text and of whole numbers, and one that no model needs."""
    found = pandas.DataFrame({
        "age": 50 * rng.random(ROWS),
        "city": pandas.Series(rng.choice(["rome", "oslo", "bern"], ROWS)).astype(kind),
        "size": pandas.Series(rng.choice([10, 20, 40], ROWS)).astype(
            "category" if kind == "category" else int
        ),
    })  # fmt: skip
    if missing:
        found.loc[::7, "city"] = np.nan
        found.loc[::5, ["age", "size"]] = np.nan
    return found


def target(of):
    return ((of["age"].fillna(0) > 25) ^ (of["city"] == "oslo")).astype(int)


def sklearn_parts():
    from sklearn import compose, ensemble, impute, linear_model, pipeline, preprocessing, tree

    return {
        **vars(compose), **vars(ensemble), **vars(impute), **vars(linear_model), **vars(pipeline),
        **vars(preprocessing), **vars(tree),
    }  # fmt: skip


NUMBERS = "('numbers', make_pipeline(SimpleImputer(), StandardScaler()), ['age'])"


def columns(encoder, names="['city', 'size']", more=""):
    return f"ColumnTransformer([{NUMBERS}, ('text', {encoder}, {names})]{more})"


PIPELINES = {
    "one-hot": columns("OneHotEncoder()"),
    "one-hot, unknown allowed": columns("OneHotEncoder(handle_unknown='ignore')"),
    "one-hot without the first": columns("OneHotEncoder(drop='first')"),
    "ordinal": columns("OrdinalEncoder()"),
    "ordinal, unknown allowed": columns(
        "OrdinalEncoder(handle_unknown='use_encoded_value', unknown_value=-1)"
    ),
    "target": columns("TargetEncoder()"),
    "places instead of names": columns("OneHotEncoder()", "[1, 2]"),
    "one column unused": columns("OneHotEncoder()", "['size']"),
    "the rest as it is": "make_column_transformer((OneHotEncoder(), ['city']), "
    "remainder='passthrough')",
    "two encoders": "make_union("
    + columns("OneHotEncoder()") + ", " + columns("OrdinalEncoder()", "['city']") + ")",
}  # fmt: skip
WITH_MISSING = {
    "imputer": columns(
        "make_pipeline(SimpleImputer(strategy='most_frequent'), OneHotEncoder())", "['city']"
    ),
    "imputer of a constant": columns(
        "make_pipeline(SimpleImputer(strategy='constant', fill_value='none'), OneHotEncoder())",
        "['city']",
    ),
    "imputer of numbers": columns(
        "make_pipeline(SimpleImputer(strategy='most_frequent'), OneHotEncoder())", "['size']"
    ),
    "missing as a category": columns("OneHotEncoder()", "['city']"),
}


def fitted(text, data):
    final = "DecisionTreeClassifier(max_depth=4)" if "Ordinal" in text else "LogisticRegression()"
    model = eval(f"make_pipeline({text}, {final})", sklearn_parts())
    return model.fit(data, target(data))


def check(model, data):
    """Compare a network with its model, for tables of each library; return the network."""
    net = tvmrt.load(model, cache=False)
    for each in ("pandas", "polars", "pyarrow"):
        given = data
        if each == "polars":
            given = pytest.importorskip("polars").from_pandas(data)
        elif each == "pyarrow":
            given = pytest.importorskip("pyarrow").Table.from_pandas(data, preserve_index=False)
        found = net(given)
        labels, scores = found if isinstance(found, tuple) else (found, None)
        if scores is None:
            np.testing.assert_allclose(labels.ravel(), model.predict(data), 1e-4, 1e-5)
            continue
        assert labels.tolist() == model.predict(data).tolist()
        np.testing.assert_allclose(scores, model.predict_proba(data), 1e-4, 1e-5)
    return net


@pytest.mark.everyday(2)
@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_with_encoders_of_text(name):
    data = table()
    model = fitted(PIPELINES[name], data)
    net, other = check(model, data), data.assign(city="paris")
    if name in ("one column unused", "target") or "unknown" in name:
        assert net(other)[0].tolist() == model.predict(other).tolist()
        return
    with pytest.raises(TypeError, match="column 'city' has 'paris', which the model does not know"):
        net(other)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_MISSING)
def test_missing_text(name):
    data = table(missing=True)
    check(fitted(WITH_MISSING[name], data), data)


def test_numbers_that_an_encoder_does_not_know():
    data = table()
    net = tvmrt.load(fitted(PIPELINES["one-hot"], data), cache=False)
    with pytest.raises(TypeError, match="column 'size' has 30, which the model does not know; its"):
        net(data.assign(size=30))
    with pytest.raises(TypeError, match="column 'city' has a missing value, which the model"):
        net(table(missing=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosted_trees_with_pandas_categories(library, kind, tmp_path):
    pytest.importorskip("onnxmltools")
    module, data = pytest.importorskip(library), table("category")
    options = {"verbose": -1} if library == "lightgbm" else {"enable_categorical": True}
    make = getattr(module, ("LGBM" if library == "lightgbm" else "XGB") + kind)
    model = make(n_estimators=5, **options).fit(data, target(data))
    net = check(model, data)
    swapped = data.assign(city=data["city"].cat.reorder_categories(["rome", "oslo", "bern"]))
    np.testing.assert_array_equal(np.ravel(net(swapped)[0]), np.ravel(net(data)[0]))
    tvmrt.compile(model, target="native").export_library(tmp_path / "net.so")
    compiled = tvmrt.load(tmp_path / "net.so")
    np.testing.assert_array_equal(np.ravel(compiled(data)[0]), np.ravel(net(data)[0]))
    other = data.assign(city="paris")
    if library == "xgboost":
        with pytest.raises(TypeError, match="column 'city' has 'paris', which the model does not"):
            net(other)
    else:
        other["city"] = other["city"].astype("category")
        found = net(other)[0] if kind == "Classifier" else net(other)
        np.testing.assert_allclose(np.ravel(found), np.ravel(model.predict(other)), 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosters_with_pandas_categories(library):
    pytest.importorskip("onnxmltools")
    module, data = pytest.importorskip(library), table("category")
    if library == "lightgbm":
        model = module.train({"verbose": -1}, module.Dataset(data, target(data)), 3)
        wanted = model.predict(data)
    else:
        rows = module.DMatrix(data, target(data), enable_categorical=True)
        model = module.train({}, rows, 3)
        wanted = model.predict(rows)
    net = tvmrt.load(model, cache=False)
    np.testing.assert_allclose(net(data).ravel(), wanted, 1e-4, 1e-5)
    with pytest.raises(ValueError, match="column 'size' is missing"):
        net(data[["age", "city"]])


REFUSED = {
    "missing text that an imputer leaves": (
        lambda: fitted(
            columns("make_pipeline(SimpleImputer(strategy='most_frequent'), OneHotEncoder())"),
            table().assign(city=pandas.Series([None, "oslo", "bern"] * (ROWS // 3), dtype=object)),
        ),
        "imputer of column 'city' leaves None as it is; fit the model with NaN",
    ),
    "text without names": (
        lambda: eval("make_pipeline(OneHotEncoder(), LogisticRegression())", sklearn_parts()).fit(
            table()[["city"]].to_numpy(), [0, 1] * (ROWS // 2)
        ),
        "fitted with text and without names of columns; fit it with a table of pandas",
    ),
    "trees of categories": (
        lambda: eval(
            "HistGradientBoostingClassifier(categorical_features='from_dtype', max_iter=2)",
            sklearn_parts(),
        ).fit(table("category"), [0, 1] * (ROWS // 2)),
        "which skl2onnx does not export; encode the categories with OneHotEncoder",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED)
def test_models_that_are_refused(name):
    make, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        tvmrt.load(make(), cache=False)


def test_catboost_is_refused_with_its_own_exporter():
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(iterations=1, verbose=0, allow_writing_files=False)
    with pytest.raises(ValueError, match=r'is of CatBoost; write it with save_model\("net.onnx"'):
        tvmrt.load(model.fit(table()[["age"]], [0, 1] * (ROWS // 2)))


@pytest.mark.parametrize("entry", [[1], [["a", "text", False]], [["a", [{}], False, True, True]]])
def test_a_damaged_list_of_columns_is_refused(entry):
    info = helper.make_tensor_value_info
    node, shape = helper.make_node("Relu", ["x"], ["y"]), ["n", 2]
    graph = helper.make_graph([node], "g", [info("x", 1, shape)], [info("y", 1, shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.helper.set_model_props(model, {COLUMNS: json.dumps(entry)})
    with pytest.raises(ValueError, match=f"the property {COLUMNS} of the model is .*, not a list"):
        tvmrt.load(model)
