"""Weight formats of the integer kernels (``kernels/tile/simd_i8.h``) and tile selection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmrt.compiler.ir.extent import SymInt, upper_bound
from tvmrt.compiler.ir.rounding import ceil_div, round_up

if TYPE_CHECKING:
    from ..c.writer import FunctionWriter
    from ..geometry import Window
    from ..target import Target


@dataclass(frozen=True)
class Format:
    """Memory order of the weights for one instruction set (the table in ``tile/simd_i8.h``).

    Parameters
    ----------
    name
        Name in targets.
    macro
        Value of ``TVMRT_I8_FORMAT`` for the C file.
    lanes
        Output channels in a vector.
    registers
        Vector registers that a tile may fill with accumulators, weights and inputs.
    wide
        Whether weights are int16, so that none needs a shift.
    signed
        The activations that the instruction multiplies: True int8, False uint8, None either.
    depthwise
        Maximum channels in a block of a depthwise layer.
    dot_cycles, least_cycles
        Cycles of one dot product of a quad with a vector, and of a chain of them.
    interleaves
        Whether the depthwise tile multiplies quads of four kernel rows (``depthwise_i8.h``).
    halves
        The two pairs of a quad whose weights are stored separately; None for whole quads.
    splits
        Whether quads are widened to two vectors when they are loaded.
    pairs
        Whether an instruction multiplies two pixels, and eight bytes of each.
    widens
        Whether each byte of a quad becomes a vector of weights and a scalar input.
    by_vectors
        For AMX, which multiplies 16 pixels with 16 channels, 64 bytes of each (``tile/gemm_i8_amx.h``):
        the format of layers that vectors compute as fast, and of the weight order; else empty.
    pixel_cycles
        Cycles per quad of a pixel in addition to the dot products, for broadcasting it and
        flipping its sign bits in the same unit.
    """

    name: str
    macro: str
    lanes: int
    registers: int
    wide: bool
    signed: bool | None
    depthwise: int
    dot_cycles: float
    least_cycles: float
    interleaves: bool = False
    halves: tuple[tuple[int, int], tuple[int, int]] | None = None
    splits: bool = False
    pairs: bool = False
    widens: bool = False
    by_vectors: str = ""
    pixel_cycles: float = 0.0

    @property
    def matrices(self) -> bool:
        """Whether tiles use AMX."""
        return bool(self.by_vectors)

    def floats(self, macs: SymInt, grouped: bool = False) -> SymInt:
        """Return the float multiply-adds that take as long as ``macs`` of int8; AMX is for dense
        layers only."""
        return macs // (16 if self.matrices and not grouped else 4)

    def offset(self, x_signed: bool) -> int:
        """Return the offset that the kernel adds to every activation before it multiplies."""
        if self.signed is None or self.signed == x_signed:
            return 0
        return -128 if self.signed else 128


_FORMATS = (
    Format(
        "plain", macro="TVMRT_I8_PLAIN", lanes=1, registers=8, wide=False, signed=None, depthwise=4,
        dot_cycles=4.0, least_cycles=1.0,
    ),
    Format(
        "vnni512", macro="TVMRT_I8_X86_VNNI", lanes=16, registers=32, wide=False, signed=False,
        depthwise=64, dot_cycles=1.0, least_cycles=4.0, interleaves=True, pixel_cycles=0.1,
    ),
    Format(
        "amx", macro="TVMRT_I8_X86_VNNI", lanes=16, registers=32, wide=False, signed=None,
        depthwise=64, dot_cycles=1.0, least_cycles=4.0, interleaves=True, by_vectors="vnni512",
    ),
    Format(
        "avxvnni", macro="TVMRT_I8_X86_AVX_VNNI", lanes=8, registers=16, wide=False, signed=False,
        depthwise=32, dot_cycles=1.0, least_cycles=4.0, interleaves=True,
    ),
    Format(
        "avx2", macro="TVMRT_I8_X86_AVX2", lanes=8, registers=16, wide=True, signed=False,
        depthwise=32, dot_cycles=2.0, least_cycles=4.0, interleaves=True, halves=((0, 2), (1, 3)),
    ),
    Format(
        "avx2_shared", macro="TVMRT_I8_X86_AVX2", lanes=8, registers=16, wide=False, signed=False,
        depthwise=32, dot_cycles=2.0, least_cycles=4.0, interleaves=True, splits=True,
    ),
    Format(
        "sse41", macro="TVMRT_I8_X86_SSE41", lanes=4, registers=16, wide=False, signed=False,
        depthwise=16, dot_cycles=2.0, least_cycles=4.0, splits=True,
    ),
    Format(
        "neon", macro="TVMRT_I8_NEON", lanes=4, registers=32, wide=False, signed=True, depthwise=16,
        dot_cycles=2.0, least_cycles=4.0, halves=((0, 1), (2, 3)),
    ),
    Format(
        "neon_shared", macro="TVMRT_I8_NEON", lanes=4, registers=32, wide=False, signed=True,
        depthwise=16, dot_cycles=2.0, least_cycles=4.0, splits=True,
    ),
    Format(
        "neon_dot", macro="TVMRT_I8_NEON_DOT", lanes=4, registers=32, wide=False, signed=True,
        depthwise=16, dot_cycles=0.5, least_cycles=3.0,
    ),
    Format(
        "neon_i8mm", macro="TVMRT_I8_NEON_I8MM", lanes=4, registers=32, wide=False, signed=True,
        depthwise=16, dot_cycles=0.25, least_cycles=3.0, pairs=True,
    ),
    Format(
        "neon32", macro="TVMRT_I8_NEON32", lanes=4, registers=16, wide=False, signed=True,
        depthwise=16, dot_cycles=2.0, least_cycles=4.0, splits=True,
    ),
    Format(
        "rvv", macro="TVMRT_I8_RVV", lanes=8, registers=16, wide=False, signed=None, depthwise=16,
        dot_cycles=4.0, least_cycles=8.0, widens=True,
    ),
)  # fmt: skip
FORMATS = {each.name: each for each in _FORMATS}


# Formats in which ISA levels read dense weights packed for the widest level, by their own formats.
_ARM = {"neon": "neon_shared", "neon_dot": "neon_dot"}
SHARED = {
    "vnni512": {"sse41": "sse41", "avx2": "avx2_shared", "avxvnni": "avxvnni"},
    "avxvnni": {"sse41": "sse41", "avx2": "avx2_shared"},
    "neon_dot": _ARM,
    "neon_i8mm": _ARM,
    "neon32": {"plain": "plain"},
    "rvv": {"plain": "plain"},
}


MATRIX_ROWS = 16  # of an AMX register


def choose_tile(
    fmt: Format, vectors: int, width: int, unit: int = 0, near: bool = False
) -> tuple[int, int]:
    """Return (ob, wt) with the fewest estimated cycles.

    Parameters
    ----------
    vectors
        Vectors of output channels in a group.
    width
        Pixels in a row.
    unit
        ``ob`` must divide this number of vectors, so that the last tile is whole; 0 for any.
    near
        Whether AMX tiles should fill cache lines of the output.
    """
    best, best_cost = (1, 1), float("inf")
    for cost, tile in _tiles(fmt, vectors, width, unit, near):
        if cost < best_cost - 1e-9:
            best, best_cost = tile, cost
    return best


def tile_options(
    fmt: Format, vectors: int, width: int, unit: int = 0, near: bool = False
) -> list[tuple[int, int]]:
    """Return all tiles that :func:`choose_tile` considers, its choice first, then by cycles."""
    best = choose_tile(fmt, vectors, width, unit, near)
    others = sorted(_tiles(fmt, vectors, width, unit, near), key=lambda each: each[0])
    return list(dict.fromkeys([best, *(tile for _, tile in others)]))


def _tiles(
    fmt: Format, vectors: int, width: int, unit: int, near: bool
) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield the tiles that fit, with their estimated cycles."""
    if fmt.lanes == 1:
        yield 0.0, (min(2, vectors), min(2, width))
        return
    if fmt.matrices:
        yield from _matrix_tiles(vectors, width, unit, near)
        return
    for ob in range(1, min(8 if width == 1 else 4, vectors) + 1):
        if unit % ob:
            continue
        for wt in range(1, min(16, width) + 1):
            # weights, inputs, a product
            others = 2 * ob + 3 if fmt.wide or fmt.splits else ob + 1
            if fmt.widens:
                others = 4 * ob
            if fmt.pairs and width > 1:
                others = wt // 2 + 4  # inputs; two quads, zipped
            if ob * wt + others > fmt.registers:
                break
            counted = round_up(vectors, ob) if unit else vectors
            yield _tile_cost(fmt, counted, width, ob, wt), (ob, wt)


