"""Categories of estimators that were fitted with tables: text, and codes in its place.

Networks of tables take numbers. An encoder of text becomes one of codes, so that the network runs
on boards as well; callers with tables pass the text (``columns.Column``).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from tvmrt.conversion.columns import Column, is_missing

# Attributes of estimators whose copy gets codes.
_CODED = ("steps", "transformers_", "transformer_list", "categories_")


class Categories:
    """Categories that an estimator knows, by the index of the column.

    ``columns``: the columns of its table; none if it was fitted with an array. ``model``: the
    estimator for the network, with codes for text.
    """

    def __init__(self, model: Any, names: Sequence[str] | None, features: int) -> None:
        self.columns = [Column(str(name)) for name in (() if names is None else names)]
        if [each.name for each in self.columns] == [f"Column_{i}" for i in range(features)]:
            self.columns = []  # LightGBM names the columns of arrays itself
        self.model = copy.deepcopy(model) if any(hasattr(model, e) for e in _CODED) else model
        self._numbers: dict[int, Sequence[float]] = {}  # of encoders of numbers
        self._values: dict[int, list[Any]] = {}  # what the estimator takes for codes
        self._is_typed = False  # takes columns of pandas' type category only
        self._used: set[int] = set()
        self._visit(self.model, range(features))
        for column in {*range(len(self.columns))} - self._used:  # a ColumnTransformer drops it
            self._add(column, (), unknown=True, missing=False)

    def limit(self, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return rows with numbers that the encoders know in the columns that have an encoder."""
        rows, choices = rows.astype(np.float32), dict(self._numbers)
        for column, values in self._values.items():
            known = self.columns[column]
            codes = [*map(float, range(len(values)))]
            choices[column] = codes + [-1.0] * known.unknown + [np.nan] * known.missing
        for column, numbers in choices.items():
            rows[:, column] = rng.choice(numbers, len(rows))
        return rows

    def table(self, rows: np.ndarray) -> Any:
        """Return rows of the network as what the estimator takes: a table if its columns have
        names."""
        if not self.columns:
            return rows
        try:
            import pandas
        except ImportError:  # fitted with another library's table
            return rows
        table = pandas.DataFrame(rows, columns=[each.name for each in self.columns])
        for column, known in self._values.items():
            names = known + ["\N{REPLACEMENT CHARACTER}"] * self.columns[column].unknown  # for -1
            codes = rows[:, column]
            values = [np.nan if np.isnan(each) else names[int(np.rint(each))] for each in codes]
            kind = pandas.CategoricalDtype(names) if self._is_typed else object
            table[self.columns[column].name] = pandas.Series(values, dtype=object).astype(kind)
        return table

    def _visit(self, step: Any, columns: Sequence[int]) -> None:
        """Find the categories of an estimator that takes these columns, and give it their codes."""
        if hasattr(step, "steps"):
            steps = [each for _, each in step.steps if each != "passthrough"]
            imputers = [*takewhile(lambda each: hasattr(each, "statistics_"), steps)]
            self._visit(next(iter(steps[len(imputers) :]), None), columns)
            for each in imputers:
                self._code_imputer(each, columns)
        elif hasattr(step, "transformers_"):
            self._visit_parts(step, columns)
        elif hasattr(step, "transformer_list"):
            for _, each in step.transformer_list:
                self._visit(each, columns)
        else:
            self._used.update(columns)
            if len(getattr(step, "categories_", ())) == len(columns):
                self._code_encoder(step, columns)
            elif self.columns and type(step).__module__.startswith(("lightgbm.", "xgboost.")):
                self._add_boosted(step)

    def _add_boosted(self, model: Any) -> None:
        is_lightgbm = type(model).__module__.startswith("lightgbm.")
        found = _of_lightgbm(model) if is_lightgbm else _of_xgboost(model)
        for column, values in found.items():
            self._add(column, values, unknown=is_lightgbm, missing=True)
            self._is_typed = True

    def _visit_parts(self, step: Any, columns: Sequence[int]) -> None:
        """Visit the parts of a ColumnTransformer, whose columns become indices."""
        for number, (name, each, _) in enumerate(step.transformers_):
            places = [int(i) for i in step._transformer_to_input_indices.get(name, ())]
            step.transformers_[number] = (name, each, places)
            if each != "drop":
                self._visit(each, [columns[i] for i in places])

    def _code_encoder(self, step: Any, columns: Sequence[int]) -> None:
        unknown = getattr(step, "handle_unknown", "") != "error"
        for number, (column, known) in enumerate(zip(columns, step.categories_)):
            if np.asarray(known).dtype.kind in "OUS":
                codes = self._add(column, [*known], unknown, missing=False)
                step.categories_[number] = np.array(codes)
                continue
            self._numbers[column] = known
            if self.columns and not unknown:
                name, values = self.columns[column].name, np.asarray(known)[~np.isnan(known)]
                missing = len(values) < len(known)
                self.columns[column] = Column(name, values.tolist(), False, missing, coded=False)
        if self.columns and hasattr(step, "drop"):  # callers refuse the values that it refuses
            step.handle_unknown = "ignore"

    def _code_imputer(self, step: Any, columns: Sequence[int]) -> None:
        """Give an imputer the codes of the categories that it puts in place of missing values."""
        has_text = np.asarray(step.statistics_).dtype.kind in "OUS"
        codes = []
        for column, value in zip(columns, step.statistics_ if self.columns else ()):
            known = self.columns[column]
            self.columns[column] = known._replace(missing=True)
            if not has_text:
                continue
            if None in (known.categories or ()):
                raise ValueError(
                    f"the imputer of column {known.name!r} leaves None as it is; fit the model "
                    "with NaN for missing values"
                )
            codes.append(known._replace(unknown=True).numbers([value])[0])
        if codes:
            step.statistics_, step._fit_dtype = np.array(codes), np.dtype(np.float64)
            step.missing_values, step.fill_value = np.nan, codes[0]

    def _add(self, column: int, values: Sequence[Any], unknown: bool, missing: bool) -> list[float]:
        """Add categories to a column and return their codes. Raise ValueError without names."""
        if not self.columns:
            raise ValueError(
                "the model was fitted with text and without names of columns; fit it with a table "
                "of pandas, whose columns have names"
            )
        names = [None if is_missing(each) else each for each in values]
        old, known = self.columns[column], self._values.setdefault(column, [])
        keys = [*(old.categories or ())]
        if len({*names}) < len(names):
            raise ValueError(
                f"column {old.name!r} has None and NaN; fit the model with one of them"
            )
        for name, each in zip(names, values):
            if name not in keys:
                keys.append(name)
                known.append(each)
        if old.categories is not None:
            unknown, missing = unknown and old.unknown, missing and old.missing
        self.columns[column] = Column(old.name, keys, unknown, missing)
        return [float(keys.index(each)) for each in names]


