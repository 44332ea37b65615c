"""The float convolution against numpy, built for several instruction sets."""

from __future__ import annotations

from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest
from conv_case import INFINITY, NO_PADS, Case, check, function

packing = kb.packing


CASES = [
    Case("3x3-same", (1, 9, 11), (16, 32)),
    Case("3x3-relu-bias", (1, 8, 8), (8, 40), bounds=(0.0, INFINITY)),
    Case("3x3-relu6-residual", (1, 7, 7), (32, 64), bounds=(0.0, 6.0), residual=True),
    Case(
        "first-layer-stride2", (1, 23, 31), (3, 24), stride=(1, 2, 2), pads=((0, 0), (0, 1), (0, 1))
    ),
    Case("one-channel", (1, 12, 10), (1, 5), kernel=(1, 5, 3), pads=((0, 0), (2, 2), (1, 1))),
    Case("odd-channels", (1, 6, 7), (13, 29)),
    Case("1x1", (1, 5, 9), (24, 50), kernel=(1, 1, 1), pads=NO_PADS),
    # tiles of 14 pixels would leave one alone
    Case("1x1-lone", (1, 1, 197), (20, 37), kernel=(1, 1, 1), pads=NO_PADS, residual=True),
    Case("1x1-batch", (1, 5, 5), (7, 18), kernel=(1, 1, 1), pads=NO_PADS, batch=3, residual=True),
    Case("1x1-stride2", (1, 9, 9), (16, 17), kernel=(1, 1, 1), stride=(1, 2, 2), pads=NO_PADS),
    Case("valid-3x3", (1, 9, 14), (5, 20), pads=NO_PADS),
    Case("dilated", (1, 20, 21), (6, 19), dilation=(1, 3, 4), pads=((0, 0), (3, 3), (4, 4))),
    # some pixels of a row meet one column of the kernel, or none
    Case("dilated-far", (1, 9, 31), (19, 37), dilation=(1, 6, 12), pads=((0, 0), (6, 6), (12, 12))),
    Case(
        "dilated-far-stride-2",
        (1, 9, 31),
        (19, 37),
        kernel=(1, 2, 4),
        stride=(1, 1, 2),
        dilation=(1, 7, 9),
        pads=((0, 0), (3, 4), (20, 7)),
    ),
    Case(
        "dilated-past-all",
        (1, 3, 4),
        (17, 9),
        kernel=(1, 1, 2),
        dilation=(1, 1, 10),
        pads=((0, 0), (0, 0), (5, 5)),
    ),
    # many groups over few rows, which threads share by groups
    Case("groups-few-rows", (1, 7, 7), (100, 200), groups=25, residual=True, epilogue=True),
    Case("groups-few-rows-batch", (1, 3, 5), (48, 24), groups=24, batch=3, slices=(2, 3)),
    # groups whose pixels are copied 32 and 64 bytes at a time; rows that do not divide, by groups
    Case("groups-uneven-rows", (1, 13, 11), (80, 80), groups=10, stride=(1, 2, 2), residual=True),
    Case("groups-of-16", (1, 9, 10), (160, 80), groups=10, epilogue=True),
    # blocks of channels, of which some have a row more than others
    Case("uneven-rows", (1, 11, 9), (6, 150), residual=True, epilogue=True),
    # one long row, which threads share by tiles
    Case(
        "1d-dilated",
        (1, 1, 57),
        (10, 33),
        kernel=(1, 1, 5),
        dilation=(1, 1, 14),
        pads=((0, 0), (0, 0), (28, 30)),
    ),
    # rows in runs that meet the same columns
    Case(
        "dilated-runs-cropped",
        (2, 9, 26),
        (7, 21),
        kernel=(2, 2, 3),
        stride=(1, 2, 2),
        dilation=(1, 3, 9),
        pads=((1, 0), (2, 2), (12, 3)),
        batch=2,
        residual=True,
        epilogue=True,
    ),
    Case(
        "dilated-runs-slices",
        (1, 14, 14),
        (24, 36),
        dilation=(1, 12, 12),
        pads=((0, 0), (12, 12), (12, 12)),
        groups=3,
        slices=(5, 2),
    ),
    Case("dilated-valid", (1, 20, 21), (6, 19), dilation=(1, 2, 3), pads=NO_PADS),
    Case("dilation-only-rows", (1, 20, 21), (6, 19), dilation=(1, 5, 1)),
    Case("groups", (1, 8, 9), (24, 36), groups=3, residual=True),
    Case("groups-1x1", (1, 8, 9), (24, 36), kernel=(1, 1, 1), pads=NO_PADS, groups=4),
    Case("many-groups", (1, 6, 6), (8, 8), groups=8),
    Case("uneven-pads", (1, 7, 8), (4, 16), kernel=(1, 4, 4), pads=((0, 0), (2, 1), (0, 3))),
    Case("pads-beyond-input", (1, 3, 2), (4, 9), kernel=(1, 5, 5), pads=((0, 0), (4, 4), (5, 5))),
    Case(
        "1d",
        (1, 1, 57),
        (10, 33),
        kernel=(1, 1, 7),
        stride=(1, 1, 2),
        pads=((0, 0), (0, 0), (3, 3)),
    ),
    Case("tall", (1, 40, 1), (6, 12), kernel=(1, 3, 1), pads=((0, 0), (1, 1), (0, 0))),
    Case(
        "deep",
        (30, 1, 1),
        (6, 12),
        kernel=(5, 1, 1),
        stride=(2, 1, 1),
        pads=((2, 2), (0, 0), (0, 0)),
        batch=2,
    ),
    Case("tall-dilated", (3, 21, 1), (6, 12), kernel=(1, 3, 1), dilation=(1, 4, 1), pads=NO_PADS),
    Case("3d", (5, 6, 7), (4, 21), kernel=(3, 3, 3), pads=((1, 1), (1, 1), (1, 1))),
    Case(
        "3d-stride-dilation",
        (9, 8, 7),
        (3, 8),
        kernel=(2, 3, 2),
        stride=(2, 1, 2),
        dilation=(3, 1, 2),
        batch=2,
    ),
    Case("batch", (1, 7, 6), (9, 17), batch=3, residual=True, bounds=(-0.5, 0.5)),
    Case("slices", (1, 7, 6), (9, 17), slices=(5, 3), residual=True),
    Case("slices-1x1", (1, 7, 6), (9, 17), kernel=(1, 1, 1), pads=NO_PADS, slices=(2, 30)),
    Case("slices-valid-wide", (1, 7, 9), (9, 17), kernel=(1, 1, 3), pads=NO_PADS, slices=(4, 0)),
    Case("epilogue", (1, 9, 13), (8, 50), epilogue=True, bounds=(0.0, INFINITY)),
    Case("epilogue-groups", (1, 6, 6), (8, 44), groups=2, epilogue=True, batch=2, slices=(0, 4)),
    Case("no-bias", (1, 6, 6), (8, 12), bias=False),
    Case("large-window", (1, 4, 4), (200, 48), kernel=(1, 3, 3)),
]


