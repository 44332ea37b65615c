"""Weight formats of the integer kernels (``kernels/tile/simd_i8.h``) and tile selection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import SymInt, upper_bound

if TYPE_CHECKING:
    from ..c.writer import FunctionWriter
    from ..geometry import Window
    from ..target import Target


@dataclass(frozen=True)
class WeightFormat:
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
    dot_cycles, min_cycles
        Cycles of one dot product of a quad with a vector, and of a chain of them.
    interleaves
        Whether the depthwise tile multiplies quads of four kernel rows (``depthwise_i8.h``).
    split_pairs
        The two pairs of a quad whose weights are stored separately; None for whole quads.
    splits
        Whether quads are widened to two vectors when they are loaded.
    pairs
        Whether an instruction multiplies two pixels, and eight bytes of each.
    widens
        Whether each byte of a quad becomes a vector of weights and a scalar input.
    vector_format
        For AMX, which multiplies 16 pixels with 16 channels, 64 bytes of each
        (``tile/gemm_i8_amx.h``): the format of layers that vectors compute as fast, and of the
        weight order; else empty.
    pixel_cycles
        Cycles per quad of a pixel in addition to the dot products, for broadcasting it and
        flipping its sign bits in the same unit.
    shifts_lanes
        Whether an instruction shifts each lane by its own number.
    """

    name: str
    macro: str
    lanes: int
    registers: int
    wide: bool
    signed: bool | None
    depthwise: int
    dot_cycles: float
    min_cycles: float
    interleaves: bool = False
    split_pairs: tuple[tuple[int, int], tuple[int, int]] | None = None
    splits: bool = False
    pairs: bool = False
    widens: bool = False
    vector_format: str = ""
    pixel_cycles: float = 0.0
    shifts_lanes: bool = True

    @property
    def fuses(self) -> bool:
        """Whether float requantisation fuses a multiplication and an addition, and fixed-point
        requantisation has 64-bit addends (``tile/simd_i8.h``)."""
        return self.interleaves

    @property
    def rounds_down(self) -> bool:
        """Whether float instructions can round down whatever the mode of the processor is."""
        return self.macro == "TVMRT_I8_X86_VNNI"

    @property
    def uses_amx(self) -> bool:
        """Whether tiles use AMX."""
        return bool(self.vector_format)

    def float_macs(self, macs: SymInt, grouped: bool = False) -> SymInt:
        """Return the float multiply-adds that take as long as ``macs`` of int8; AMX is for dense
        layers only."""
        return macs // (16 if self.uses_amx and not grouped else 4)

    def offset(self, x_signed: bool) -> int:
        """Return the offset that the kernel adds to every activation before it multiplies."""
        if self.signed is None or self.signed == x_signed:
            return 0
        return -128 if self.signed else 128


