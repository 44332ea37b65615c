"""C text of the structs that kernels take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tvmrt.ir import DTYPES

from ..writer import FunctionWriter, literal


def triple(values: Sequence[int], missing: int) -> tuple[int, int, int]:
    """Depth, height, width of 1 to 3 spatial numbers."""
    return (*[missing] * (3 - len(values)), *(int(v) for v in values))


def braces(values: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, values)) + "}"


def number(value: float) -> str:
    """A float literal."""
    return literal(np.float32(value), DTYPES["float32"])


def print_struct(
    f: FunctionWriter, head: str, members: Mapping[str, object] | Iterable[str]
) -> None:
    """A variable with its initialiser, a member a line; ``head`` ends with its name."""
    if isinstance(members, Mapping):
        members = [f".{name} = {value}" for name, value in members.items()]
    f.line(f"{head} = {{")
    for member in members:
        f.line(f"    {member},")
    f.line("};")


def print_tiles(f: FunctionWriter, tiles, kind: str = "tvmrt_tiles_f32") -> None:
    """The register tiles of a kernel in float32, and the functions that they name."""
    f.line(f"static const {kind} tiles = {tiles.initializer()};")
    for line in tiles.definitions():
        f.define(line)
