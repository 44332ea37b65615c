"""Tables of pandas, polars and pyarrow as inputs: the numbers of their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.conversion.columns import Column, is_missing
from tvmrt.tensor_info import TensorInfo

_ACCESS = ("iloc", "to_series", "column")  # of a column in pandas, polars and pyarrow


def names_of(value: Any) -> list[Any] | None:
    """Return the names of the columns of a table; None for other values."""
    names = getattr(value, "column_names", None)
    names = getattr(value, "columns", None) if names is None else names
    return None if names is None or callable(names) else list(names)


def is_table(value: Any) -> bool:
    """Return whether a value has columns of types of their own."""
    return names_of(value) is not None and any(hasattr(value, name) for name in _ACCESS)


def matrix(table: Any, dtype: str, known: Sequence[Column] = ()) -> np.ndarray[Any, Any]:
    """Return the elements of a table, with codes for the categories of known columns. Raise
    TypeError, with the column, for others than numbers."""
    coded = {i: each for i, each in enumerate(known) if each.categories is not None}
    columns = [
        coded[i].numbers(np.asarray(each, object)) if i in coded else _numbers(each, name)
        for i, (name, each) in enumerate(_columns(table).items())
    ]
    if dtype.startswith("float"):  # as a table of numbers of several types
        columns = [each.astype(np.float64) if each.dtype.kind != "f" else each for each in columns]
    return np.column_stack(columns) if columns else np.empty((len(table), 0))


def inputs_of(table: Any, inputs: Sequence[TensorInfo]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the columns of a table for a network that has an input for each, by name. Raise
    ValueError for other names, TypeError for elements of another type."""
    columns = _columns(table)
    check_names(list(columns), [each.name for each in inputs], in_order=False)
    arrays = {}
    for info in inputs:
        column = columns[info.name]
        array = (
            np.asarray(column, object) if info.dtype == "handle" else _numbers(column, info.name)
        )
        arrays[info.name] = array.reshape(-1, *[1] * (len(info.shape) - 1))
    return arrays


def check_names(names: Sequence[Any], expected: Sequence[str], in_order: bool = True) -> None:
    """Raise ValueError for a table without the expected columns, or in another order."""
    # LightGBM keeps no spaces
    found, needed = ([str(e).replace(" ", "_") for e in each] for each in (names, expected))
    for name, key in zip(expected, needed):
        if key not in found:
            raise ValueError(f"column {name!r} is missing; the columns are {', '.join(expected)}")
    for name, key in zip(names, found):
        if key not in needed:
            raise ValueError(
                f"column {name!r} is not one of the model's, {', '.join(expected)}; leave it out"
            )
    for i, (name, key) in enumerate(zip(names, found)):
        if in_order and i < len(needed) and key != needed[i]:
            raise ValueError(
                f"column {i} is {name!r}, but the model was fitted with {expected[i]!r} there; "
                "give the columns in the order of its feature_names_in_"
            )


def _columns(table: Any) -> Mapping[Any, Any]:
    names = names_of(table) or []
    if len({*names}) < len(names):
        raise ValueError("two columns of the table have one name; rename one")
    if hasattr(table, "iloc"):
        return {name: table.iloc[:, i] for i, name in enumerate(names)}
    read = table.to_series if hasattr(table, "to_series") else table.column
    columns = {name: read(i) for i, name in enumerate(names)}
    for name, each in columns.items():
        if hasattr(each, "to_pylist") and hasattr(each.type, "index_type"):
            columns[name] = each.cast(each.type.value_type)  # NumPy gets wrong missing elements
    return columns


def _numbers(column: Any, name: Any) -> np.ndarray[Any, Any]:
    """Return the numbers of a column; missing ones are NaN."""
    array = np.asarray(column)
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind not in "OSUT":
        raise TypeError(f"column {name!r} has elements of type {array.dtype}; give numbers")
    for each in array:
        if isinstance(each, (str, bytes)):
            raise TypeError(
                f"column {name!r} has the text {str(each)!r:.40}; give numbers, or the codes that "
                "the model was fitted with"
            )
    try:
        missing = [is_missing(each) for each in array]
        if not any(missing) and all(isinstance(each, (bool, np.bool_)) for each in array):
            return array.astype(bool)
        return np.array([np.nan if gone else float(e) for gone, e in zip(missing, array)])
    except (TypeError, ValueError):
        raise TypeError(
            f"column {name!r} has elements that are not numbers; give numbers"
        ) from None
