"""3x3 convolutions by squares against numpy, built for several instruction sets."""

from __future__ import annotations

from pathlib import Path

import kernel_build as kb
import numpy as np
import pytest
from conv_case import INFINITY, NO_PADS, Case, check, function

from tvmrt.codegen.window.winograd import WinogradLayer
from tvmrt.ir.winograd import SIZES, matrices

CASES = [
    Case("same", (1, 9, 11), (16, 32)),
    Case("relu-of-one-square", (1, 4, 4), (8, 40), bounds=(0.0, INFINITY)),
    Case("relu6-residual", (1, 7, 7), (32, 64), bounds=(0.0, 6.0), residual=True),
    Case("odd-channels", (1, 6, 7), (13, 29)),
    Case("one-channel", (1, 5, 6), (1, 1)),
    Case("valid", (1, 9, 14), (5, 20), pads=NO_PADS),
    Case("one-pixel", (1, 3, 3), (6, 7), pads=NO_PADS),
    Case("uneven-pads", (1, 7, 8), (4, 16), pads=((0, 0), (2, 1), (0, 3))),
    Case("pads-beyond-input", (1, 3, 2), (4, 9), pads=((0, 0), (7, 4), (5, 5))),
    Case("one-row", (1, 1, 40), (4, 9)),
    Case("batch", (1, 7, 6), (9, 17), batch=3, residual=True, bounds=(-0.5, 0.5)),
    Case("slices", (1, 10, 6), (9, 17), slices=(5, 3), residual=True),
    Case("epilogue", (1, 9, 13), (8, 50), epilogue=True, bounds=(0.0, INFINITY)),
    Case("no-bias", (1, 6, 6), (8, 12), bias=False),
    # more squares than scratch has places for
    Case("in-parts", (1, 33, 21), (160, 96), epilogue=True, residual=True),
]
BUILDS = ["native", "avx2", "plain-O2", "sanitised"]


def layer_of(case: Case, size: int, machine: kb.Machine) -> WinogradLayer:
    return WinogradLayer.of(case.moved, size, case.channels, machine)


RUNS = [(case, size) for case in CASES for size in SIZES]


def source(machine: kb.Machine) -> str:
    layers = [layer_of(*run, machine) for run in RUNS]
    text = [
        function(
            index, case, layer.tiles, f"tvmrt_winograd_f32_{size}", "tvmrt_winograd_f32",
            layer.members(*case.ends),
        )
        for index, ((case, size), layer) in enumerate(zip(RUNS, layers))
    ]  # fmt: skip
    head = ["#include <math.h>", "#include <tvm/runtime/kernels/winograd_f32.h>"]
    return "\n".join([*head, *kb.unique_definitions(layer.tiles for layer in layers), *text])


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("case", "size"), RUNS, ids=lambda one: getattr(one, "name", one))
def test_squares_equal_numpy(case: Case, size: int, build: str, build_folder: Path) -> None:
    cc, flags, machine = kb.BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    library = kb.build(build_folder, source(machine), flags, cc)
    layer = layer_of(case, size, machine)

    def pack(w, bias):
        return layer.pack(w[:, :, 0]), bias

    check(library, RUNS.index((case, size)), case, pack, loss=8.0)


def test_a_case_is_cut_into_parts() -> None:
    layers = [layer_of(CASES[-1], size, kb.Machine(16, 32, 1 << 20)) for size in SIZES]
    assert any(layer.at_once < layer.squares for layer in layers)


@pytest.mark.parametrize("size", SIZES)
def test_values_at_points_tell_a_convolution(size: int) -> None:
    inputs, weights, results = matrices(size)
    rng = np.random.default_rng(size)
    x, w = rng.normal(size=size + 2), rng.normal(size=3)
    by_points = results @ ((weights @ w) * (inputs @ x))
    np.testing.assert_allclose(by_points, np.correlate(x, w), rtol=1e-12)
