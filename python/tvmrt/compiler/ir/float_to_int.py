"""Floats as integers, defined for every float."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_integers(x: Any, to: Any) -> np.ndarray:
    """Floats cut to integers of the type ``to``: saturated, and 0 for what is not a number.

    numpy leaves such casts to the processor, which gives different numbers on x86 and Arm.
    All other casts are numpy's.
    """
    x, to = np.asarray(x), np.dtype(to)
    if x.dtype.kind != "f" or to.kind not in "iu":
        return x.astype(to)
    limits = np.iinfo(to)
    below, above = x <= x.dtype.type(limits.min), x >= x.dtype.type(limits.max)
    inside = np.where(below | above | np.isnan(x), 0, x).astype(to)
    return np.where(below, limits.min, np.where(above, limits.max, inside)).astype(to)