def _matrix_tiles(
    vectors: int, width: int, unit: int, near: bool
) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield AMX tiles with their estimated cycles for 64 bytes of a window."""

    def tile(o: int, t: int) -> float:
        """Estimate a cycle per vector for a row of pixels, half a cycle for loading a row."""
        filled = 1.0 if near and o < 4 else 0.0
        return max(o * t, (o * MATRIX_ROWS + t) * 0.5) + 2.0 + filled if o and t else 0.0

    for ob in range(1, min(4, vectors) + 1):
        if unit % ob:
            continue
        most_pixels = min(MATRIX_ROWS * (2 if ob < 3 else 1), width)
        fewest = ceil_div(width, most_pixels)
        for wt in sorted({most_pixels, ceil_div(width, fewest)}):
            yield row_cycles(tile, (ob, wt), vectors, width), (ob, wt)


def words_at_once(run: int) -> int:
    """Return the quads of a run per AMX instruction: an equal part of the run, or the maximum."""
    quads = run // 4
    if quads <= MATRIX_ROWS:
        return quads
    parts = (words for words in range(MATRIX_ROWS, 7, -1) if quads % words == 0)
    return next(parts, MATRIX_ROWS)


def round_run(run: int) -> int:
    """Return the run of im2col windows: equal parts, with minimal zero padding."""
    quads = ceil_div(run, 4)
    parts = ceil_div(quads, MATRIX_ROWS)
    return 4 * parts * ceil_div(quads, parts)


def row_cycles(
    tile: Callable[[int, int], float], size: tuple[int, int], vectors: int, width: int
) -> float:
    """Return the cycles of all tiles of a row."""
    columns = (vectors // size[0], size[0]), (1, vectors % size[0])
    return sum(
        n * (width // size[1] * tile(o, size[1]) + tile(o, width % size[1])) for n, o in columns
    )


def _tile_cost(fmt: Format, vectors: int, width: int, ob: int, wt: int) -> float:
    """Estimate the cycles per quad of all tiles of one row."""

    def tile(o: int, t: int) -> float:
        if not o or not t:
            return 0.0
        loads = o * (3 if fmt.splits else 2 if fmt.wide else 1) + t
        if fmt.widens:
            loads = 8 * o + 4 * t
        if fmt.pairs and t > 1:  # zips and loads of weights, half the loads of inputs
            loads, t = o * 2 + ceil_div(t, 2), round_up(t, 2)
        slowest = max(o * t * fmt.dot_cycles, fmt.least_cycles, loads)
        return slowest + t * fmt.pixel_cycles + 0.5

    def column(o: int) -> float:
        return (width // wt) * tile(o, wt) + tile(o, width % wt)

    return (vectors // ob) * column(ob) + column(vectors % ob)


def depthwise_widths(
    fmt: Format, window: Window, taps: tuple[int, int], parts: int = 1
) -> list[int]:
    """Return the possible pixel counts of a depthwise tile, the fewest estimated operations first.
    ``taps``: rows and columns of the kernel; ``parts``: of each weight."""
    rows, columns = taps
    width, stride, dilation = upper_bound(window.out[2]), window.stride[2], window.dilation[2]
    if not fmt.interleaves:
        return [min(width, 1 if fmt.lanes == 1 else 2)]
    quads = ceil_div(rows, 4)
    dot = 4 * parts * (4 if fmt.wide else 1)
    split = 8 if fmt.wide else 0

    def cost(wt: int) -> float:
        if not wt:
            return 0.0
        hits = {t * stride + k * dilation for t in range(wt) for k in range(columns)}
        return len(hits) * quads * (11 + split) + wt * quads * columns * dot + 25 * wt + 6

    def row(wt: int) -> float:
        return (width // wt) * cost(wt) + cost(width % wt)

    widest = 2 if fmt.registers < 32 else 5
    if columns * quads * widest > 128:  # such kernels would fill the instruction cache
        widest = 1
    return sorted(range(1, min(widest, width) + 1), key=row)


def name_format(f: FunctionWriter, target: Target) -> None:
    """Define the format for which the file's weights are packed."""
    f.macro("TVMRT_I8_FORMAT", FORMATS[target.int8].macro)
    f.asks.discard("lanes")
    f.asks.add("int8")
