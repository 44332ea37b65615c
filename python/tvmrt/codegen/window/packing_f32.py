"""Weights and register tiles as the float kernels (``include/tvm/runtime/kernels``) expect them.

Everything here is numpy in, numpy out: pick the tiles of a layer with :func:`choose_tiles`, pack
its weights and bias for them, print ``Tiles.definitions`` once a file and ``Tiles.initializer``
once a layer.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tvmrt.ir.extent import Whole, largest, most, symbols_of
from tvmrt.ir.rounding import ceil_div, round_up

from ..c.text import braces

if TYPE_CHECKING:
    from tvmrt.codegen.window.plan import Window


MOST_WIDTHS = 4  # TVMRT_TILE_WIDTHS
FLOATS, PAIRS, WIDE = "f32", "bf16", "bf16_wide"  # kinds of tiles
MANY_TILES = 16  # of a row, beside which it matters little how its last pixels are computed


class VectorMachine(Protocol):
    """What the choice of tiles has to know; ``tvmrt.codegen.target.Target`` has it."""

    @property
    def lanes(self) -> int:
        """Floats in a vector register; 1 for plain C."""

    @property
    def registers(self) -> int:
        """Vector registers; scalar float registers if ``lanes`` is 1."""

    @property
    def l2_bytes(self) -> int:
        """Bytes of cache that one core has for itself; 0 for none."""


def bf16_kind(machine: VectorMachine) -> str:
    """The kind of tiles for products in bfloat16."""
    return PAIRS if getattr(machine, "bf16", False) else WIDE


@lru_cache(maxsize=1)
def splits_wide_vectors() -> bool:
    """Whether this very machine has AVX-512 whose instructions take both halves in turn."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return False
    return "AuthenticAMD" in text and re.search(r"^cpu family\s*: 25$", text, re.M) is not None


def splits_wide(machine: VectorMachine) -> bool:
    """Whether full vectors take twice the time of half ones.

    As the machine says; one named ``native`` that says nothing is this very machine.
    """
    said = getattr(machine, "splits_wide", None)
    if said is None:
        return getattr(machine, "name", "") == "native" and splits_wide_vectors()
    return bool(said)


@dataclass(frozen=True)
class Tiles:
    """The register tiles of one layer.

    ``lanes`` x ``vectors`` output channels times each of ``widths`` pixels. ``open_rows``: whether
    a run chooses how long rows are. ``shared_block``: channels of a block of packed weights that
    wider tiles read, too; 0 for those of a tile. ``kind`` is that of what is multiplied: ``f32``,
    ``bf16``, pairs of numbers, or ``bf16_wide``, the same where no instruction multiplies those.
    """

    lanes: int
    vectors: int
    widths: tuple[int, ...]
    blocks_per_group: int = 1
    open_rows: bool = False
    shared_block: int = 0
    kind: str = FLOATS
    c_type = "tvmrt_tiles_f32"

    @property
    def block(self) -> int:
        """Output channels of a tile."""
        return self.lanes * self.vectors

    @property
    def packed(self) -> int:
        """Output channels of a block of packed weights."""
        return self.shared_block or self.block

    def members(self) -> dict[str, object]:
        """What a kernel's layer has to know where weights are packed for wider tiles."""
        return {"packed": self.packed} if self.packed != self.block else {}

    def names(self) -> list[str]:
        """The tile functions, widest first."""
        return [
            f"tvmrt_{part}_{self.kind}_{self.lanes}x{self.vectors}x{width}"
            for part, width in self._parts()
        ]

    def _parts(self) -> list[tuple[str, int]]:
        rests = "rest" if self.open_rows else "tile"
        return [(rests if i else "tile", width) for i, width in enumerate(self.widths)]

    def definitions(self) -> list[str]:
        """Lines of C that define the tile functions; a file holds each line once."""
        block, kind = f"{self.lanes}, {self.vectors}", self.kind.upper()
        return [
            f"TVMRT_DEFINE_{part.upper()}_{kind}({block}, {width})" for part, width in self._parts()
        ]

    def initializer(self) -> str:
        """The C initialiser of a ``tvmrt_tiles_f32``."""
        tables = (braces(self.widths), braces(self.names()))
        return braces([self.block, self.blocks_per_group, *tables])


