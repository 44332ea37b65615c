"""Element types by the format's numbers."""

from __future__ import annotations

from tvmrt.error import UnsupportedError
from tvmrt.ir import DTYPES

from .model_file import TYPES


def element_type(code: int) -> str:
    """The IR's name of a type. Raises UnsupportedError for one that it has not."""
    name = TYPES[code][0] if 0 <= code < len(TYPES) else f"number {code}"
    if name not in DTYPES:
        raise UnsupportedError(f"elements of type {name}")
    return name
