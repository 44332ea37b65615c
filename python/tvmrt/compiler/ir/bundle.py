"""Inputs and outputs of a network that are not tensors, and the tensors that represent them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bundle:
    """Sequence, optional value or map, represented by tensors of a library.

    Parameters
    ----------
    parts
        Names of the tensors, one for each element in order; one name if it is not a sequence.
    is_sequence
        Whether the value is a list, of as many elements as there are parts.
    stacked
        Whether the elements are stacked along the first axis of a single part.
    count
        Name of the output with the number of valid parts; empty if all are valid.
    there
        Name of the output with the flag whether the value is present; empty if this is known.
    absent
        Whether the value is known to be absent.
    keys
        Keys of a map whose values are one row, the single part.
    row_type
        numpy name of the row's element type; ``object`` for strings.
    lacking
        Value for missing keys of a map.
    """

    parts: tuple[str, ...] = ()
    is_sequence: bool = True
    stacked: bool = False
    count: str = ""
    there: str = ""
    absent: bool = False
    keys: tuple[int | str, ...] = ()
    row_type: str = ""
    lacking: int | str = 0

    def flatten(self, name: str, value: Any) -> dict[str, Any]:
        """Return the tensors of an input by name. Raise ValueError if the value does not fit."""
        if self.absent:
            if value is not None:
                raise ValueError(f"input {name} is given, but the network was compiled without it")
            return {}
        if self.row_type:
            return {name: self._row(value) if isinstance(value, Mapping) else value}
        if not isinstance(value, (list, tuple)) or len(value) != len(self.parts):
            actual = f"{len(value)}" if isinstance(value, (list, tuple)) else type(value).__name__
            raise ValueError(
                f"input {name} is a list of {len(self.parts)} arrays, not {actual}; to use "
                "another length, compile the network for it"
            )
        return dict(zip(self.parts, value))

    def _row(self, value: Mapping[Any, Any]) -> np.ndarray:
        return np.array([[value.get(key, self.lacking) for key in self.keys]], self.row_type)

    def gather(self, tensor: Callable[[str], np.ndarray]) -> Any:
        """Return the value of an output from its tensors: a list, an array, or None."""
        if self.absent or (self.there and not tensor(self.there)):
            return None
        if self.stacked:
            return list(tensor(self.parts[0]))
        if not self.is_sequence:
            return tensor(self.parts[0])
        count = int(tensor(self.count)) if self.count else len(self.parts)
        return [tensor(part) for part in self.parts[:count]]


def part_name(name: str, index: int) -> str:
    """Return the name of the tensor of an element: ``x[0]``."""
    return f"{name}[{index}]"