def merge_rests(definitions: Collection[str]) -> list[str]:
    """The definitions of a file, where a rest of the size of a tile is that tile: both sum in the
    same order."""

    def merged(text: str) -> str:
        rest = re.fullmatch(r"TVMRT_DEFINE_REST_(F32|BF16|BF16_WIDE)\((\d+), (\d+), (\d+)\)", text)
        if rest is None or text.replace("_REST_", "_TILE_") not in definitions:
            return text
        kind, size = rest[1].lower(), "x".join(rest.groups()[1:])
        return f"#define tvmrt_rest_{kind}_{size} tvmrt_tile_{kind}_{size}"

    return list(map(merged, definitions))


def _cover(pixels: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Widths that cover rows of each of ``pixels`` exactly, widest first and greedily."""
    widths = {width} if any(row >= width for row in pixels) else set()
    return tuple(sorted(widths | {row % width for row in pixels if row % width}, reverse=True))


def _rests_known(lengths: tuple[Whole, ...], width: int) -> bool:
    """Whether every row leaves over as many pixels at all sizes."""
    return not symbols_of(*(length % width for length in lengths))


def _cover_any(lengths: tuple[Whole, ...], width: int) -> tuple[int, ...]:
    """Widths that cover rows of all these lengths, and the largest as well as can be."""
    rows = tuple(max(most(length), 1) for length in lengths)
    if _rests_known(lengths, width):
        return _cover(rows, width)
    wanted = [width, 1, *(row % width for row in rows if row % width)]
    if max(rows) < MANY_TILES * width:
        wanted.append(ceil_div(width, 2))
    return tuple(sorted(list(dict.fromkeys(wanted))[:MOST_WIDTHS], reverse=True))


def _tile_cycles(vectors: int, width: int, window: int, fma: float) -> float:
    """Estimated cycles of one tile: the busier of arithmetic and loads, and what surrounds it.

    ``fma`` is the cycles of one multiply-add of vectors; a load of a vector takes as long.
    """
    multiply = vectors * width * fma
    load = vectors * fma + width * 0.5
    issue = (vectors * width + vectors + width) / 5.0
    slow = max(multiply, load, issue)
    return window * (slow + 0.05 * (load + issue)) + 16 + 3 * multiply


def _row_cycles(rows: tuple[int, ...], vectors: int, width: int, window: int, fma: float) -> float:
    """Of a row of each of these lengths."""
    cycles = 0.0
    for row in rows:
        cycles += row // width * _tile_cycles(vectors, width, window, fma)
        if row % width:
            cycles += _tile_cycles(vectors, row % width, window, fma)
    return cycles


def choose_tiles(
    row_pixels: Whole | tuple[Whole, ...],
    out_channels: Whole,
    window: Whole,
    machine: VectorMachine,
    x_stride: int = 0,
    kind: str = FLOATS,
) -> Tiles:
    """Picks the register tile of a convolution or matrix product.

    Parameters
    ----------
    row_pixels
        Output pixels of a row: the output width, or all pixels of all images for a 1x1 convolution
        with stride 1 and no padding and for a matrix product (its rows). Several lengths where rows
        differ (:func:`phase_pixels` of a transposed convolution); three at most.
    out_channels
        Output channels of one group; columns of a matrix product.
    window
        Multiply-adds of one output: kernel volume times input channels of a group; K of a product.
    x_stride
        Floats between the windows of neighbouring output pixels, 0 for as many as ``window``. Many
        pixels at a distance of a large power of two would push one another out of the first-level
        cache.
    kind
        What is multiplied (see :class:`Tiles`); of bfloat16 ``window`` counts pairs.

    Where the machine is a level of processors beside a wider one (``widest``), the tiles read
    weights in blocks of that one's tiles.
    """
    widest = getattr(machine, "widest", None)
    shared = 0
    if widest is not None:
        own = kind if kind == FLOATS else bf16_kind(widest)
        shared = choose_tiles(row_pixels, out_channels, window, widest, x_stride, own).packed
    lengths = tuple(row_pixels) if isinstance(row_pixels, tuple) else (row_pixels,)
    tiles = _fastest_tiles(lengths, out_channels, window, machine, x_stride, shared, kind == WIDE)
    tiles = replace(tiles, kind=kind)
    if shared != tiles.block:
        tiles = replace(tiles, shared_block=shared)
    if not symbols_of(*lengths):
        return tiles
    return replace(tiles, widths=_cover_any(lengths, tiles.widths[0]), open_rows=True)


def _fastest_tiles(
    lengths: tuple[Whole, ...],
    out_channels: Whole,
    window: Whole,
    machine: VectorMachine,
    x_stride: int,
    shared: int,
    widens: bool,
) -> Tiles:
    """The tiles of the fewest cycles; ``shared``: channels of a block of weights, over
    whose end none may reach; 0 for any. ``widens``: whether halves of pairs take registers."""
    rows, open_ = tuple(map(most, lengths)), bool(symbols_of(*lengths))
    # a network without rows or columns is compiled as if it had one
    rows = tuple(max(row, 1) for row in rows)
    out_channels, window = max(most(out_channels), 1), max(most(window), 1)
    aliases = (x_stride or window) * 4 % 4096 == 0
    wide = 7 if aliases else 14
    # half vectors first: where they take as many cycles, some processors run them faster
    lanes_choices = [machine.lanes] if machine.lanes < 8 else [machine.lanes // 2, machine.lanes]
    best: tuple[float, Tiles] | None = None
    even: tuple[float, Tiles] | None = None  # of those that leave no rest of any size
    for lanes in lanes_choices:
        fma = 1.0 if lanes == machine.lanes and splits_wide(machine) else 0.5
        for vectors in range(1, min(8, ceil_div(out_channels, lanes)) + 1):
            block = lanes * vectors
            if shared % block and round_up(out_channels, block) > shared:
                continue
            block_bytes = window * lanes * vectors * 4
            blocks = ceil_div(out_channels, lanes * vectors)
            per_group = max(1, machine.l2_bytes // 2 // block_bytes) if machine.l2_bytes else blocks
            thrashing = 1.3 if machine.l2_bytes and block_bytes > 0.7 * machine.l2_bytes else 1.0
            for width in range(1, min(wide, max(rows)) + 1):
                operands = vectors * (2 if widens else 1) + 1
                if vectors * width + operands > machine.registers:
                    break
                widths = _cover(rows, width)
                cycles = _row_cycles(rows, vectors, width, window, fma) * (blocks * thrashing)
                found = (cycles, Tiles(lanes, vectors, widths, min(per_group, blocks)))
                if best is None or cycles < best[0] * 0.999:
                    best = found
                if open_ and _rests_known(lengths, width):
                    even = found if even is None or cycles < even[0] * 0.999 else even
    if best is None:
        raise ValueError(f"no tile of floats fits into {machine.registers} registers")
    if even is not None and even[0] <= 1.001 * best[0]:
        best = even  # less code for the same time
    return best[1]


def round_bf16(values: np.ndarray) -> np.ndarray:
    """The nearest numbers in bfloat16, halfway to even, as their 16 bits."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
    quiet = bits >> np.uint32(16) | np.uint32(0x40)
    return np.where(np.isnan(values), quiet, nearest).astype(np.uint16)


def as_pairs(values: np.ndarray, axis: int) -> np.ndarray:
    """Floats as words of two neighbours along an axis in bfloat16, the first in the lower half; an
    odd one has 0 beside it."""
    halves = np.moveaxis(round_bf16(values).astype(np.uint32), axis, 0)
    if len(halves) % 2:
        halves = np.concatenate([halves, np.zeros_like(halves[:1])])
    return np.moveaxis(halves[::2] | halves[1::2] << np.uint32(16), 0, axis)


def _packable(weight: np.ndarray) -> np.ndarray:
    """Floats, or pairs as they are."""
    return weight if weight.dtype == np.uint32 else np.asarray(weight, np.float32)


def pack_conv(weight: np.ndarray, tiles: Tiles, groups: int = 1) -> np.ndarray:
    """Packs convolution weights ``[OC, IC / groups, *kernel]``.

    The order is ``[group][block][*kernel][ic][tiles.packed]``.

    Missing channels of the last block of each group are zeros. The result is one-dimensional
    float32, or of the pairs that the weights are.
    """
    weight = _packable(weight)
    out_channels, in_channels = weight.shape[0] // groups, weight.shape[1]
    blocks = ceil_div(out_channels, tiles.packed)
    packed = np.zeros(
        (groups, blocks * tiles.packed, in_channels, int(np.prod(weight.shape[2:]))), weight.dtype
    )
    packed[:, :out_channels] = weight.reshape(groups, out_channels, in_channels, -1)
    packed = packed.reshape(groups, blocks, tiles.packed, in_channels, -1)
    return np.ascontiguousarray(packed.transpose(0, 1, 4, 3, 2)).reshape(-1)


MOST_PACKED = 128  # channels of a block of packed weights: 8 vectors of 16


@dataclass(frozen=True)
class Order:
    """How the weights ``[channels, inputs, taps]`` of a layer lie that a run packs itself, or of a
    transposed one ``[inputs, channels, taps]``; see ``pack_f32.h``."""

    channels: int
    inputs: int
    taps: int
    transposed: bool = False

    @property
    def most_bytes(self) -> int:
        """What they take packed, in blocks of any size."""
        return round_up(self.channels, MOST_PACKED) * self.inputs * self.taps * 4

    def members(self, block: int) -> dict[str, object]:
        """The members of a ``tvmrt_pack_f32`` for blocks of so many channels."""
        strides = (self.inputs * self.taps, self.taps)
        if self.transposed:
            strides = (self.taps, self.channels * self.taps)
        return {
            "groups": 1,
            "channels": self.channels,
            "inputs": self.inputs,
            "taps": self.taps,
            "block": block,
            "channel_stride": strides[0],
            "input_stride": strides[1],
        }


def phase_pixels(out_width: Whole, stride: int) -> tuple[Whole, ...]:
    """Lengths of the phases of a transposed convolution's rows, for :func:`choose_tiles`."""
    return tuple({ceil_div(out_width, stride), largest(out_width // stride, 1)})


def pack_conv_transpose(weight: np.ndarray, tiles: Tiles, groups: int = 1) -> np.ndarray:
    """Packs weights ``[IC, OC / groups, *kernel]`` to the order of :func:`pack_conv`."""
    weight = np.asarray(weight, np.float32)
    per_group = weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:]).swapaxes(1, 2)
    return pack_conv(per_group.reshape(-1, *per_group.shape[2:]), tiles, groups)


def pack_bias(bias: np.ndarray, tiles: Tiles, groups: int = 1) -> np.ndarray:
    """Fills the bias of each group up with zeros to whole blocks, flat."""
    bias = np.asarray(bias, np.float32).reshape(groups, -1)
    packed = np.zeros((groups, round_up(bias.shape[1], tiles.packed)), np.float32)
    packed[:, : bias.shape[1]] = bias
    return packed.reshape(-1)


def pack_matmul(b: np.ndarray, tiles: Tiles) -> np.ndarray:
    """Packs the right factor ``[..., K, N]`` to ``[...][block][K][tiles.packed]``, flat."""
    b = _packable(b)
    k, n = b.shape[-2:]
    blocks = ceil_div(n, tiles.packed)
    packed = np.zeros((int(np.prod(b.shape[:-2])), k, blocks * tiles.packed), b.dtype)
    packed[:, :, :n] = b.reshape(-1, k, n)
    packed = packed.reshape(-1, k, blocks, tiles.packed)
    return np.ascontiguousarray(packed.transpose(0, 2, 1, 3)).reshape(-1)


@dataclass(frozen=True)
class DepthwiseTile:
    """The register tile of a depthwise layer: ``lanes`` channels times ``width`` pixels.

    ``columns`` is the width of the window if the instance is made for it (and for ``stride``,
    without dilation), 0 if it takes any. ``packed`` is how many channels the weights are packed
    for, a multiple of ``lanes``; 0 for as many.
    """

    lanes: int
    width: int
    columns: int = 0
    stride: int = 0
    packed: int = 0
    c_type = "tvmrt_depthwise_f32_tile"

    def name(self) -> str:
        """The tile function."""
        fixed = f"k{self.columns}s{self.stride}" if self.columns else ""
        part = f"of{self.packed}" if self.packed else ""
        return f"tvmrt_depthwise_f32_{self.lanes}{part}{fixed}x{self.width}"

    def definitions(self) -> list[str]:
        """Lines of C that define the tile function; a file holds each line once."""
        part, packed = ("_OF", f", {self.packed}") if self.packed else ("", "")
        if not self.columns:
            sizes = f"{self.lanes}, {self.width}{packed}"
            return [f"TVMRT_DEFINE_DEPTHWISE_ANY{part}_F32({sizes})"]
        sizes = f"{self.lanes}, {self.columns}, {self.stride}, {self.width}{packed}"
        return [f"TVMRT_DEFINE_DEPTHWISE{part}_F32({sizes})"]

    def members(self) -> dict[str, object]:
        """What a kernel's layer has to know: the tile has it."""
        return {}

    def initializer(self) -> str:
        """The C initialiser of a ``tvmrt_depthwise_f32_tile``."""
        return f"{{{self.lanes}, {self.width}, {self.name()}}}"


def choose_depthwise(window: Window, channels: int, machine: VectorMachine) -> DepthwiseTile:
    """Picks the register tile of a depthwise convolution, in rows as long as can be."""
    columns, stride, out_width = window.kernel[2], window.stride[2], most(window.out[2])
    lanes = machine.lanes
    while lanes > 4 and round_up(channels, lanes) > round_up(channels, lanes // 2):
        lanes //= 2
    widest = getattr(machine, "widest", None)
    packed = lanes
    if widest is not None:
        packed = choose_depthwise(window, channels, widest).lanes
        lanes = min(machine.lanes, packed)
    fixed = window.dilation[2] == 1 and columns <= 7 and stride <= 2
    limit = 8
    if fixed:
        while limit > 1 and (limit - 1) * stride + columns + limit + 1 > machine.registers:
            limit -= 1
    width = min(
        range(1, min(limit, out_width) + 1),
        key=lambda w: (ceil_div(out_width, w) * (w + 0.5 + (columns - 1) / 3), -w),
    )
    fixed_sizes = (columns, stride) if fixed else (0, 0)
    return DepthwiseTile(lanes, width, *fixed_sizes, packed if packed != lanes else 0)


def pack_depthwise(weight: np.ndarray, lanes: int) -> np.ndarray:
    """Packs ``[C, 1, *kernel]`` to ``[C / lanes, rounded up][*kernel][lanes]``, flat."""
    weight = np.asarray(weight, np.float32)
    channels, taps = weight.shape[0], int(np.prod(weight.shape[2:]))
    packed = np.zeros((round_up(channels, lanes), taps), np.float32)
    packed[:channels] = weight.reshape(channels, taps)
    return np.ascontiguousarray(packed.reshape(-1, lanes, taps).transpose(0, 2, 1)).reshape(-1)


def pad_channels(values: np.ndarray, unit: int) -> np.ndarray:
    """One float a channel, filled up with zeros to a multiple of ``unit``."""
    values = np.asarray(values, np.float32).reshape(-1)
    return np.concatenate([values, np.zeros(-values.size % unit, np.float32)])
