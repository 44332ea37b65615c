"""Micro-kernel tiles of the float kernels (``include/tvm/runtime/kernels``) and their selection.

Select the tiles of a layer with :func:`choose_tiles`, pack its weights and bias for them with
``packing_f32``, print ``Tiles.definitions`` once per file and ``Tiles.initializer`` once per layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import SymInt, is_unbounded, sym_max, symbols_of, upper_bound

from ..c.formatting import braces, initializer
from .tile_cycles import chain_count, row_cycles
from .tile_definitions import TileDefinition
from .tile_kinds import F32, TileKind, bf16_kind
from .window_plan import PAGE

MAX_WIDTHS = 4  # TVMRT_TILE_WIDTHS
MANY_TILES = 16  # per row; from here on the row tail hardly matters
LINE_BYTES = 64  # of a cache line
L1_WEIGHT_BYTES = 24 << 10  # of weights that stay in the L1 cache next to streamed data
MIN_PARALLEL_WEIGHTS = 16 << 10  # weights read once; half of them are worth a thread
MIN_SPLIT_WIDTH = 8  # pixels of a tile whose halves keep the multipliers busy
MAX_IMBALANCE = 1.2  # maximum ratio of a thread's part to its optimum
STREAM_COUNTS = (4, 2)  # streams in which a tile may read weights, largest first
MIN_STREAMED_BYTES = 2 << 20  # bytes of weights of one pixel to read in several streams
CACHE_SHARE = 0.7  # of the L2 cache; weights of larger blocks evict each other
EVICTION_SLOWDOWN = 1.3  # slowdown of tiles of such blocks
MAX_WIDTH = 14  # pixels of a tile
MAX_ALIASED_WIDTH = 7  # if they map to one set of the L1 cache, which holds few lines
REGISTER_PRESSURE_SLOWDOWN = 1.1  # slowdown of tiles that leave the compiler no vector register
SAME_ORDER_SLOWDOWN = 1.02  # slowdown accepted to sum all pixels of a layer in one order
MIN_SAME_ORDER_SUMS = 7  # of a tile; in the order of wider ones they wait for no sum


class VectorMachine(Protocol):
    """Target properties for tile selection; see ``tvmrt.compiler.codegen.target.Target``."""

    @property
    def lanes(self) -> int:
        """Floats in a vector register; 1 for plain C."""

    @property
    def registers(self) -> int:
        """Vector registers; scalar float registers if ``lanes`` is 1."""

    @property
    def l2_bytes(self) -> int:
        """L2 cache of one core in bytes; 0 for none."""


@lru_cache(maxsize=1)
def splits_wide_vectors() -> bool:
    """Return whether the build machine executes AVX-512 instructions as two halves."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return False
    return "AuthenticAMD" in text and re.search(r"^cpu family\s*: 25$", text, re.M) is not None


def splits_wide(machine: VectorMachine) -> bool:
    """Return whether full vectors take twice the time of half vectors.

    The machine's own entry decides. Without an entry, ``native`` is the build machine.
    """
    declared = getattr(machine, "splits_wide", None)
    if declared is None:
        return getattr(machine, "name", "") == "native" and splits_wide_vectors()
    return bool(declared)


