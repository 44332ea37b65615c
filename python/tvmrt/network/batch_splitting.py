"""Split a batch that is larger than the compiled maximum into several runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.tensor_info import TensorInfo

# names of a first axis whose rows are independent of each other
_BATCH = re.compile(r"n|b|bs|rows|.*batch.*", re.IGNORECASE)


def max_batch(
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    bounds: Mapping[str, Sequence[int]],
) -> int | None:
    """Return the maximum batch of one run if the first axis of all inputs and outputs is a batch.

    An axis is a batch if its dimension is named like one, such as ``N`` or ``batch_size``, or if
    its extent is 1. Rows of other axes may depend on each other, so the result is None.
    """
    firsts = {each.shape[0] if each.shape else None for each in (*inputs, *outputs)}
    if len(firsts) != 1 or not inputs:
        return None
    (first,) = firsts
    if first == 1:
        return 1
    if isinstance(first, str) and first in bounds and _BATCH.fullmatch(first):
        minimum, maximum = bounds[first]
        return maximum if minimum <= 1 else None
    return None


def split_batch(
    given: Sequence[Any], inputs: Sequence[TensorInfo], maximum: int
) -> list[list[Any]] | None:
    """Return the inputs of each run; None if one run suffices or the shapes do not match."""
    rows = given[0].shape[0] if given[0].shape else 0
    if rows <= maximum:
        return None
    for value, info in zip(given, inputs):
        if len(value.shape) != len(info.shape) or value.shape[0] != rows:
            return None
    arrays = [np.asarray(value) for value in given]
    return [[each[i : i + maximum] for each in arrays] for i in range(0, rows, maximum)]


def concatenate(results: Sequence[Sequence[Any]]) -> list[Any]:
    """Concatenate the outputs of all runs."""
    return [np.concatenate(each) for each in zip(*results)]
