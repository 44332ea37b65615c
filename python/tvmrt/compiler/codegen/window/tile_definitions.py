"""Macro calls that define tile functions in generated C files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class TileDefinition:
    """A macro call that defines a tile function. ``part`` is ``tile``, ``remainder``, ``tail`` or
    ``gemv``; ``sizes`` are lanes, vectors and pixels (or of a segment), and for a tail the parts
    of sums."""

    part: str
    kind: str
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the defined function."""
        return f"tvmrt_{self.part}_{self.kind}_{'x'.join(map(str, self.sizes))}"

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.sizes))
        return f"TVMRT_DEFINE_{self.part.upper()}_{self.kind.upper()}({sizes})"


def merge_remainder_tiles(definitions: Collection[object]) -> list[str]:
    """Return the definitions; a rest of a tile's size is that tile: both sum in one order."""

    def merged(definition: object) -> str:
        if isinstance(definition, TileDefinition) and definition.part == "remainder":
            tile = replace(definition, part="tile")
            if tile in definitions:
                return f"#define {definition.name} {tile.name}"
        return str(definition)

    return list(map(merged, definitions))
