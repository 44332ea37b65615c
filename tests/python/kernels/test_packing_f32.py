"""Packing of float weights: worked examples of the headers, and tile selection."""

from __future__ import annotations

import kernel_build as kb
import numpy as np
import pytest

from tvmrt.compiler.codegen.geometry import Window
from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.codegen.window import packing_f32 as packing
from tvmrt.compiler.codegen.window.tile_definitions import TileDefinition, merge_remainder_tiles
from tvmrt.compiler.codegen.window.tiles_f32 import MIN_STREAMED_BYTES, Tiles, choose_tiles
from tvmrt.compiler.ir.sizes import Symbol

MACHINES = {
    "avx512": kb.Machine(16, 32, 1 << 20),
    "avx512-split": kb.Machine(16, 32, 1 << 20, True),
    "avx2": kb.Machine(8, 16),
    "neon": kb.Machine(4, 32),
    "plain": kb.Machine(1, 12, 0),
}


def test_pack_conv_is_the_example_of_tile_f32() -> None:
    w = np.array([100, 200, 300])[:, None, None, None] + np.array([[0, 1], [10, 11]])[:, None]
    packed = packing.pack_conv(w, Tiles(2, 1, (1,)))
    block0 = [100, 200, 110, 210, 101, 201, 111, 211]
    block1 = [300, 0, 310, 0, 301, 0, 311, 0]
    np.testing.assert_array_equal(packed, block0 + block1)


def test_pack_conv_is_the_example_of_conv_f32() -> None:
    w = np.zeros((64, 64, 3, 3), np.float32)
    w[40, 5, 1, 2] = 7
    packed = packing.pack_conv(w, Tiles(16, 2, (14,)))
    assert np.flatnonzero(packed).tolist() == [1 * 18432 + ((1 * 3 + 2) * 64 + 5) * 32 + 8]


def test_pack_depthwise_is_the_example_of_its_header() -> None:
    w = np.zeros((20, 1, 3, 3), np.float32)
    w[17, 0, 1, 2] = 7
    packed = packing.pack_depthwise(w, 16)
    assert packed.size == 2 * 9 * 16
    assert np.flatnonzero(packed).tolist() == [(1 * 9 + 1 * 3 + 2) * 16 + 1]


def test_pack_matmul_is_the_example_of_its_header() -> None:
    b = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    packed = packing.pack_matmul(b, Tiles(2, 1, (1,)))
    np.testing.assert_array_equal(packed, [1, 2, 4, 5, 3, 0, 6, 0])


