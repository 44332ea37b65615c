"""Convolutions in bfloat16 against numpy of the rounded numbers, by all tiles for several
instruction sets."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest
from conv_case import NO_PADS, Case, check, function
from ml_dtypes import bfloat16
from test_conv_f32 import CASES

from tvmrt.codegen.window.layer_f32 import LayerF32
from tvmrt.codegen.window.tile_kinds import AMX, KINDS, PAIRS

packing = kb.packing

AMX_MODEL = ["-include", str(Path(__file__).parent / "amx_model.h")]
BUILDS = {
    "avx2": (
        "gcc", ["-O1", "-mavx2", "-mfma", "-mno-avx512f"], kb.Machine(8, 16), "bf16_wide",
    ),
    # the instruction written out, where a compiler does not know it
    "avx2-pairs": (
        "gcc", ["-O0", "-mavx2", "-mfma", "-mno-avx512f"], kb.Machine(8, 16), "bf16",
    ),
    # that of AArch64, likewise
    "pairs-of-rows": ("gcc", ["-O0"], kb.Machine(4, 32), "bf16_mmla"),
    "plain": ("gcc", ["-O1"], kb.Machine(1, 12, 0), "bf16_wide"),
    # of AMX, by a model of its registers
    "amx": (
        "gcc", ["-O1", "-march=native", "-DTASKS=2", *kb.PARALLEL, *AMX_MODEL],
        kb.Machine(16, 32, 1 << 20), "bf16_amx",
    ),
    "three-tasks": (
        "gcc", ["-O1", "-march=native", "-DTASKS=3", *kb.PARALLEL, *kb.UNDEFINED],
        kb.Machine(16, 32, 4096), "bf16",
    ),
}  # fmt: skip


# those whose rows are read differently: in chunks, through the ring, apart, by groups
NAMES = (
    "3x3-relu6-residual first-layer-stride2 one-channel odd-channels 1x1 1x1-batch 1x1-stride2 "
    "dilated-far dilated-runs-cropped 1d-dilated groups groups-1x1 deep 3d slices-1x1 "
    "epilogue-groups large-window"
).split()


# whose weights take turns in the cache while pixels stay, and whose pixels are not neighbours
MORE = [
    Case("again", (1, 5, 6), (256, 132)),
    Case("pixels-again", (1, 5, 7), (520, 528), (1, 1, 1), pads=NO_PADS),
    Case("picked-pixels", (1, 9, 11), (45, 24), (1, 1, 1), (1, 2, 3), pads=NO_PADS, slices=(3, 0)),
    Case("picked-groups", (1, 6, 13), (24, 36), (1, 1, 1), (1, 3, 2), pads=NO_PADS, groups=3),
]


class Rounded(Case):
    """A case as a layer in bfloat16."""

    kind = PAIRS

    @property
    def layer(self) -> LayerF32:
        return LayerF32.conv_bf16(self.moved, *self.channels, self.groups, self.kind)


def rounded_cases(kind: str) -> list[Rounded]:
    made = type(kind, (Rounded,), {"kind": KINDS[kind]})
    return [made(**vars(case)) for case in [*CASES, *MORE] if case.name in NAMES or case in MORE]


def tiles_of(case: Rounded, machine: kb.Machine) -> packing.Tiles:
    layer = case.layer
    sizes = (layer.row_pixels, layer.out_channels, layer.row_weights)
    return packing.choose_tiles(*sizes, machine, layer.pixel_step, case.kind)


def source(cases: list[Rounded], machine: kb.Machine) -> str:
    tiles = [tiles_of(case, machine) for case in cases]
    calls = [function(i, case, tiles[i], "tvmrt_conv_bf16") for i, case in enumerate(cases)]
    return "\n".join(
        [
            "#include <math.h>",
            *(f"#include <tvm/runtime/kernels/{h}>" for h in ("conv_bf16.h", *tiles[0].headers)),
            *kb.unique_definitions(tiles),
            *calls,
        ]
    )


def rounded(array: np.ndarray) -> np.ndarray:
    """The nearest numbers in bfloat16, by a library."""
    return array.astype(bfloat16).astype(np.float32)


def packed(w, bias, tiles: packing.Tiles, groups: int):
    return (
        packing.pack_conv(packing.as_pairs(w, 1), tiles, groups),
        None if bias is None else packing.pack_bias(bias, tiles, groups),
    )


@pytest.mark.everyday(2)
@pytest.mark.parametrize("build", BUILDS)
def test_conv_equals_numpy_of_rounded_numbers(build: str, build_folder: Path) -> None:
    cc, flags, machine, kind = BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    cases = rounded_cases(kind)
    library = kb.build(build_folder, source(cases, machine), flags, cc)
    for i, case in enumerate(cases):
        pack = partial(packed, tiles=tiles_of(case, machine), groups=case.groups)
        check(library, i, case, pack, rounded=rounded)


@pytest.mark.parametrize(
    ("pixels", "widths"), [(49, (25, 24)), (196, (28,)), (56, (28,)), (3136, (32,)), (7, (7,))]
)
def test_registers_of_amx_are_as_full_in_all_tiles_of_a_row(pixels, widths) -> None:
    machine = kb.Machine(16, 32, 1 << 20)
    assert packing.choose_tiles(pixels, 64, 256, machine, kind=AMX).widths == widths


def test_weights_are_rounded_to_the_nearest_halfway_to_even() -> None:
    special = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-40, 1 + 2**-8, 1 + 3 * 2**-8]
    values = np.array([*special, *np.random.default_rng(2).normal(0, 1e3, 5000)], np.float32)
    right = values.astype(bfloat16).view(np.uint16)
    known = ~np.isnan(values)
    found = packing.round_bf16(values)
    np.testing.assert_array_equal(found[known], right[known])
    assert np.isnan(found.view(bfloat16).astype(np.float32)[~known]).all()
