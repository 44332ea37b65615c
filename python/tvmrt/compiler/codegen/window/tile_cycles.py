"""Estimated cycles of the tiles of the float kernels."""

from __future__ import annotations

from .tile_kinds import F32, TileKind

L2_LINE_STALL = 0.4  # cycles that arithmetic waits for one L2 cache line
L2_STEP_STALL = 0.4  # and per step, independent of the number of lines
FMA_LATENCY = 4.0  # latency of a multiply-add in cycles


def chain_count(sums: int) -> int:
    """Return into how many parts a tile splits each sum: TVMRT_TILE_F32_CHAINS."""
    return 1 if sums >= 8 else 2 if sums >= 4 else 4 if sums >= 2 else 8


def tile_cycles(
    vectors: int,
    width: int,
    window: int,
    fma: float,
    kind: TileKind = F32,
    lines: float = 0.0,
    chains: int = 0,
) -> float:
    """Estimate the cycles of one tile: the maximum of arithmetic and loads, plus overhead.

    ``fma`` is the cycles of one vector multiply-add; a vector load takes as long. ``lines``: L2
    cache lines of weights per step; 0 if the weights are in L1. ``chains``: parts of each sum, if
    fewer than keep the multipliers busy.
    """
    multiply, load, issue = kind.step_cycles(vectors, width, fma)
    slow = max(multiply, load, issue, FMA_LATENCY / chains if chains else 0.0)
    slow += L2_LINE_STALL * lines + L2_STEP_STALL if lines else 0.0
    return window * (slow + 0.05 * (load + issue)) + 16 + 3 * vectors * width * fma


def row_cycles(
    rows: tuple[int, ...],
    vectors: int,
    width: int,
    window: int,
    fma: float,
    kind: TileKind = F32,
    lines: float = 0.0,
    same_order: bool = False,
    fixed_order: bool = False,
) -> float:
    """Estimate the cycles of rows of these lengths; see :func:`tile_cycles`. ``same_order``: tails
    sum in the order of whole tiles. ``fixed_order``: no tile divides a sum."""
    order = 1 if fixed_order else chain_count(vectors * width)
    in_order = (same_order or fixed_order) and kind is F32

    def cycles_of_tile(pixels: int) -> float:
        chains = order if in_order and chain_count(vectors * pixels) != order else 0
        return tile_cycles(vectors, pixels, window, fma, kind, lines, chains)

    cycles = 0.0
    for row in rows:
        cycles += row // width * cycles_of_tile(width)
        if row % width:
            cycles += cycles_of_tile(row % width)
    return cycles