def test_pack_bias_pads_each_group() -> None:
    packed = packing.pack_bias(np.arange(1, 7), Tiles(2, 2, (1,)), groups=2)
    np.testing.assert_array_equal(packed, [1, 2, 3, 0, 4, 5, 6, 0])


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("pixels", [1, 2, 7, 13, 49, 56, 125, 784, (28, 27), (5, 4)])
@pytest.mark.parametrize("channels", [1, 10, 24, 64, 144, 1000])
def test_widths_cover_every_row_within_the_registers(
    pixels: int | tuple[int, ...], channels: int, machine: kb.Machine
) -> None:
    tiles = choose_tiles(pixels, channels, 72, machine)
    assert 1 <= len(tiles.widths) <= 4
    assert list(tiles.widths) == sorted(tiles.widths, reverse=True)
    for row in (pixels,) if isinstance(pixels, int) else pixels:
        tail = row
        for width in tiles.widths:
            tail -= tail // width * width
        assert tail == 0
    assert tiles.vectors * max(tiles.widths) + tiles.vectors < machine.registers
    assert tiles.lanes in (machine.lanes, machine.lanes // 2)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize(("batch", "columns"), [(4, 125), (8, 1), (3, 49), (40, 7)])
def test_widths_cover_the_rows_of_every_size(batch: int, columns: int, machine) -> None:
    """Rows of any batch and image size use a bounded number of tile functions."""
    size = Symbol("n", 1, batch, "n_n").extent
    tiles = choose_tiles(size * columns, 64, 72, machine)
    assert 1 <= len(tiles.widths) <= 4
    for row in range(columns, batch * columns + 1, columns):
        tail = row
        for width in tiles.widths:
            tail %= width
        assert tail == 0
    still = choose_tiles(columns * 6, 64, 72, machine)
    if not columns % still.widths[0]:
        assert len(tiles.widths) == 1  # full tiles for every size


@pytest.mark.parametrize(
    ("rows", "widths", "last"),
    [
        (197, (14, 8, 7), 15),  # 13 tiles of 14, one of 8 and one of 7
        (15, (14, 8, 7), 15),
        (196, (14, 1), 0),
        (198, (14, 8), 16),  # otherwise two rows would use another summation order
        (1, (14, 1), 0),
    ],
)
def test_single_matmul_row_uses_two_tiles(rows: int, widths: tuple, last: int) -> None:
    tiles = Tiles(16, 2, (14, 1)).without_single_row_tail(rows)
    assert (tiles.widths, tiles.last) == (widths, last)


def test_single_row_stays_for_narrow_tiles_or_dynamic_rows() -> None:
    size = Symbol("n", 1, 197, "n_n").extent
    for tiles, rows in ((Tiles(8, 2, (6, 1)), 61), (Tiles(16, 2, (14, 1)), size)):
        assert tiles.without_single_row_tail(rows) is tiles


FAR = MIN_STREAMED_BYTES // 4


@pytest.mark.parametrize(
    ("lanes", "vectors", "registers", "name"),
    [(16, 6, 32, "16x6x4"), (16, 8, 32, "16x8x2"), (8, 2, 16, "8x2x4"), (4, 6, 16, "4x6")],
)
def test_uncached_weights_of_one_row_use_several_streams(
    lanes: int, vectors: int, registers: int, name: str
) -> None:
    tiles = Tiles(lanes, vectors, (1,)).with_weight_streams(1, FAR, registers)
    assert tiles.streams == (int(name.split("x")[2]) if name.count("x") == 2 else 0)
    if tiles.streams:
        assert tiles.names() == [f"tvmrt_gemv_f32_{name}"]
        assert tiles.headers == ["tile/gemv_f32.h"]


def test_cached_or_shared_weights_use_one_stream() -> None:
    size = Symbol("n", 1, 8, "n_n").extent
    for rows, floats in ((1, FAR - 1), (2, FAR), (size, FAR), (1, size * FAR)):
        tiles = Tiles(16, 2, (1,))
        assert tiles.with_weight_streams(rows, floats, 32) is tiles
    for tiles in (Tiles(1, 2, (1,)), Tiles(16, 1, (1,))):
        assert tiles.with_weight_streams(1, FAR, 32) is tiles


ROWS = {
    "product": (Window(2, (1, 5, 6), (1, 5, 6), 1, 1), (1, 1, 60)),
    "stride": (Window(2, (1, 9, 9), (1, 5, 5), 1, 1, stride=(1, 2, 2)), (1, 5, 5)),
    "window": (Window(1, (1, 8, 9), (1, 8, 9), 1, 1, (1, 3, 3), pad=(0, 1, 1)), (1, 8, 9)),
    "one-column": (Window(1, (1, 40, 1), (1, 38, 1), 1, 1, (1, 3, 1)), (1, 1, 38)),
    "one-depth": (Window(2, (30, 1, 1), (26, 1, 1), 1, 1, (5, 1, 1)), (1, 1, 26)),
    "one-dimension": (
        Window(1, (1, 1, 57), (1, 1, 29), 1, 1, (1, 1, 7), (1, 1, 2), pad=(0, 0, 3)),
        (1, 1, 29),
    ),
}


@pytest.mark.parametrize(("window", "out"), ROWS.values(), ids=ROWS)
def test_tile_rows_are_maximal(window: Window, out: tuple) -> None:
    rows = window.in_longest_rows()
    assert rows.out == out
    assert rows.pixels == window.pixels


def test_tail_of_tile_size_is_a_full_tile() -> None:
    sizes = (("tile", 5), ("remainder", 5), ("remainder", 3))
    tile, tail, other = (TileDefinition(part, "f32", (8, 1, n)) for part, n in sizes)
    same = "#define tvmrt_remainder_f32_8x1x5 tvmrt_tile_f32_8x1x5"
    lines = ["TVMRT_DEFINE_TILE_F32(8, 1, 5)", "TVMRT_DEFINE_REMAINDER_F32(8, 1, 3)"]
    assert merge_remainder_tiles([tail, tile, other]) == [same, *lines]
    assert merge_remainder_tiles([tail, other]) == [
        "TVMRT_DEFINE_REMAINDER_F32(8, 1, 5)",
        lines[1],
    ]


@pytest.mark.parametrize(("channels", "window"), [(240, 960), (168, 672), (48, 1152), (400, 512)])
def test_two_threads_split_channels_evenly(channels: int, window: int) -> None:
    (machine,) = get_target("x86-64", ["v4"]).levels
    block = choose_tiles(1, channels, window, machine).block
    blocks = -(-channels // block)
    vectors = -(-channels // machine.lanes)  # never split by a tile
    assert -(-blocks // 2) * block <= 1.2 * -(-vectors // 2) * machine.lanes


def test_few_channels_take_half_vectors() -> None:
    """Half vectors cost the same, or less if the processor splits full vectors."""
    for channels in (1, 8):
        assert choose_tiles(100, channels, 75, MACHINES["avx512"]).lanes == 8
    assert choose_tiles(100, 16, 75, MACHINES["avx512"]).lanes == 16


@pytest.mark.parametrize(("channels", "vectors"), [(24, 3), (70, 3), (144, 2)])
def test_narrow_isa_tiles_fit_wide_isa_blocks(channels, vectors) -> None:
    """Narrow tiles never cross a block boundary, whether or not they divide a block."""
    family = get_target("x86-64")
    (alone,) = get_target("x86-64", ["v3"]).levels
    wide = choose_tiles(32, channels, 216, family)
    tiles = choose_tiles(32, channels, 216, family.levels[1])
    own = choose_tiles(32, channels, 216, alone)
    assert (tiles.lanes, tiles.vectors, tiles.widths) == (own.lanes, own.vectors, own.widths)
    assert (tiles.vectors, tiles.packed) == (vectors, wide.block)
    starts = range(0, channels, tiles.block)
    assert all(c // wide.block == (c + tiles.block - 1) // wide.block for c in starts)
