"""Kinds of tiles of the float kernels: element types, instructions and costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmrt.compiler.ir.rounding import ceil_div, round_up

AMX_PIXELS = 16  # rows of an AMX register


@dataclass(frozen=True)
class TileKind:
    """Tiles for one kind of operands.

    ``name`` is part of the names of their macros and functions. ``words_per_pair`` is the number of
    32-bit words per bfloat16 pair, 0 for float32. ``pairs`` is the descriptor that the driver
    needs, ``header`` the tiles' header if it is not the driver's.
    """

    name: str
    words_per_pair: int = 1
    pairs: str = ""
    header: str = ""
    max_vectors = 8  # of channels
    half_vectors = True  # whether vectors of half a register are allowed
    overread_pixels = 0  # pixels of scratch past a row they may read (TVMRT_OVERREAD_PIXELS)

    @property
    def driver(self) -> str:
        """Name part of the kernels that loop over the tiles, and of their headers."""
        return "bf16" if self.words_per_pair else "f32"

    def step_cycles(self, vectors: int, width: int, fma: float) -> tuple[float, float, float]:
        """Estimate cycles of a tile per element of the window: arithmetic, loads, instruction
        issue. ``fma`` is the cycles of a vector multiply-add."""
        load = vectors * fma + width * 0.5
        return vectors * width * fma, load, (vectors * width + vectors + width) / 5.0

    def registers(self, vectors: int, width: int) -> int:
        """Return the registers for accumulators, weights (two words per pair: both halves), and a
        pixel."""
        return vectors * width + vectors * max(self.words_per_pair, 1) + 1

    def widths(self, limit: int, longest_row: int) -> Sequence[int]:
        """Return the pixel widths of tiles, at most ``limit`` for registers and caches."""
        return range(1, min(limit, longest_row) + 1)


class _MmlaTiles(TileKind):
    """Tiles that multiply the pairs of two pixels with those of two channels per instruction."""

    def step_cycles(self, vectors: int, width: int, fma: float) -> tuple[float, float, float]:
        """Estimate half the multiplications per pair; an odd pixel counts as two, and weights are
        zipped."""
        _, load, issue = super().step_cycles(vectors, width, fma)
        multiply = (vectors * round_up(width, 2) / 2 + vectors) * fma
        return multiply, load - width * 0.25, issue

    def registers(self, vectors: int, width: int) -> int:
        """Return the registers in use: two vectors of weights, loaded and zipped; all pixels."""
        return vectors * width + 6 + ceil_div(width, 2)


class _AmxTiles(TileKind):
    """Tiles with AMX: the pairs of 16 pixels times those of 16 channels per instruction."""

    max_vectors = 2
    half_vectors = False
    overread_pixels = AMX_PIXELS - 1

    def step_cycles(self, vectors: int, width: int, fma: float) -> tuple[float, float, float]:
        """Estimate a cycle per register row for 16 pairs, half a cycle for its load."""
        return vectors * width / AMX_PIXELS, (vectors + width / AMX_PIXELS) * 0.5, 0.0

    def registers(self, vectors: int, width: int) -> int:
        return 0

    def widths(self, limit: int, longest_row: int) -> Sequence[int]:
        """Return widths of up to one or two registers that divide a row evenly; the widest tile of
        a row decides the register size."""
        full_registers = (AMX_PIXELS, 2 * AMX_PIXELS)
        even = {ceil_div(longest_row, ceil_div(longest_row, width)) for width in full_registers}
        return sorted(even | {width for width in full_registers if width < longest_row})


F32 = TileKind("f32", 0)
BF16 = TileKind("bf16")
# without an instruction that multiplies pairs
BF16_WIDE = TileKind("bf16_wide", 2, "&tvmrt_pairs_wide")
BF16_MMLA = _MmlaTiles("bf16_mmla")
BF16_AMX = _AmxTiles("bf16_amx", 1, "&tvmrt_pairs_amx", "tile/gemm_bf16_amx.h")
TILE_KINDS = {kind.name: kind for kind in (F32, BF16, BF16_WIDE, BF16_MMLA, BF16_AMX)}


def bf16_kind(machine: object) -> TileKind:
    """Return the kind of tiles for bfloat16 matmul."""
    return TILE_KINDS[getattr(machine, "bf16", "") or BF16_WIDE.name]
