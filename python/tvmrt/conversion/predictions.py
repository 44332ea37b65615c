"""Estimators as functions of rows, and rows to compare their networks on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tvmrt.conversion.categories import Categories
from tvmrt.conversion.draws import other_sizes
from tvmrt.conversion.original import Draws, Original

_ROWS = 32
_MIN_SAME = 0.85  # part of the labels; at other rows two scores are equal but for rounding
_KINDS = 3  # compared kinds of rows
_METHODS = ("predict", "predict_proba", "decision_function", "score_samples", "transform")
_Rows = Callable[[np.ndarray], Sequence[list[np.ndarray]]]


def original_of(
    what: str, exporter: str, exported: Any, categories: Categories, parts: Sequence[Any],
    example: Any, shape: Any, run: _Rows, advice: str, takes_missing: bool = False,
) -> Original:  # fmt: skip
    """Return an estimator as a function to compare its network with.

    Parameters
    ----------
    exported
        The network, an ``onnx.ModelProto`` with the input X of the given ``shape``.
    parts
        The estimators in the model.
    example
        Rows or a table that the model accepts, or None.
    run
        Return the possible results of each output.
    takes_missing
        Whether the network has a branch for missing values as the estimator; they are drawn, too.
    """
    rows = None if example is None else _example_rows(example, categories)
    if rows is not None and (rows.ndim != 2 or rows.shape[1] != shape[1] or not len(rows)):
        raise ValueError(f"example: the model takes rows of {shape[1]} columns, not {rows.shape}")

    def draw(bounds: Mapping[str, Sequence[int]]) -> Iterator[Draws]:
        count = shape[0]
        if isinstance(count, str):
            low, high = bounds.get(count, (1, _ROWS))
            count = max(low, min(high, _ROWS))
        feeds = _feeds(exported, categories, parts, rows, count, shape[1])
        missing = (
            list(_with_missing(exported, categories, (count, shape[1]))) if takes_missing else []
        )
        yield Draws(_KINDS + len(missing), chain(missing, feeds))
        if isinstance(shape[0], str) and shape[0] in bounds:
            for sizes in list(other_sizes({shape[0]: count}, bounds))[:2]:
                feeds = _feeds(exported, categories, parts, rows, sizes[shape[0]], shape[1])
                yield Draws(1, feeds)

    return Original(
        what, exporter, lambda feeds: run(feeds["X"]), advice=advice, draw=draw,
        min_same_labels=_MIN_SAME,
    )  # fmt: skip


def _example_rows(example: Any, categories: Categories) -> np.ndarray:
    """Return an example as rows of the network."""
    if any(each.categories is not None for each in categories.columns):
        columns = [
            np.asarray(example[c.name]) if c.categories is None else c.numbers(example[c.name])
            for c in categories.columns
        ]
        example = np.column_stack(columns)
    return np.asarray(example, np.float32)


def _feeds(
    exported: Any, categories: Categories, parts: Sequence[Any], example: Any, count: int,
    columns: int,
) -> Iterator[dict[str, np.ndarray]]:  # fmt: skip
    """Yield rows: of the example, near thresholds of trees, as the training data, and others that
    only some models accept."""
    rng = np.random.default_rng(0)
    shape = (count, columns)
    if example is not None:
        for _ in range(_KINDS):
            yield {"X": example[rng.permutation(max(count, len(example)))[:count] % len(example)]}
    center, scale = _statistics(parts, columns)
    normal = center + scale * rng.standard_normal(shape)
    wide = center + 3 * (normal - center)
    kinds = [near_thresholds(exported, normal, rng), normal, wide, np.abs(normal)]
    kinds += [rng.integers(0, 2, shape), rng.integers(0, 10, shape), rng.random(shape)]
    if any(_has_categories(node) for node in exported.graph.node):  # other numbers are no category
        kinds = [near_thresholds(exported, normal, rng) for _ in range(_KINDS)]
    for rows in kinds:
        yield {"X": categories.limit(rows, rng)}


def _with_missing(
    exported: Any, categories: Categories, shape: tuple[int, int]
) -> Iterator[dict[str, np.ndarray]]:
    """Yield rows with missing values near the thresholds of trees."""
    rng = np.random.default_rng(2)
    for _ in range(_KINDS):
        rows = near_thresholds(exported, rng.standard_normal(shape), rng)
        rows[rng.random(shape) < 0.3] = np.nan
        yield {"X": categories.limit(rows, rng)}


def _statistics(parts: Sequence[Any], columns: int) -> tuple[Any, Any]:
    """Return center and scale of the training data, as far as a step of the model records them."""
    for part in parts:
        for center, scale in (
            ("mean_", "scale_"), ("center_", "scale_"), ("data_min_", "data_range_"),
        ):  # fmt: skip
            statistics = getattr(part, center, None), getattr(part, scale, None)
            if all(np.shape(each) == (columns,) for each in statistics):
                return statistics
    return 0.0, 1.0


def _has_categories(node: Any) -> bool:
    modes = [each.strings for each in node.attribute if each.name == "nodes_modes"]
    return any(b"BRANCH_EQ" in each for each in modes)


def near_thresholds(exported: Any, rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return rows with values near the thresholds of the trees in a network, and with zeros.
    Whole numbers if trees compare for equality."""
    rows, columns = rows.copy(), rows.shape[1]
    for node in exported.graph.node:
        lists = {each.name: each for each in node.attribute}
        if "nodes_values" not in lists:
            continue
        features = np.array(lists["nodes_featureids"].ints)
        values = np.array(lists["nodes_values"].floats)
        modes = np.array(lists["nodes_modes"].strings)
        for column in {*features[modes != b"LEAF"].tolist()} & {*range(columns)}:
            of_column = values[(features == column) & (modes != b"LEAF")]
            scale = max(float(of_column.std()), 1e-3 * float(np.abs(of_column).max()))
            noise = scale * rng.standard_normal(len(rows))
            rows[:, column] = rng.choice(of_column, len(rows)) + noise
    rows[rng.random(rows.shape) < 0.25] = 0
    return np.round(rows) if any(map(_has_categories, exported.graph.node)) else rows


