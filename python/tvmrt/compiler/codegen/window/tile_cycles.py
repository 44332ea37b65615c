"""Estimated cycles of the register tiles of the float kernels."""

from __future__ import annotations

from .tile_kinds import FLOATS, TileKind

FAR_LINE = 0.4  # cycles for which arithmetic waits for a line of the next one
FAR_STEP = 0.4  # and for the rest of a step, however many lines
LATENCY = 4.0  # cycles until a sum has its product, and the next one can be added


def chains_of(sums: int) -> int:
    """In how many parts each sum of a tile with so many is added up: TVMRT_TILE_F32_CHAINS."""
    return 1 if sums >= 8 else 2 if sums >= 4 else 4 if sums >= 2 else 8


def tile_cycles(
    vectors: int,
    width: int,
    window: int,
    fma: float,
    kind: TileKind = FLOATS,
    lines: float = 0.0,
    chains: int = 0,
) -> float:
    """Estimated cycles of one tile: the busier of arithmetic and loads, and what surrounds it.

    ``fma`` is the cycles of one multiply-add of vectors; a load of a vector takes as long.
    ``lines``: of the cache, that weights of one step take where they come from its second level.
    ``chains``: parts of each sum, where they are fewer than keep the multipliers busy.
    """
    multiply, load, issue = kind.step_cycles(vectors, width, fma)
    slow = max(multiply, load, issue, LATENCY / chains if chains else 0.0)
    slow += FAR_LINE * lines + FAR_STEP if lines else 0.0
    return window * (slow + 0.05 * (load + issue)) + 16 + 3 * vectors * width * fma


def row_cycles(
    rows: tuple[int, ...],
    vectors: int,
    width: int,
    window: int,
    fma: float,
    kind: TileKind = FLOATS,
    lines: float = 0.0,
    in_order: bool = False,
) -> float:
    """Estimated cycles of a row of each of these lengths; see :func:`tile_cycles`. ``in_order``:
    what is left of a row is added up in the order of whole tiles."""
    cycles, order = 0.0, chains_of(vectors * width)
    for row in rows:
        cycles += row // width * tile_cycles(vectors, width, window, fma, kind, lines)
        rest = row % width
        if rest:
            other = in_order and kind is FLOATS and chains_of(vectors * rest) != order
            chains = order if other else 0
            cycles += tile_cycles(vectors, rest, window, fma, kind, lines, chains)
    return cycles
