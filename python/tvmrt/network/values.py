"""What a caller gives and gets: arrays of numpy, tensors of torch and others, NDArrays, lists."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tvmrt.runtime.ndarray import NDArray, array, from_dlpack

Wrap = Callable[[Any], Any]  # a result, a numpy array, as the caller's kind of tensor


def plain(value: Any) -> Any:
    """The value as a numpy array, or an NDArray over the memory of what has no such form.

    Raises TypeError for what is no tensor and cannot become one.
    """
    if isinstance(value, (np.ndarray, NDArray)):
        return value
    if hasattr(value, "detach"):  # a tensor of torch that gradients flow through
        value = value.detach()
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        try:
            return from_dlpack(value)
        except (TypeError, ValueError, BufferError):  # strides, or a device that has no view here
            return np.asarray(value)
    found = np.asarray(value)
    if found.dtype == object and not all(isinstance(e, (str, bytes)) for e in found.reshape(-1)):
        raise TypeError(f"a {type(value).__name__} is not a tensor; give numbers of one shape")
    return found


def fitting(value: Any, dtype: str) -> Any:
    """The value with elements of a type; numbers keep their value, but for a float's rounding.

    Raises TypeError where the type cannot hold them.
    """
    if isinstance(value, NDArray):
        if value.dtype == dtype:
            return value
        value = value.numpy()
    if dtype == "handle" or str(value.dtype) == dtype:
        return value
    wanted = _numpy_type(dtype)
    if wanted is None:  # of a type that numpy has not: the executor knows more
        return value
    if np.can_cast(value.dtype, wanted, "safe"):
        return value.astype(wanted)
    if value.dtype.kind == "f" and wanted.kind == "f":
        return value.astype(wanted)
    cast = value.astype(wanted) if value.dtype.kind in "biu" else None
    if cast is None or not np.array_equal(cast, value):
        if value.dtype.kind in "SUT" or isinstance(next(iter(value.flat), None), (str, bytes)):
            raise TypeError(f"elements are strings, and the network takes {dtype}")
        if value.dtype.kind == "O":
            raise TypeError(f"elements are Python objects, and the network takes {dtype}")
        raise TypeError(
            f"elements are {value.dtype}, and the network takes {dtype}; convert them as you mean "
            f"it, for instance with .astype('{dtype}')"
        )
    return cast


def _numpy_type(dtype: str) -> np.dtype[Any] | None:
    try:
        return np.dtype(dtype)
    except TypeError:
        return None


def wrapper(values: Iterable[Any]) -> Wrap | None:
    """What makes results of the kind of the first tensor given; None for numpy's own arrays."""
    for value in values:
        if isinstance(value, np.ndarray):
            return None
        if isinstance(value, NDArray):
            return array
        if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
            return _taker(type(value).__module__.partition(".")[0])
    return None


def _taker(package: str) -> Wrap | None:
    """The function of a package that takes tensors of others."""
    module = importlib.import_module(package)
    take = getattr(module, "from_dlpack", None) or getattr(
        getattr(module, "dlpack", None), "from_dlpack", None
    )
    if take is None:
        return None
    return lambda result: take(array(result)) if result.dtype.kind != "O" else result