def _of_lightgbm(model: Any) -> dict[int, Sequence[Any]]:
    """Return the categories of pandas' columns that LightGBM was fitted with."""
    booster = getattr(model, "booster_", model)
    lists = getattr(booster, "pandas_categorical", None) or []
    infos = booster.model_to_string(num_iteration=1).partition("feature_infos=")[2]
    kinds = infos.partition("\n")[0].split()
    places = [i for i, each in enumerate(kinds) if each != "none" and not each.startswith("[")]
    if lists and len(places) != len(lists):
        raise ValueError(
            "LightGBM does not record which columns are categories if one of them has a single "
            "value; fit the model without that column"
        )
    return dict(zip(places, lists))


def _of_xgboost(model: Any) -> dict[int, Sequence[Any]]:
    """Return the categories of a table's columns that XGBoost was fitted with."""
    booster = model.get_booster() if hasattr(model, "get_booster") else model
    if "c" not in (booster.feature_types or ()):
        return {}
    gradient = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]
    gradient = gradient.get("gbtree", gradient)  # of dart
    if booster.feature_names and "cats" not in gradient["model"]:
        raise ValueError(
            "this version of XGBoost does not record the categories of columns; fit the model with "
            "XGBoost 3.1 or later, or with codes"
        )
    found: dict[int, Sequence[Any]] = {}
    for column, each in enumerate(gradient["model"].get("cats", {}).get("enc", [])):
        values = each["values"]
        if each.get("offsets"):  # text
            text, ends = bytes(e & 0xFF for e in values), each["offsets"]
            values = [text[i:j].decode() for i, j in zip(ends, ends[1:])]
        if values:
            found[column] = values
    return found