_FORMATS = (
    WeightFormat(
        "plain", macro="TVMRT_I8_PLAIN", lanes=1, registers=8, wide=False, signed=None, depthwise=4,
        dot_cycles=4.0, min_cycles=1.0,
    ),
    WeightFormat(
        "vnni512", macro="TVMRT_I8_X86_VNNI", lanes=16, registers=32, wide=False, signed=False,
        depthwise=64, dot_cycles=1.0, min_cycles=4.0, interleaves=True, pixel_cycles=0.1,
    ),
    WeightFormat(
        "amx", macro="TVMRT_I8_X86_VNNI", lanes=16, registers=32, wide=False, signed=None,
        depthwise=64, dot_cycles=1.0, min_cycles=4.0, interleaves=True, vector_format="vnni512",
    ),
    WeightFormat(
        "avxvnni", macro="TVMRT_I8_X86_AVX_VNNI", lanes=8, registers=16, wide=False, signed=False,
        depthwise=32, dot_cycles=1.0, min_cycles=4.0, interleaves=True,
    ),
    WeightFormat(
        "avx2", macro="TVMRT_I8_X86_AVX2", lanes=8, registers=16, wide=True, signed=False,
        depthwise=32, dot_cycles=2.0, min_cycles=4.0, interleaves=True,
        split_pairs=((0, 2), (1, 3)),
    ),
    WeightFormat(
        "avx2_shared", macro="TVMRT_I8_X86_AVX2", lanes=8, registers=16, wide=False, signed=False,
        depthwise=32, dot_cycles=2.0, min_cycles=4.0, interleaves=True, splits=True,
    ),
    WeightFormat(
        "sse41", macro="TVMRT_I8_X86_SSE41", lanes=4, registers=16, wide=False, signed=False,
        depthwise=16, dot_cycles=2.0, min_cycles=4.0, splits=True, shifts_lanes=False,
    ),
    WeightFormat(
        "neon", macro="TVMRT_I8_NEON", lanes=4, registers=32, wide=False, signed=True, depthwise=16,
        dot_cycles=2.0, min_cycles=4.0, split_pairs=((0, 1), (2, 3)),
    ),
    WeightFormat(
        "neon_shared", macro="TVMRT_I8_NEON", lanes=4, registers=32, wide=False, signed=True,
        depthwise=16, dot_cycles=2.0, min_cycles=4.0, splits=True,
    ),
    WeightFormat(
        "neon_dot", macro="TVMRT_I8_NEON_DOT", lanes=4, registers=32, wide=False, signed=True,
        depthwise=16, dot_cycles=0.5, min_cycles=3.0,
    ),
    WeightFormat(
        "neon_i8mm", macro="TVMRT_I8_NEON_I8MM", lanes=4, registers=32, wide=False, signed=True,
        depthwise=16, dot_cycles=0.25, min_cycles=3.0, pairs=True,
    ),
    WeightFormat(
        "neon32", macro="TVMRT_I8_NEON32", lanes=4, registers=16, wide=False, signed=True,
        depthwise=16, dot_cycles=2.0, min_cycles=4.0, splits=True,
    ),
    WeightFormat(
        "rvv", macro="TVMRT_I8_RVV", lanes=8, registers=16, wide=False, signed=None, depthwise=16,
        dot_cycles=4.0, min_cycles=8.0, widens=True,
    ),
    WeightFormat(
        "simd128", macro="TVMRT_I8_WASM", lanes=4, registers=16, wide=False, signed=False,
        depthwise=16, dot_cycles=2.0, min_cycles=4.0, splits=True, pixel_cycles=1.0,
        shifts_lanes=False,
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


AMX_ROWS = 16  # of an AMX register


def choose_tile(
    fmt: WeightFormat, vectors: int, width: int, unit: int = 0, l1_resident: bool = False
) -> tuple[int, int]:
    """Return (nr, mr) with the fewest estimated cycles.

    Parameters
    ----------
    vectors
        Vectors of output channels in a group.
    width
        Pixels in a row.
    unit
        ``nr`` must divide this number of vectors, so that the last tile is whole; 0 for any.
    l1_resident
        Whether AMX tiles should fill cache lines of the output.
    """
    best, best_cost = (1, 1), float("inf")
    for cost, tile in _tiles(fmt, vectors, width, unit, l1_resident):
        if cost < best_cost - 1e-9:
            best, best_cost = tile, cost
    return best


def tile_options(
    fmt: WeightFormat, vectors: int, width: int, unit: int = 0, l1_resident: bool = False
) -> list[tuple[int, int]]:
    """Return all tiles that :func:`choose_tile` considers, its choice first, then by cycles."""
    best = choose_tile(fmt, vectors, width, unit, l1_resident)
    others = sorted(_tiles(fmt, vectors, width, unit, l1_resident), key=lambda each: each[0])
    return list(dict.fromkeys([best, *(tile for _, tile in others)]))


def _tiles(
    fmt: WeightFormat, vectors: int, width: int, unit: int, l1_resident: bool
) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield the tiles that fit, with their estimated cycles."""
    if fmt.lanes == 1:
        yield 0.0, (min(2, vectors), min(2, width))
        return
    if fmt.uses_amx:
        yield from _amx_tiles(vectors, width, unit, l1_resident)
        return
    for nr in range(1, min(8 if width == 1 else 4, vectors) + 1):
        if unit % nr:
            continue
        for mr in range(1, min(16, width) + 1):
            # weights, inputs, a product
            others = 2 * nr + 3 if fmt.wide or fmt.splits else nr + 1
            if fmt.widens:
                others = 4 * nr
            if fmt.pairs and width > 1:
                others = mr // 2 + 4  # inputs; two quads, zipped
            if nr * mr + others > fmt.registers:
                break
            counted = round_up(vectors, nr) if unit else vectors
            yield _tile_cost(fmt, counted, width, nr, mr), (nr, mr)


def _amx_tiles(
    vectors: int, width: int, unit: int, l1_resident: bool
) -> Iterator[tuple[float, tuple[int, int]]]:
    """Yield AMX tiles with their estimated cycles for 64 bytes of a window."""

    def tile(o: int, t: int) -> float:
        """Estimate a cycle per vector for a row of pixels, half a cycle for loading a row."""
        filled = 1.0 if l1_resident and o < 4 else 0.0
        return max(o * t, (o * AMX_ROWS + t) * 0.5) + 2.0 + filled if o and t else 0.0

    for nr in range(1, min(4, vectors) + 1):
        if unit % nr:
            continue
        max_pixels = min(AMX_ROWS * (2 if nr < 3 else 1), width)
        min_tiles = ceil_div(width, max_pixels)
        for mr in sorted({max_pixels, ceil_div(width, min_tiles)}):
            yield row_cycles(tile, (nr, mr), vectors, width), (nr, mr)


def quads_per_instruction(segment: int) -> int:
    """Return the quads of a run per AMX instruction: an equal part of the run, or the maximum."""
    quads = segment // 4
    if quads <= AMX_ROWS:
        return quads
    parts = (words for words in range(AMX_ROWS, 7, -1) if quads % words == 0)
    return next(parts, AMX_ROWS)


def pad_im2col_segment(segment: int) -> int:
    """Return the run of im2col windows: equal parts, with minimal zero padding."""
    quads = ceil_div(segment, 4)
    parts = ceil_div(quads, AMX_ROWS)
    return 4 * parts * ceil_div(quads, parts)


def row_cycles(
    tile: Callable[[int, int], float], size: tuple[int, int], vectors: int, width: int
) -> float:
    """Return the cycles of all tiles of a row."""
    columns = (vectors // size[0], size[0]), (1, vectors % size[0])
    return sum(
        n * (width // size[1] * tile(o, size[1]) + tile(o, width % size[1])) for n, o in columns
    )


def _tile_cost(fmt: WeightFormat, vectors: int, width: int, nr: int, mr: int) -> float:
    """Estimate the cycles per quad of all tiles of one row."""

    def tile(o: int, t: int) -> float:
        if not o or not t:
            return 0.0
        loads = o * (3 if fmt.splits else 2 if fmt.wide else 1) + t
        if fmt.widens:
            loads = 8 * o + 4 * t
        if fmt.pairs and t > 1:  # zips and loads of weights, half the loads of inputs
            loads, t = o * 2 + ceil_div(t, 2), round_up(t, 2)
        slowest = max(o * t * fmt.dot_cycles, fmt.min_cycles, loads)
        return slowest + t * fmt.pixel_cycles + 0.5

    def column(o: int) -> float:
        return (width // mr) * tile(o, mr) + tile(o, width % mr)

    return (vectors // nr) * column(nr) + column(vectors % nr)


def depthwise_widths(
    fmt: WeightFormat, window: Window, taps: tuple[int, int], parts: int = 1
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

    def cost(mr: int) -> float:
        if not mr:
            return 0.0
        hits = {t * stride + k * dilation for t in range(mr) for k in range(columns)}
        return len(hits) * quads * (11 + split) + mr * quads * columns * dot + 25 * mr + 6

    def row(mr: int) -> float:
        return (width // mr) * cost(mr) + cost(width % mr)

    widest = 2 if fmt.registers < 32 else 5
    if columns * quads * widest > 128:  # such kernels would fill the instruction cache
        widest = 1
    return sorted(range(1, min(widest, width) + 1), key=row)


def define_weight_format(f: FunctionWriter, target: Target) -> None:
    """Define the format for which the file's weights are packed."""
    f.macro("TVMRT_I8_FORMAT", FORMATS[target.int8].macro)
    f.target_fields.discard("lanes")
    f.target_fields.add("int8")
