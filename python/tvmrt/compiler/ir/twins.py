"""Constants that are others transposed: a table of rows that is the weights of a product, too."""

from __future__ import annotations

import numpy as np

from .graph import Value
from .stowed import drop_pages

_CHUNK = 1 << 20  # elements that are compared at a time, for their memory


def are_transposed(table: Value, matrix: Value) -> bool:
    """Whether the rows of one constant, bit for bit, are the columns of the other; both float32."""
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
