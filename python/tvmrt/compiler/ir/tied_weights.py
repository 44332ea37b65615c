"""Transposed constants: an embedding table that is also the weights of a matmul."""

from __future__ import annotations

import numpy as np

from .graph import Value
from .mmap_constants import drop_pages

_CHUNK = 1 << 20  # elements that are compared at a time, to limit memory


def is_transpose_of(table: Value, matrix: Value) -> bool:
    """Return whether the rows of one float32 constant are, bit for bit, the columns of another."""
    a, b = table.data, matrix.data
    if a is None or b is None or a.ndim != 2 or a.shape != b.shape[::-1] or not a.size:
        return False
    if a.dtype != np.float32 or b.dtype != np.float32:
        return False
    rows = max(1, _CHUNK // a.shape[1])
    for begin in range(0, len(a), rows):
        part, other = a[begin : begin + rows], b[:, begin : begin + rows].T
        if not np.array_equal(part.view(np.uint32), other.view(np.uint32)):
            return False
        drop_pages()
    return True
