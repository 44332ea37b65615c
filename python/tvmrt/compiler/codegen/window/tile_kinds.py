"""Kinds of register tiles of the float kernels: what each multiplies, and what that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmrt.compiler.ir.rounding import ceil_div, round_up

AMX_PIXELS = 16  # of a register of AMX


@dataclass(frozen=True)
class TileKind:
    """Tiles that multiply numbers of one kind.

    ``name`` is in the names of their macros and functions. ``words`` is how many of 32 bits a pair
    of rounded numbers takes, 0 where numbers are not rounded. ``pairs`` is what they ask of their
    driver, ``header`` the one that has them, where that is not the driver's.
    """

    name: str
    words: int = 1
    pairs: str = ""
    header: str = ""
    most_vectors = 8  # of channels
    half_vectors = True  # whether they may be of half a register
    behind = 0  # pixels behind a row that they may read, of scratch (TVMRT_PIXELS_BEHIND)

    @property
    def driver(self) -> str:
        """The word by which the kernels are called whose loops run them, and their headers."""
        return "bf16" if self.words else "f32"

    def step_cycles(self, vectors: int, width: int, fma: float) -> tuple[float, float, float]:
        """Estimated cycles of what a tile does for one element of the window: arithmetic, loads,
        and the beginning of all instructions. ``fma`` is those of a multiply-add of vectors."""
        load = vectors * fma + width * 0.5
        return vectors * width * fma, load, (vectors * width + vectors + width) / 5.0

    def registers(self, vectors: int, width: int) -> int:
        """Those of sums, of weights, of which pairs of two words have both halves, and of a
        pixel."""
        return vectors * width + vectors * max(self.words, 1) + 1

    def widths(self, most: int, longest_row: int) -> Sequence[int]:
        """Pixels of tiles, of which registers and caches want no more than ``most``."""
        return range(1, min(most, longest_row) + 1)


class _RowPairs(TileKind):
    """An instruction multiplies two pixels' pairs with those of two channels."""

    def step_cycles(self, vectors: int, width: int, fma: float) -> tuple[float, float, float]:
        """Half the products for each pair, an odd pixel as two, and weights are zipped."""
        _, load, issue = super().step_cycles(vectors, width, fma)
        multiply = (vectors * round_up(width, 2) / 2 + vectors) * fma
        return multiply, load - width * 0.25, issue

    def registers(self, vectors: int, width: int) -> int:
        """Weights are two vectors, as they are and zipped; all pixels are there."""
        return vectors * width + 6 + ceil_div(width, 2)


class _Matrices(TileKind):
    """An instruction multiplies 16 pixels' pairs with those of 16 channels, in registers of its
    own."""

    most_vectors = 2
    half_vectors = False
    behind = AMX_PIXELS - 1

    def step_cycles(self, vectors: int, width: int, fma: float) -> tuple[float, float, float]:
        """A row of a register takes a cycle for 16 pairs, in a load half of one."""
        return vectors * width / AMX_PIXELS, (vectors + width / AMX_PIXELS) * 0.5, 0.0

    def registers(self, vectors: int, width: int) -> int:
        return 0

    def widths(self, most: int, longest_row: int) -> Sequence[int]:
        """Those of up to one or two registers that share a row evenly: registers are as large for
        all tiles of a row as the widest asks for."""
        whole = (AMX_PIXELS, 2 * AMX_PIXELS)
        even = {ceil_div(longest_row, ceil_div(longest_row, width)) for width in whole}
        return sorted(even | {width for width in whole if width < longest_row})


FLOATS = TileKind("f32", 0)
PAIRS = TileKind("bf16")
WIDE = TileKind("bf16_wide", 2, "&tvmrt_pairs_wide")  # no instruction multiplies them
ROWS = _RowPairs("bf16_mmla")
AMX = _Matrices("bf16_amx", 1, "&tvmrt_pairs_amx", "tile/amx_bf16.h")
KINDS = {kind.name: kind for kind in (FLOATS, PAIRS, WIDE, ROWS, AMX)}


def bf16_kind(machine: object) -> TileKind:
    """The kind of tiles for products in bfloat16."""
    return KINDS[getattr(machine, "bf16", "") or WIDE.name]
