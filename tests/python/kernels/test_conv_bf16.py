"""Convolutions in bfloat16 against numpy of the rounded numbers, by all tiles for several
instruction sets."""

from __future__ import annotations

from pathlib import Path

import kernel_build as kb
import kernel_reference as ref
import numpy as np
import pytest
from ml_dtypes import bfloat16
from test_conv_f32 import CASES, Case, function

from tvmrt.codegen.window.layer_f32 import LayerF32

packing = kb.packing

BUILDS = {
    "avx2": (
        "gcc", ["-O1", "-mavx2", "-mfma", "-mno-avx512f"], kb.Machine(8, 16), "bf16_wide",
    ),
    # the instruction written out, where a compiler does not know it
    "avx2-pairs": (
        "gcc", ["-O1", "-mavx2", "-mfma", "-mno-avx512f"], kb.Machine(8, 16), "bf16",
    ),
    "plain": ("gcc", ["-O1"], kb.Machine(1, 12, 0), "bf16_wide"),
    "three-tasks": (
        "gcc", ["-O1", "-march=native", "-DTASKS=3", *kb.PARALLEL, *kb.UNDEFINED],
        kb.Machine(16, 32, 4096), "bf16",
    ),
}  # fmt: skip


# those whose rows are read differently: in chunks, through the ring, apart, by groups
NAMES = (
    "3x3-relu6-residual first-layer-stride2 one-channel odd-channels 1x1 1x1-batch 1x1-stride2 "
    "dilated-far groups groups-1x1 deep 3d slices-1x1 epilogue-groups large-window"
).split()


class Rounded(Case):
    """A case as a layer in bfloat16."""

    kind = "bf16"

    @property
    def layer(self) -> LayerF32:
        window, groups = Case.layer.fget(self).window, self.groups
        return LayerF32.conv_bf16(window, *self.channels, groups, self.kind)


def rounded_cases(kind: str) -> list[Rounded]:
    made = type(kind, (Rounded,), {"kind": kind})
    return [made(**vars(case)) for case in CASES if case.name in NAMES]


def tiles_of(case: Rounded, machine: kb.Machine) -> packing.Tiles:
    layer = case.layer
    sizes = (layer.window.out[2], layer.out_channels, layer.weights)
    return packing.choose_tiles(*sizes, machine, layer.copied_step, case.kind)


def source(cases: list[Rounded], machine: kb.Machine) -> str:
    tiles = [tiles_of(case, machine) for case in cases]
    calls = [function(i, case, tiles[i]) for i, case in enumerate(cases)]
    return "\n".join(
        [
            "#include <math.h>",
            "#include <tvm/runtime/kernels/conv_bf16.h>",
            *kb.unique_definitions(tiles),
            *(call.replace("tvmrt_conv_f32(", "tvmrt_conv_bf16(") for call in calls),
        ]
    )


def rounded(array: np.ndarray) -> np.ndarray:
    """The nearest numbers in bfloat16, by a library."""
    return array.astype(bfloat16).astype(np.float32)


@pytest.mark.parametrize("build", BUILDS)
def test_conv_equals_numpy_of_rounded_numbers(build: str, build_folder: Path) -> None:
    cc, flags, machine, kind = BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    cases = rounded_cases(kind)
    library = kb.build(build_folder, source(cases, machine), flags, cc)
    for i, case in enumerate(cases):
        check(case, tiles_of(case, machine), library[f"run_{i}"])


def check(case: Rounded, tiles: packing.Tiles, run) -> None:
    rng = np.random.default_rng(1)
    ic, oc = case.channels
    x = rng.standard_normal((case.batch, *case.size, ic), np.float32)
    w = rng.standard_normal((oc, ic // case.groups, *case.kernel), np.float32)
    bias = rng.standard_normal(oc, np.float32) if case.bias else np.zeros(oc, np.float32)
    shape = (case.batch, *case.out, oc)
    residual = rng.standard_normal(shape, np.float32) if case.residual else None
    each = rng.standard_normal(shape, np.float32)
    how = (case.stride, case.dilation, case.pads, case.groups)
    expected = ref.conv(rounded(x), rounded(w), bias, *how)
    if residual is not None:
        expected = expected + residual
    expected = np.clip(expected, *case.bounds)
    if case.epilogue:
        expected = expected * 2 + each

    wide_x = np.full((case.batch, *case.size, ic + case.slices[0]), np.nan, np.float32)
    wide_x[..., :ic] = x
    x_memory, _ = kb.guarded(wide_x, np.nan)
    y_memory, y_whole = kb.guarded(np.full((*shape[:-1], oc + case.slices[1]), 7.0, np.float32))
    packed = packing.pack_conv(packing.as_pairs(w, 1), tiles, case.groups)
    packed_bias = packing.pack_bias(bias, tiles, case.groups) if case.bias else None
    residual_memory = None if residual is None else kb.guarded(residual, np.nan)[0]
    arrays = (x_memory, packed, packed_bias, residual_memory, y_memory, each)
    assert run(*map(kb.pointer, arrays)) == 0
    assert kb.guards_intact(y_whole), case.name
    assert (y_memory[..., oc:] == 7.0).all(), case.name
    found, limits = y_memory[..., :oc], ref.tolerance(case.window)
    np.testing.assert_allclose(found, expected, **limits, err_msg=case.name)


def test_weights_are_rounded_to_the_nearest_halfway_to_even() -> None:
    special = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-40, 1 + 2**-8, 1 + 3 * 2**-8]
    values = np.array([*special, *np.random.default_rng(2).normal(0, 1e3, 5000)], np.float32)
    right = values.astype(bfloat16).view(np.uint16)
    known = ~np.isnan(values)
    found = packing.round_bf16(values)
    np.testing.assert_array_equal(found[known], right[known])
    assert np.isnan(found.view(bfloat16).astype(np.float32)[~known]).all()