@dataclass(frozen=True)
class Tiles:
    """Micro-kernel tiles of one layer: ``lanes`` x ``vectors`` output channels (NR) times each of
    ``widths`` pixels (MR).

    ``dynamic_rows``: row lengths are dynamic. ``shared_block``: channels of a block of packed
    weights that wider tiles share; 0 for the block of a tile. ``last``: pixels at the end of a row
    that the second and the third width share; 0 for none. ``streams``: streams in which a tile of
    one pixel reads weights that are not cached; 0 for one. ``same_order``: narrower tiles sum in
    the order of the widest.
    """

    lanes: int
    vectors: int
    widths: tuple[int, ...]
    blocks_per_group: int = 1
    dynamic_rows: bool = False
    shared_block: int = 0
    last: int = 0
    streams: int = 0
    same_order: bool = False
    kind: TileKind = F32
    c_type = "tvmrt_tiles_f32"

    @property
    def block(self) -> int:
        """Output channels of a tile (NR)."""
        return self.lanes * self.vectors

    @property
    def packed(self) -> int:
        """Output channels of a block of packed weights."""
        return self.shared_block or self.block

    def members(self) -> dict[str, object]:
        """Return extra members of a kernel's layer if weights are packed for wider tiles."""
        return {"packed": self.packed} if self.packed != self.block else {}

    def without_single_row_tail(self, rows: SymInt) -> Tiles:
        """Return the tiles for a matmul of ``rows`` rows with a better tail.

        The widest tile may leave a single row, which would read all weights for itself, or rows
        summed in another order. The tail and the last full tile are then split in halves.
        """
        widest = self.widths[0]
        if self.kind is not F32 or symbols_of(rows) or self.lanes < 2 or rows <= widest:
            return self
        remainder = rows % widest
        halves = sorted({ceil_div(widest + remainder, 2), (widest + remainder) // 2}, reverse=True)
        single_row = remainder == 1 and widest >= MIN_SPLIT_WIDTH
        differs = not self.same_order and not self._sum_in_same_order(self.widths)
        same_order_tiles = differs and self._sum_in_same_order(halves)
        if not remainder or not (single_row or same_order_tiles):
            return self
        same_order = self.same_order or halves[-1] * self.vectors >= MIN_SAME_ORDER_SUMS
        widths = (widest, *halves)
        return replace(self, widths=widths, last=widest + remainder, same_order=same_order)

    def _sum_in_same_order(self, widths: Sequence[int]) -> bool:
        """Return whether tiles of these widths sum in the order of the widest."""
        return {chain_count(self.vectors * n) for n in (self.widths[0], *widths)} == {
            chain_count(self.vectors * self.widths[0])
        }

    def with_weight_streams(self, rows: SymInt, floats: SymInt, registers: int) -> Tiles:
        """Return the tiles for a matmul of one row with ``floats`` packed weights. Weights outside
        the cache are read in as many streams as there are accumulator registers."""
        is_static = self.kind is F32 and not symbols_of(rows, floats)
        narrow = self.lanes < 2 or self.vectors < 2
        if not is_static or rows != 1 or narrow or floats * 4 < MIN_STREAMED_BYTES:
            return self
        fit = [streams for streams in STREAM_COUNTS if (streams + 1) * self.vectors < registers]
        return replace(self, streams=fit[0]) if fit else self

    @property
    def target_fields(self) -> list[str]:
        """Target fields other than vectors that the speed depends on."""
        return ["bf16"] if self.kind.words_per_pair else []

    @property
    def headers(self) -> list[str]:
        """Headers of the tiles in addition to the driver's."""
        beyond_l1 = ["tile/gemv_f32.h"] if self.streams else []
        return [self.kind.header, *beyond_l1] if self.kind.header else beyond_l1

    def names(self) -> list[str]:
        """Return the tile functions, widest first."""
        return [definition.name for definition in self.definitions()]

    def _macro_part(self, width: int) -> tuple[str, tuple[int, ...]]:
        """Return the macro part and the sizes that define the tile of a width."""
        sizes, widest = (self.lanes, self.vectors, width), self.widths[0]
        chains = chain_count(self.vectors * widest)
        if self.same_order and chain_count(self.vectors * width) != chains:
            return "tail", (*sizes, chains)
        return ("remainder" if self.dynamic_rows and width != widest else "tile"), sizes

    def definitions(self) -> list[TileDefinition]:
        """Return the definitions of the tile functions; a file has each once."""
        if self.streams:
            return [
                TileDefinition("gemv", self.kind.name, (self.lanes, self.vectors, self.streams))
            ]
        streams = map(self._macro_part, self.widths)
        return [TileDefinition(part, self.kind.name, sizes) for part, sizes in streams]

    def initializer(self) -> str:
        """Return the C initialiser of a ``tvmrt_tiles_f32``."""
        pairs = {"pairs": self.kind.pairs} if self.kind.pairs else {}
        last = {"last": self.last} if self.last else {}
        return initializer({
            "block": self.block, "blocks_per_group": self.blocks_per_group,
            "width": braces(self.widths), "run": braces(self.names()), **last, **pairs,
        })  # fmt: skip


def _cover(pixels: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Return widths that exactly cover rows of each of ``pixels``, greedily, widest first."""
    widths = {width} if any(row >= width for row in pixels) else set()
    return tuple(sorted(widths | {row % width for row in pixels if row % width}, reverse=True))


def _has_static_tails(lengths: tuple[SymInt, ...], width: int) -> bool:
    """Return whether every row has a fixed tail."""
    return not symbols_of(*(length % width for length in lengths))


def _cover_any(lengths: tuple[SymInt, ...], width: int) -> tuple[int, ...]:
    """Return widths that cover rows of all these lengths, optimised for the largest."""
    rows = tuple(max(upper_bound(length), 1) for length in lengths)
    if _has_static_tails(lengths, width):
        return _cover(rows, width)
    if is_unbounded(*lengths):  # rows may be few as well as many
        return tuple(dict.fromkeys((width, ceil_div(width, 2), ceil_div(width, 4), 1)))
    row_counts = [width, 1, *(row % width for row in rows if row % width)]
    if max(rows) < MANY_TILES * width:
        row_counts.append(ceil_div(width, 2))
    return tuple(sorted(list(dict.fromkeys(row_counts))[:MAX_WIDTHS], reverse=True))


class TileSizes(NamedTuple):
    """Parameters of tile selection; see :func:`choose_tiles`."""

    row_pixels: SymInt | tuple[SymInt, ...]
    out_channels: SymInt
    window: SymInt
    machine: VectorMachine
    x_stride: int = 0
    kind: TileKind = F32


@lru_cache(maxsize=256)  # a network has few different layers
def choose_tiles(
    row_pixels: SymInt | tuple[SymInt, ...],
    out_channels: SymInt,
    window: SymInt,
    machine: VectorMachine,
    x_stride: int = 0,
    kind: TileKind = F32,
) -> Tiles:
    """Select the micro-kernel tile of a convolution or matmul.

    Parameters
    ----------
    row_pixels
        Output pixels of a row: the output width, or all pixels of all images for a 1x1 convolution
        with stride 1 and no padding and for a matmul (its rows). Several lengths where rows
        differ (:func:`phase_pixels` of a transposed convolution); three at most.
    out_channels
        Output channels of one group; columns of a matmul.
    window
        Multiply-adds of one output: kernel volume times input channels of a group; K of a matmul.
    x_stride
        Floats between the windows of adjacent output pixels, 0 for as many as ``window``. Many
        pixels at a distance of a large power of two would evict each other from the L1 cache.
    kind
        Kind of tiles (see :class:`Tiles`); for bfloat16 ``window`` counts pairs.

    If the machine is one ISA level of several (``widest``), the tiles read weights in blocks of the
    widest level's tiles.
    """
    search = _TileSearch.of(TileSizes(row_pixels, out_channels, window, machine, x_stride, kind))
    return search.complete(_fastest(list(search.tiles(machine)), machine))


def min_row_cycles(sizes: TileSizes) -> float:
    """Estimate the cycles of the fastest tiles for one row of each length."""
    return min(each.cycles for each in _TileSearch.of(sizes).tiles(sizes.machine))


def available_tiles(sizes: TileSizes) -> list[Tiles]:
    """Return all tiles that :func:`choose_tiles` considers."""
    search = _TileSearch.of(sizes)
    tiles = search.tiles(sizes.machine)
    return [search.complete(each.same_order_tiles or each.tiles) for each in tiles]


@dataclass(frozen=True)
class _TileCandidate:
    """Candidate tiles with estimated cycles. ``same_tail``: rows of all sizes leave the same tail.
    ``same_order_cycles``: the cycles if all tiles sum in the order of the widest; None if they may
    not."""

    cycles: float
    tiles: Tiles
    same_tail: bool
    same_order_cycles: float | None

    @property
    def same_order_tiles(self) -> Tiles | None:
        """Tiles that sum in one order, if that costs next to nothing."""
        cycles = self.same_order_cycles
        cheap = cycles is not None and cycles <= SAME_ORDER_SLOWDOWN * self.cycles
        return replace(self.tiles, same_order=True) if cheap else None


@dataclass(frozen=True)
class _TileSearch:
    """Inputs of tile selection; see :func:`choose_tiles`. ``shared``: channels of a block of
    weights that no tile may cross; 0 for any."""

    lengths: tuple[SymInt, ...]
    rows: tuple[int, ...]
    out_channels: int
    window: int
    x_stride: int
    shared: int
    kind: TileKind

    @classmethod
    def of(cls, given: TileSizes) -> _TileSearch:
        pixels, kind = given.row_pixels, given.kind
        lengths = pixels if isinstance(pixels, tuple) else (pixels,)
        widest, shared = getattr(given.machine, "widest", None), 0
        if widest is not None:  # weights are packed for it
            own = bf16_kind(widest) if kind.words_per_pair else kind
            shared = choose_tiles(*given._replace(machine=widest, kind=own)).packed
        # a network without rows or columns is compiled as if it had one
        rows = tuple(max(upper_bound(length), 1) for length in lengths)
        sizes = (max(upper_bound(given.out_channels), 1), max(upper_bound(given.window), 1))
        return cls(lengths, rows, *sizes, given.x_stride, shared, kind)

    def complete(self, tiles: Tiles) -> Tiles:
        """Return tiles with their kind, the shared block and widths for rows of any length."""
        tiles = replace(tiles, kind=self.kind)
        if self.shared != tiles.block:
            tiles = replace(tiles, shared_block=self.shared)
        if not symbols_of(*self.lengths):
            return tiles
        return replace(tiles, widths=_cover_any(self.lengths, tiles.widths[0]), dynamic_rows=True)

    def tiles(self, machine: VectorMachine) -> Iterator[_TileCandidate]:
        """Yield all tiles that fit, half vectors first: faster on some processors on a tie."""
        full = machine.lanes
        upper_bound = self.kind.max_vectors
        max_share = self._max_share(machine)
        for lanes in [full // 2, full] if full >= 8 and self.kind.half_vectors else [full]:
            fma = 1.0 if lanes == full and splits_wide(machine) else 0.5
            for vectors in range(1, min(upper_bound, ceil_div(self.out_channels, lanes)) + 1):
                block = lanes * vectors
                if self._share(block) > max_share:
                    continue
                if not self.shared % block or round_up(self.out_channels, block) <= self.shared:
                    yield from self._candidates_of_block(machine, lanes, vectors, fma)

    def _share(self, block: int) -> int:
        """Return the channels of the larger part if two threads divide whole blocks."""
        return min(ceil_div(ceil_div(self.out_channels, block), 2) * block, self.out_channels)

    def _max_share(self, machine: VectorMachine) -> float:
        """Return the maximum channels for one of two threads, so that both have about equal parts.
        It applies if a single pixel reads enough weights to be worth a thread."""
        alone = self.rows != (1,) or not getattr(machine, "threads", False)
        if (
            alone
            or self.kind.words_per_pair
            or self.window * self.out_channels < MIN_PARALLEL_WEIGHTS
        ):
            return self.out_channels
        vectors = range(1, self.kind.max_vectors + 1)
        return MAX_IMBALANCE * min(self._share(machine.lanes * count) for count in vectors)

    def _candidates_of_block(
        self, machine: VectorMachine, lanes: int, vectors: int, fma: float
    ) -> Iterator[_TileCandidate]:
        cache, open_ = machine.l2_bytes, bool(symbols_of(*self.lengths))
        aliases = (self.x_stride or self.window) * 4 % PAGE == 0
        block_bytes = self.window * lanes * vectors * 4
        blocks = ceil_div(self.out_channels, lanes * vectors)
        per_group = min(max(1, cache // 4 // block_bytes) if cache else blocks, blocks)
        beyond_l1 = cache and per_group * block_bytes > L1_WEIGHT_BYTES
        streams = beyond_l1 and not self.kind.words_per_pair
        lines = block_bytes / self.window / LINE_BYTES if streams else 0.0
        eviction = EVICTION_SLOWDOWN if cache and block_bytes > CACHE_SHARE * cache else 1.0
        widest = MAX_ALIASED_WIDTH if aliases else MAX_WIDTH
        for width in self.kind.widths(widest, max(self.rows)):
            used_registers = self.kind.registers(vectors, width)
            if used_registers > machine.registers:
                break
            tiles = Tiles(lanes, vectors, _cover(self.rows, width), per_group)
            sizes = (self.rows, vectors, width, self.window, fma, self.kind, lines)
            same_tail = open_ and _has_static_tails(self.lengths, width)
            is_full = used_registers == machine.registers
            times = blocks * eviction * (REGISTER_PRESSURE_SLOWDOWN if is_full else 1.0)
            is_bounded = open_ and not is_unbounded(*self.lengths)
            fixed_order = getattr(machine, "fixed_order", False)
            same_order_tiles = self.kind is F32 and lanes > 1 and not is_bounded and not fixed_order
            cycles = row_cycles(*sizes, fixed_order=fixed_order) * times
            ordered = row_cycles(*sizes, same_order=True) * times if same_order_tiles else None
            yield _TileCandidate(cycles, tiles, same_tail, ordered)


def _fastest(candidates: list[_TileCandidate], machine: VectorMachine) -> Tiles:
    """Return the fastest tiles; if it costs next to nothing, ones that sum in one
    order."""
    best: _TileCandidate | None = None
    same_tail: _TileCandidate | None = None  # without a tail at any size
    for each in candidates:
        if best is None or each.cycles < best.cycles * 0.999:
            best = each
        if each.same_tail and (same_tail is None or each.cycles < same_tail.cycles * 0.999):
            same_tail = each
    if best is None:
        raise ValueError(f"no float32 tile fits into {machine.registers} registers")
    if same_tail is not None and same_tail.cycles <= 1.001 * best.cycles:
        best = same_tail  # less code for the same time
    limit = SAME_ORDER_SLOWDOWN * best.cycles
    others = (e for e in candidates if e.same_order_cycles and e.same_order_cycles <= limit)
    other = min(others, key=lambda each: each.same_order_cycles or 0.0, default=None)
    if best.same_order_tiles is None and other is not None:
        return replace(other.tiles, same_order=True)
    return best.same_order_tiles or best.tiles


def phase_pixels(out_width: SymInt, stride: int) -> tuple[SymInt, ...]:
    """Return the lengths of the phases of a transposed convolution's rows, for
    :func:`choose_tiles`."""
    return tuple({ceil_div(out_width, stride), sym_max(out_width // stride, 1)})
