"""Tuning results: kernel variants chosen for layers by measurement or by a model.

The compiler queries :class:`Tuned` wherever it has a choice; a plug-in
finds the choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from .graph import Node
from .reduced_precision import BFLOAT16
from .tuned_layer import BYTES, Layer, layer_of

MIN_MACS = 10_000  # multiply-adds: less takes some 0.2 us, too little to measure


@dataclass(frozen=True)
class Choice:
    """Kernel variant of a layer; 0 and None leave the decision to the compiler's estimate.

    Parameters
    ----------
    tile
        Lanes, vectors of output channels and pixels of a register tile.
    at_once
        Blocks of channels whose weights stay in cache during a pass over the pixels.
    pixels
        For int8 layers: pixels that are completed for all channels before the next ones.
    threads
        Maximum number of threads of a run for the layer: 1 for the calling thread only, 0 for all
        threads.
    square
        Output extent of a Winograd tile, 2 or 4, if a convolution may be computed by Winograd; 1 if
        direct convolution is faster.
    """

    tile: tuple[int, int, int] | None = None
    at_once: int = 0
    pixels: int = 0
    threads: int | None = None
    square: int = 0

    def members(self) -> dict[str, Any]:
        """Return the fields that are set, in the form of JSON."""
        defaults = Choice()
        chosen = {n: v for n, v in asdict(self).items() if v != getattr(defaults, n)}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in chosen.items()}

    def __str__(self) -> str:
        words = []
        if self.square > 1:
            words.append(f"Winograd {self.square}")
        elif self.tile:
            words.append(f"tiles of {self.tile[0]} x {self.tile[1]} channels x {self.tile[2]}")
        if self.at_once:
            words.append(f"{self.at_once} blocks at once")
        if self.pixels:
            words.append(f"{self.pixels} pixels at once")
        if self.threads is not None:
            many = f"{self.threads} threads" if self.threads else "all threads"
            words.append("one thread" if self.threads == 1 else many)
        return ", ".join(words) or "as estimated"


@dataclass(frozen=True)
class UsedChoice:
    """Choice used in a network: layer signature, ISA level, choice, and whether it was ``measured``
    or comes from the ``model``."""

    layer: str
    level: str
    choice: Choice
    source: str


class Guide(Protocol):
    """Cost model: source of choices for an ISA level."""

    def choice(
        self, layer: Layer, level: str, options: Callable[[], Sequence[Choice]]
    ) -> tuple[Choice, str] | None:
        """Return a choice and its source, ``measured`` or ``model``; None to keep the estimate.
        ``options``: the available choices, starting with the estimate."""

    def square(self, layer: Layer, level: str) -> tuple[Choice, str] | None:
        """Return a choice with ``square`` for a convolution that may be computed by Winograd."""


class Tuned:
    """Choices for the layers of one network and ISA level, with a record of those used.

    ``level`` is the part of the target that choices depend on (``codegen.target.vector_key``).
    """

    def __init__(self, level: str, guide: Guide) -> None:
        self.level = level
        self._guide = guide
        self._used: dict[tuple[str, bool], UsedChoice | None] = {}

    def choice(self, node: Node, options: Callable[[], Sequence[Choice]]) -> Choice:
        """Return the choice for a node; an empty one if there is none."""
        layer = layer_of(node)
        if layer is None:
            return Choice()
        level = level_for(layer, self.level)
        return self._lookup(layer, False, lambda: self._guide.choice(layer, level, options))

    def square(self, node: Node) -> int:
        """Return the Winograd tile extent chosen for a convolution: 1 if direct convolution is
        faster, 0 without a choice."""
        layer = layer_of(node)
        if layer is None:
            return 0
        level = level_for(layer, self.level)
        return self._lookup(layer, True, lambda: self._guide.square(layer, level)).square

    def _lookup(
        self, layer: Layer, winograd: bool, query: Callable[[], tuple[Choice, str] | None]
    ) -> Choice:
        key = (layer.text, winograd)
        if key not in self._used:
            answer = query()
            level = level_for(layer, self.level)
            self._used[key] = answer and UsedChoice(layer.text, level, *answer)
        used = self._used[key]
        return Choice() if used is None else used.choice

    @property
    def used(self) -> list[UsedChoice]:
        """Choices that were requested and found, sorted by layer."""
        return [each for _, each in sorted(self._used.items()) if each is not None]


def level_for(layer: Layer, level: str) -> str:
    """Return the part of a level that the choice for a layer depends on: int8 dot product
    instructions, or vectors for floating point."""
    vectors, *more = level.split()
    if layer.element in BYTES:
        return more[-1]
    kinds = [word for word in more if word.startswith("bf16")] if layer.element == BFLOAT16 else []
    return " ".join([vectors, *kinds])
