"""Network parameters as bytes and files, in TVM's format."""

from __future__ import annotations

import os
from typing import Any

from tvmrt.runtime.container import Map
from tvmrt.runtime.ndarray import NDArray, array
from tvmrt.runtime.packed_func import get_global_func

__all__ = [
    "load_param_dict",
    "load_param_dict_from_file",
    "save_param_dict",
    "save_param_dict_to_file",
]


def _to_map(params: dict[str, Any]) -> Map:
    return Map({name: _managed_tensor(value) for name, value in params.items()})


def _managed_tensor(value: Any) -> NDArray:
    return value if isinstance(value, NDArray) and not value.is_view else array(value)


def save_param_dict(params: dict[str, Any]) -> bytearray:
    """Serialise parameters to bytes.

    Parameters
    ----------
    params
        Tensors or arrays by name.
    """
    return get_global_func("runtime.SaveParams")(_to_map(params))


def load_param_dict(param_bytes: bytes | bytearray) -> dict[str, NDArray]:
    """Return the parameters that save_param_dict() serialised, by name.

    Raises
    ------
    TVMError
        If the bytes are damaged or have another format.
    """
    if not isinstance(param_bytes, (bytes, bytearray)):
        param_bytes = bytes(param_bytes)
    return _to_dict(get_global_func("runtime.LoadParams")(param_bytes))


def save_param_dict_to_file(params: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write parameters to a file."""
    get_global_func("runtime.SaveParamsToFile")(_to_map(params), os.fspath(path))


def load_param_dict_from_file(path: str | os.PathLike[str]) -> dict[str, NDArray]:
    """Return the parameters in a file, by name."""
    return _to_dict(get_global_func("runtime.LoadParamsFromFile")(os.fspath(path)))


def _to_dict(values: Any) -> dict[str, NDArray]:
    return {str(name): tensor for name, tensor in values.items()}
