"""Inputs and outputs of a network that are no tensors, and the tensors that stand for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Bundle:
    """A sequence, an optional value or a map as the tensors of a library.

    Parameters
    ----------
    parts
        Names of the tensors, one for each element in order; of a value that is no sequence, one.
    is_sequence
        Whether the value is a list, of as many elements as there are parts.
    stacked
        Whether the elements lie along the first axis of the one part.
    count
        Name of the output that tells how many of the parts are elements; empty where all are.
    there
        Name of the output that tells whether the value is there; empty where it is known.
    absent
        Whether the value is known not to be there.
    keys
        Those of a map whose values are the one part, a row.
    row_type
        The row's element type by numpy's name; ``object`` of strings.
    lacking
        The value of a key that a map lacks.
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

    def spread(self, name: str, value: Any) -> dict[str, Any]:
        """The tensors of an input by name. Raises ValueError where it has other elements."""
        if self.absent:
            if value is not None:
                raise ValueError(f"input {name} is given, but the network was compiled without it")
            return {}
        if self.row_type:
            return {name: self._row(value) if isinstance(value, Mapping) else value}
        if not isinstance(value, (list, tuple)) or len(value) != len(self.parts):
            found = f"{len(value)}" if isinstance(value, (list, tuple)) else type(value).__name__
            raise ValueError(
                f"input {name} is a list of {len(self.parts)} arrays, not {found}; to use "
                "another length, compile the network for it"
            )
        return dict(zip(self.parts, value))

    def _row(self, value: Mapping[Any, Any]) -> np.ndarray:
        return np.array([[value.get(key, self.lacking) for key in self.keys]], self.row_type)

    def gather(self, tensor: Callable[[str], np.ndarray]) -> Any:
        """The value of an output, by its tensors: a list, an array, or None."""
        if self.absent or (self.there and not tensor(self.there)):
            return None
        if self.stacked:
            return list(tensor(self.parts[0]))
        if not self.is_sequence:
            return tensor(self.parts[0])
        count = int(tensor(self.count)) if self.count else len(self.parts)
        return [tensor(part) for part in self.parts[:count]]


def part_name(name: str, place: int) -> str:
    """How the tensor of an element is called: ``x[0]``."""
    return f"{name}[{place}]"


def read_by_name(names: Sequence[str], output: Callable[[int], Any]) -> Callable[[str], np.ndarray]:
    """A reader of outputs by name; ``output(i)`` gives the i-th as an array."""
    places = {name: i for i, name in enumerate(names)}
    return lambda name: output(places[name])
