"""C text of the structs that kernels take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tvmrt.ir import DTYPES
from tvmrt.ir.extent import Whole, as_extent

from .text import members
from .writer import FunctionWriter, literal


def triple(values: Sequence[Whole], missing: int) -> tuple[Whole, Whole, Whole]:
    """Depth, height, width of 1 to 3 spatial numbers."""
    return (*[missing] * (3 - len(values)), *map(as_extent, values))


def number(value: float) -> str:
    """A float literal."""
    return literal(np.float32(value), DTYPES["float32"])


def print_struct(
    f: FunctionWriter, head: str, fields: Mapping[str, object] | Iterable[str]
) -> None:
    """A variable with its initialiser, a member a line; ``head`` ends with its name."""
    f.line(f"{head} = {{")
    for member in members(fields) if isinstance(fields, Mapping) else fields:
        f.line(f"    {member},")
    f.line("};")


def print_tiles(f: FunctionWriter, tiles) -> None:
    """The register tiles of a kernel in float32, and the functions that they name."""
    f.line(f"static const {tiles.c_type} tiles = {tiles.initializer()};")
    for line in tiles.definitions():
        f.define(line)


def range_initializer(attrs: dict) -> str:
    """A ``tvmrt_i8_range`` of a node with a quantised result."""
    return (
        f"{{.zero = {attrs['y_zero']}, .lo = {attrs['low']}, .hi = {attrs['high']}, "
        f".is_signed = {int(attrs['to'] == 'int8')}}}"
    )
