"""Conversion of values to NumPy arrays without masks."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def dense_array(value: Any) -> np.ndarray[Any, Any]:
    """Return a value as ``numpy.asarray`` does. Raise ValueError if an element is masked."""
    refuse_masks(value)
    return np.asarray(value)


def refuse_masks(value: Any) -> None:
    """Raise ValueError if an element is masked, which ``numpy.asarray`` and DLPack ignore."""
    masked = sys.modules.get("numpy.ma")  # not loaded: there are no masked arrays
    if masked is not None and _has_masked(value, masked):
        raise ValueError(
            "an array of numpy.ma has masked elements, which tensors cannot have; replace them, "
            "for example with numpy.ma.filled(x, 0)"
        )


def _has_masked(value: Any, masked: Any) -> bool:
    if isinstance(value, masked.MaskedArray):
        return masked.is_masked(value)
    return isinstance(value, (list, tuple)) and any(_has_masked(each, masked) for each in value)
