"""Name, type and shape of a network's input or output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorInfo:
    """Name, numpy dtype name and dimensions of a tensor; a dimension is a number or its symbol."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
