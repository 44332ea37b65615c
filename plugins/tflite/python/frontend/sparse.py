"""Conversion of sparse constants to dense tensors."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.plugins.tflite.frontend.flatbuffer import File, Table

MAX_DENSE = 1 << 28  # elements


def densify(
    file: File, name: str, values: np.ndarray, shape: tuple[int, ...], sparsity: Table
) -> np.ndarray:
    """Return the dense tensor of sparse values.

    Levels are traversed in the file's order. Each is dense (all indices are present) or compressed
    (its indices are listed). Blocks are additional levels within the dimensions that they divide.
    Raises ValueError if a level exceeds the tensor.
    """
    order = _ints(sparsity, 0)
    blocks = _ints(sparsity, 1)
    levels = sparsity.tables(2)
    rank = len(shape)
    if len(levels) != len(order) or sorted(order) != list(range(rank + len(blocks))):
        raise file.damaged(f"the sparse tensor {name} has no traversal order")
    if prod(shape) > MAX_DENSE or any(not 0 <= b < rank for b in blocks):
        raise file.damaged(f"the sparse tensor {name} has no dense form")
    coordinates = np.zeros((1, rank + len(blocks)), np.int64)
    parents = 1
    for axis, level in zip(order, levels):
        coordinates, parents = _expand_level(file, name, level, axis, coordinates, parents)
    if len(coordinates) != len(values):
        raise file.damaged(
            f"the sparse tensor {name} has {len(values)} values, not {len(coordinates)}"
        )
    sizes = {axis: level.number(1, "i") for axis, level in zip(order, levels)}
    index = coordinates[:, :rank].copy()
    for k, dimension in enumerate(blocks):
        index[:, dimension] = index[:, dimension] * sizes[rank + k] + coordinates[:, rank + k]
    if len(index) and ((index < 0) | (index >= np.asarray(shape))).any():
        raise file.damaged(f"the sparse tensor {name} has a value outside shape {list(shape)}")
    dense = np.zeros(shape, values.dtype)
    dense[tuple(index.T)] = values
    return dense


def _ints(table: Table, field: int) -> list[int]:
    numbers = table.numbers(field, "i")
    return [] if numbers is None else [int(n) for n in numbers]


def _expand_level(
    file: File, name: str, level: Table, axis: int, coordinates: np.ndarray, parents: int
):
    """Return the element indices extended by one level, and their number."""
    if level.number(0, "b") == 0:
        size = level.number(1, "i")
        if size < 0 or parents * size > MAX_DENSE:
            raise file.damaged(f"the sparse tensor {name} has a level of {size}")
        found = np.repeat(coordinates, size, axis=0)
        found[:, axis] = np.tile(np.arange(size), parents)
        return found, parents * size
    segments, indices = _union(level, 2), _union(level, 4)
    counts = np.diff(segments)
    if len(segments) != parents + 1 or (counts < 0).any() or counts.sum() != len(indices):
        raise file.damaged(f"the sparse tensor {name} has segments that do not fit")
    found = np.repeat(coordinates, counts, axis=0)
    found[:, axis] = indices
    return found, len(indices)


def _union(level: Table, field: int) -> np.ndarray:
    """Return a vector of one of the format's three integer types, as int64."""
    kind = {1: "i", 2: "H", 3: "B"}.get(level.number(field, "B"))
    table = level.table(field + 1)
    values = None if kind is None or table is None else table.numbers(0, kind)
    return np.zeros(0, np.int64) if values is None else values.astype(np.int64)
