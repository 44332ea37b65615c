"""Packing of bfloat16 weights, and the AMX registers that tiles use."""

from __future__ import annotations

import kernel_build as kb
import numpy as np
import pytest
from ml_dtypes import bfloat16

from tvmrt.compiler.codegen.window import packing_f32 as packing
from tvmrt.compiler.codegen.window.tile_kinds import BF16_AMX
from tvmrt.compiler.codegen.window.tiles_f32 import choose_tiles


@pytest.mark.parametrize(
    ("pixels", "widths"), [(49, (25, 24)), (196, (28,)), (56, (28,)), (3136, (32,)), (7, (7,))]
)
def test_amx_tiles_of_a_row_are_equally_full(pixels, widths) -> None:
    machine = kb.Machine(16, 32, 1 << 20)
    assert choose_tiles(pixels, 64, 256, machine, kind=BF16_AMX).widths == widths


def test_weights_are_rounded_to_the_nearest_halfway_to_even() -> None:
    special = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-40, 1 + 2**-8, 1 + 3 * 2**-8]
    values = np.array([*special, *np.random.default_rng(2).normal(0, 1e3, 5000)], np.float32)
    right = values.astype(bfloat16).view(np.uint16)
    known = ~np.isnan(values)
    found = packing.round_bf16(values)
    np.testing.assert_array_equal(found[known], right[known])
    assert np.isnan(found.view(bfloat16).astype(np.float32)[~known]).all()
