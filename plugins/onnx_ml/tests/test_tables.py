"""Calls with tables of pandas, polars and pyarrow, compared with the model's own predictions."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from onnx import parser

import tvmrt

pandas = pytest.importorskip("pandas")

ROWS = 40
rng = np.random.default_rng(0)
NUMBERS = {
    "float": lambda: pandas.Series(rng.random(ROWS)),
    "int": lambda: pandas.Series(rng.integers(0, 9, ROWS)),
    "bool": lambda: pandas.Series(rng.random(ROWS) > 0.5),
    "Int64": lambda: pandas.Series(rng.integers(0, 9, ROWS)).astype("Int64"),
    "boolean": lambda: pandas.Series(rng.random(ROWS) > 0.5).astype("boolean"),
    "objects": lambda: pandas.Series([*rng.random(ROWS)], dtype=object),
    "categories": lambda: pandas.Series(rng.integers(0, 4, ROWS)).astype("category"),
}
OTHERS = {
    "text": ["low"] * ROWS,
    "categories of text": pandas.Series(["low"] * ROWS).astype("category"),
    "dates": pandas.date_range("2020", periods=ROWS),
    "days": [datetime.date(2020, 1, 1)] * ROWS,
}


def of_polars(table):
    return pytest.importorskip("polars").from_pandas(table)


def of_arrow(table):
    return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)


LIBRARIES = {"pandas": lambda table: table, "polars": of_polars, "pyarrow": of_arrow}


@pytest.fixture(params=LIBRARIES)
def convert(request):
    return LIBRARIES[request.param]


def sample(extra=None):
    extra = rng.random(ROWS) if extra is None else extra
    return pandas.DataFrame({"mean age": 50 * rng.random(ROWS), "extra": extra})


def logistic():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression())


def xgboost():
    module = pytest.importorskip("xgboost")
    pytest.importorskip("onnxmltools")
    return module.XGBClassifier(n_estimators=4)


def lightgbm():
    module = pytest.importorskip("lightgbm")
    pytest.importorskip("onnxmltools")
    return module.LGBMClassifier(n_estimators=4, min_child_samples=4, verbose=-1)


@pytest.fixture(scope="module", params=[logistic, xgboost, lightgbm], ids=lambda e: e.__name__)
def fitted(request):
    """Return a model that was fitted with a table, and its network."""
    pytest.importorskip("skl2onnx")
    table = sample()
    model = request.param().fit(table, (table["mean age"] + 20 * table["extra"] > 35).astype(int))
    return model, tvmrt.load(model, cache=False)


@pytest.mark.parametrize("kind", NUMBERS)
def test_columns_of_numbers(fitted, convert, kind):
    model, net = fitted
    table = sample(NUMBERS[kind]())
    exact = table.astype({"extra": float})
    assert net(convert(table))[0].tolist() == model.predict(exact).tolist()


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "object"])
def test_missing_elements_are_nan(convert, dtype):
    net = tvmrt.load(
        parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> '
                           "g (float[N, 2] x) => (float[N, 2] y) { y = Add(x, x) }")
    )  # fmt: skip
    extra = pandas.Series([1.0, 2.0, 3.0]).astype(dtype)
    extra[1] = pandas.NA if dtype != "object" else None
    y = net(convert(pandas.DataFrame({"a": [1, 2, 3], "b": extra})))
    np.testing.assert_array_equal(y, [[2, 2], [4, np.nan], [6, 6]])


@pytest.mark.parametrize("kind", OTHERS)
def test_columns_of_other_elements_are_named(fitted, convert, kind):
    with pytest.raises(TypeError, match=r"input X: column 'extra' has .*; give numbers"):
        fitted[1](convert(sample(OTHERS[kind])))


def test_names_are_checked_also_in_a_library(convert, fitted, tmp_path):
    tvmrt.compile(fitted[0], target="native").export_library(tmp_path / "net.so")
    table = sample()
    for net in (fitted[1], tvmrt.load(tmp_path / "net.so")):
        assert len(net(convert(table))[0]) == ROWS
        with pytest.raises(ValueError, match="input X: column 'extra' is missing"):
            net(convert(table[["mean age"]]))
        with pytest.raises(ValueError, match="column 'more' is not one of the model's"):
            net(convert(table.assign(more=1)))
        with pytest.raises(ValueError, match=r"column 0 is 'extra', but .* fitted with 'mean.age'"):
            net(convert(table[["extra", "mean age"]]))


def test_an_input_for_each_column(convert):
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N, 1] age, int64[N, 1] rooms, string[N, 1] city) => (float[N, 1] y, string[N, 1] z) {
      f = Cast<to=1>(rooms) y = Add(age, f) z = Identity(city) }"""
    net = tvmrt.load(parser.parse_model(text), cache=False)
    table = pandas.DataFrame({"city": ["a", "b"], "rooms": [1, 2], "age": [30.5, 40]})
    y, z = net(convert(table))
    np.testing.assert_array_equal(y, [[31.5], [42]])
    assert z.tolist() == [["a"], ["b"]]
    with pytest.raises(ValueError, match="column 'rooms' is missing"):
        net(convert(table[["city", "age"]]))
    with pytest.raises(TypeError, match="column 'age' has the text 'x'"):
        net(convert(table.assign(age="x")))
