"""More rows than a network was compiled for, as several runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.tensor_info import TensorInfo

# names of a first axis along which nothing depends on each other
_BATCH = re.compile(r"n|b|bs|rows|.*batch.*", re.IGNORECASE)


def find(
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    bounds: Mapping[str, Sequence[int]],
) -> int | None:
    """The most rows of one run, where the first axis of all inputs and outputs is a batch.

    It is one if its extent has the name of a batch, such as ``N`` or ``batch_size``, or is 1: rows
    of a fixed number, or along a dimension with another name, may depend on each other.
    """
    firsts = {each.shape[0] if each.shape else None for each in (*inputs, *outputs)}
    if len(firsts) != 1 or not inputs:
        return None
    (first,) = firsts
    if first == 1:
        return 1
    if isinstance(first, str) and first in bounds and _BATCH.fullmatch(first):
        least, most = bounds[first]
        return most if least <= 1 else None
    return None


def parts(given: Sequence[Any], inputs: Sequence[TensorInfo], most: int) -> list[list[Any]] | None:
    """The inputs of each run, None where one is enough or the shapes are wrong anyway."""
    rows = given[0].shape[0] if given[0].shape else 0
    if rows <= most:
        return None
    for value, info in zip(given, inputs):
        if len(value.shape) != len(info.shape) or value.shape[0] != rows:
            return None
    arrays = [np.asarray(value) for value in given]
    return [[each[i : i + most] for each in arrays] for i in range(0, rows, most)]


def joined(results: Sequence[Sequence[Any]]) -> list[Any]:
    """The outputs of all runs."""
    return [np.concatenate(each) for each in zip(*results)]
