"""Convert the arrays and tensors of callers to inputs, and outputs to the caller's type."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tvmrt.conversion.columns import Column
from tvmrt.network import tables
from tvmrt.runtime.dense_array import dense_array
from tvmrt.runtime.ndarray import NDArray, array, from_dlpack
from tvmrt.tensor_info import TensorInfo

Wrap = Callable[[Any], Any]  # converts a NumPy array to the caller's type of tensor


def as_array(value: Any) -> Any:
    """Return a value as a NumPy array, or as an NDArray that borrows the memory of a tensor.

    Raises TypeError for a value that cannot become a tensor, ValueError for masked elements.
    """
    if type(value) is np.ndarray or isinstance(value, NDArray):
        return value
    if isinstance(value, np.ndarray):
        return dense_array(value)
    if hasattr(value, "detach"):  # a PyTorch tensor with gradients
        value = value.detach()
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        try:
            return from_dlpack(value)
        except (TypeError, ValueError, BufferError):  # strides, or a device without a view here
            return np.asarray(value)
    try:
        result = dense_array(value)
    except ValueError:
        rows: Any = [value]
        while len(sizes := {*map(_length, rows)}) == 1:
            if sizes == {0}:
                raise
            rows = [each for row in rows for each in row]
        text = " and ".join(map(str, sorted(sizes)))
        raise ValueError(f"its rows have {text} elements; give rows of one length") from None
    if result.dtype == object and not all(isinstance(e, (str, bytes)) for e in result.reshape(-1)):
        if large := next((e for e in result.reshape(-1) if _is_large(e)), None):
            raise TypeError(f"the integer {large} needs more than 64 bits, which no tensor has")
        raise TypeError(f"a {type(value).__name__} is not a tensor; give numbers of one shape")
    return result


def _length(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") and getattr(value, "shape", None) != () else 0


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**64


def convert_dtype(value: Any, dtype: str) -> Any:
    """Convert the elements of a value to a type; only floating-point values may be rounded.

    Raises TypeError if the type cannot represent them.
    """
    if isinstance(value, NDArray):
        if value.dtype == dtype:
            return value
        value = value.numpy()
    if dtype == "handle" or str(value.dtype) == dtype:
        return value
    numpy_type = _numpy_type(dtype)
    if numpy_type is None:  # NumPy lacks the type; the executor checks it
        return value
    if np.can_cast(value.dtype, numpy_type, "safe") or value.size == 0:
        return value.astype(numpy_type)
    if value.dtype.kind == "f" and numpy_type.kind == "f":
        return value.astype(numpy_type)
    cast = value.astype(numpy_type) if value.dtype.kind in "biu" else None
    if cast is None or not _is_equal(cast, value):
        if value.dtype.kind in "SUT" or isinstance(next(iter(value.flat), None), (str, bytes)):
            raise TypeError(f"the elements are strings, but the network needs {dtype}")
        if value.dtype.kind == "O":
            raise TypeError(f"the elements are Python objects, but the network needs {dtype}")
        if cast is not None and numpy_type.kind in "iu":
            limits, wrong = np.iinfo(numpy_type), value[cast != value].flat[0]
            raise TypeError(
                f"the element {wrong} is not within {limits.min} to {limits.max}, the numbers of "
                f"{dtype}; scale or clip the values"
            )
        raise TypeError(
            f"the elements are {value.dtype}, but the network needs {dtype}; convert them, "
            f"for instance with .astype('{dtype}')"
        )
    return cast


def _is_equal(cast: np.ndarray, value: np.ndarray) -> bool:
    """Return whether integers or truths have the same values after their conversion."""
    if not np.array_equal(cast, value):
        return False
    if cast.dtype.kind != "f":
        return True
    with np.errstate(invalid="ignore"):  # NumPy compares large integers as rounded floats
        return np.array_equal(cast.astype(value.dtype), value)


def _numpy_type(dtype: str) -> np.dtype[Any] | None:
    try:
        return np.dtype(dtype)
    except TypeError:
        return None


def result_converter(values: Iterable[Any]) -> Wrap | None:
    """Return a function that converts results to the first tensor's type; None for NumPy arrays."""
    for value in values:
        if isinstance(value, np.ndarray):
            return None
        if isinstance(value, NDArray):
            return array
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            return _dlpack_importer(type(value).__module__.partition(".")[0])
    return None


def _dlpack_importer(package: str) -> Wrap | None:
    """Return a package's function that imports DLPack tensors; None if it has none."""
    module = importlib.import_module(package)
    take = getattr(module, "from_dlpack", None) or getattr(
        getattr(module, "dlpack", None), "from_dlpack", None
    )
    if take is None:
        return None
    return lambda result: take(array(result)) if result.dtype.kind != "O" else result


def converted(
    values: Sequence[Any], infos: Sequence[TensorInfo], columns: Sequence[Column] = ()
) -> list[Any]:
    """Return inputs as arrays of the network's types.

    Raises TypeError or ValueError, naming the input; also for a table with other columns, or in
    another order.
    """
    arrays = []
    for value, info in zip(values, infos):
        try:
            if columns and (names := tables.names_of(value)) is not None:
                tables.check_names(names, [each.name for each in columns])
            is_table = tables.is_table(value)
            array = tables.matrix(value, info.dtype, columns) if is_table else as_array(value)
            arrays.append(convert_dtype(array, info.dtype))
        except (TypeError, ValueError) as error:
            raise type(error)(f"input {info.name}: {error}") from None
    return arrays
