"""Name, type and shape of a network's input or output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorInfo:
    """Name, NumPy dtype and shape of a tensor; a dynamic dimension is given by its name."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
