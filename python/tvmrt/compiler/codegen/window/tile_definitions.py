"""What a file of C has for tile functions: calls of the kernel headers' macros that define them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class TileDefinition:
    """The call of a kernel header's macro that defines a tile function: ``part`` is ``tile``,
    ``rest``, ``tail`` or ``far``, ``sizes`` are lanes, vectors and pixels, or parts of a run; of a
    tail parts of its sums follow."""

    part: str
    kind: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """The function that it defines."""
        return f"tvmrt_{self.part}_{self.kind}_{'x'.join(map(str, self.sizes))}"

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        return f"TVMRT_DEFINE_{self.part.upper()}_{self.kind.upper()}({sizes})"


def merge_rests(definitions: Collection[object]) -> list[str]:
    """The definitions of a file, where a rest of the size of a tile is that tile: both sum in the
    same order."""

    def merged(definition: object) -> str:
        if isinstance(definition, TileDefinition) and definition.part == "rest":
            tile = replace(definition, part="tile")
            if tile in definitions:
                return f"#define {definition.name} {tile.name}"
        return str(definition)

    return list(map(merged, definitions))