def of_estimator(model: Any, outputs: Sequence[Any], categories: Categories) -> _Rows:
    """Return a function of rows: the results of an estimator for each output of its network,
    whose ``outputs`` are those of the ONNX graph."""

    def run(rows: np.ndarray) -> list[list[np.ndarray]]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names of columns
            data = categories.table(rows)
            methods = [name for name in _METHODS if hasattr(model, name)]
            if "predict" not in methods:
                methods.sort(key=lambda name: name != "transform")
            results = [_numbers(model, getattr(model, name)(data)) for name in methods]
        first, *others = results
        if others and isinstance(others[0], list):  # of several targets, an output for each
            return [_variants(first), *([np.asarray(each)] for each in others[0])]
        scores = [variant for each in others or [first] for variant in _variants(each)]
        return [_variants(first), *[scores] * (len(outputs) - 1)]

    return run


def of_booster(predict: Callable[[np.ndarray], Any], outputs: int) -> _Rows:
    """Return a function of rows: the label, if the network has two outputs, and the prediction."""

    def run(rows: np.ndarray) -> list[list[np.ndarray]]:
        scores = np.asarray(predict(rows), np.float64)
        if outputs == 1:
            return [_variants(scores)]
        many = scores.ndim == 2 and scores.shape[1] > 1
        labels = scores.argmax(axis=1) if many else (scores.reshape(len(rows)) > 0.5).astype(int)
        return [[labels], _variants(scores)]

    return run


def _numbers(model: Any, values: Any) -> Any:
    """Return results as numbers; labels that are strings as their index among the classes."""
    if isinstance(values, list):
        return values  # of several targets
    if hasattr(values, "toarray"):  # sparse
        values = values.toarray()
    array = np.asarray(values)
    classes = getattr(model, "classes_", None)
    if array.dtype.kind in "OUS" and classes is not None:
        return np.searchsorted(np.asarray(classes), array)
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _variants(result: Any) -> list[np.ndarray]:
    """Return results in the forms that networks have: for one score of two classes, also both."""
    values = np.asarray(result)
    if values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1):
        score = values.reshape(-1)
        if score.dtype.kind == "f":
            return [score, np.stack([1 - score, score], 1), np.stack([-score, score], 1)]
        return [score]
    return [values]
