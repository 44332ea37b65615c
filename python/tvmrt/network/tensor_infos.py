"""Descriptions of a network's inputs and outputs, from an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.tensor_info import TensorInfo


def describe_tensors(
    info: tuple[Mapping[str, tuple[int, ...]], Mapping[str, str]],
    dynamic_shapes: Mapping[str, Sequence[Any]],
    names: Sequence[str],
) -> list[TensorInfo]:
    """Describe inputs or outputs; graph executors name outputs ``name:index``."""
    shapes, dtypes = info
    own = list(dtypes)
    result = []
    for i, (key, name) in enumerate(zip(own, names if len(names) == len(own) else own)):
        spellings = (key, key.removesuffix(f":{i}"), name)
        shape = next(
            (dynamic_shapes[each] for each in spellings if each in dynamic_shapes), shapes[key]
        )
        result.append(TensorInfo(name, dtypes[key], tuple(shape)))
    return result


def is_plain(info: TensorInfo) -> bool:
    """Return whether all extents are fixed and NumPy has a built-in type of the same name."""
    fixed = all(isinstance(extent, int) for extent in info.shape)
    try:
        return fixed and np.dtype(info.dtype).isbuiltin == 1
    except TypeError:
        return False