def tiles_of(case: Case, machine: kb.Machine) -> packing.Tiles:
    layer, channels = case.layer, case.channels[1] // case.groups
    sizes = (layer.row_pixels, channels, layer.row_weights)
    tiles = packing.choose_tiles(*sizes, machine, layer.pixel_step)
    return tiles.without_lone_row(layer.row_pixels) if "lone" in case.name else tiles


def source(machine: kb.Machine) -> str:
    tiles = [tiles_of(case, machine) for case in CASES]
    return "\n".join(
        [
            "#include <math.h>",
            "#include <tvm/runtime/kernels/conv_f32.h>",
            *kb.unique_definitions(tiles),
        ]
        + [function(index, case, tiles[index]) for index, case in enumerate(CASES)]
    )


@pytest.mark.everyday(1)
@pytest.mark.parametrize("build", kb.BUILDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_conv_equals_numpy(case: Case, build: str, build_folder: Path) -> None:
    cc, flags, machine = kb.BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    tiles = tiles_of(case, machine)
    library = kb.build(build_folder, source(machine), flags, cc)

    def pack(w, bias):
        return (
            packing.pack_conv(w, tiles, case.groups),
            None if bias is None else packing.pack_bias(bias, tiles, case.groups),
        )

    check(library, CASES.index(case), case, pack)


def test_widths_that_do_not_cover_a_row_are_an_error(build_folder: Path) -> None:
    case = Case("3x3", (1, 4, 7), (2, 4))
    tiles = packing.Tiles(1, 2, (4, 2))
    lines = ["#include <math.h>", "#include <tvm/runtime/kernels/conv_f32.h>"]
    text = "\n".join([*lines, *map(str, tiles.definitions()), function(0, case, tiles)])
    library = kb.build(build_folder, text, ["-O1"])
    library.last_error_text.restype = kb.ctypes.c_char_p
    x, y = np.zeros((4, 7, 2), np.float32), np.zeros((4, 7, 4), np.float32)
    w = packing.pack_conv(np.zeros((4, 2, 1, 3, 3), np.float32), tiles)
    assert library.run_0(*(kb.pointer(array) for array in (x, w, None, None, y, None))) == -1
    assert b"do not cover a row" in library.last_error_text()
