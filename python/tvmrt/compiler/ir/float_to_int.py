"""Conversion of floating-point numbers to integers, defined for every input."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_integers(x: Any, to: Any) -> np.ndarray:
    """Truncate floating-point numbers to integers of type ``to``: saturated, NaN becomes 0.

    numpy leaves out-of-range casts to the processor, so results differ between x86 and Arm.
    All other casts are numpy's.
    """
    x, to = np.asarray(x), np.dtype(to)
    if x.dtype.kind != "f" or to.kind not in "iu":
        return x.astype(to)
    limits = np.iinfo(to)
    below, above = x <= x.dtype.type(limits.min), x >= x.dtype.type(limits.max)
    inside = np.where(below | above | np.isnan(x), 0, x).astype(to)
    return np.where(below, limits.min, np.where(above, limits.max, inside)).astype(to)
