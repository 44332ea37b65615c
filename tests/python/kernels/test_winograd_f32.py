"""Winograd transforms of 3x3 convolutions."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from kernel_build import ROOT

from tvmrt.compiler.ir.winograd import TILE_SIZES, transform_matrices


@pytest.mark.parametrize("size", TILE_SIZES)
def test_transformed_values_give_the_convolution(size: int) -> None:
    inputs, weights, results = transform_matrices(size)
    rng = np.random.default_rng(size)
    x, w = rng.normal(size=size + 2), rng.normal(size=3)
    by_points = results @ ((weights @ w) * (inputs @ x))
    np.testing.assert_allclose(by_points, np.correlate(x, w), rtol=1e-12)


def test_a_new_size_without_its_transforms_does_not_compile(tmp_path) -> None:
    text = (ROOT / "include/tvm/runtime/kernels/winograd_f32.h").read_text()
    sizes = re.search(r"#define TVMRT_WINOGRAD_SIZES\(X\) (.*)", text)
    assert sizes[1].split() == [f"X({size})" for size in TILE_SIZES]
    header = tmp_path / "winograd_f32.h"
    for size, error in ((None, ""), (3, "tvmrt_winograd_in_3"), (6, "tvmrt_winograd_fits_6")):
        more = f"{sizes[0]} X({size})" if size else sizes[0]
        header.write_text(text.replace(sizes[0], more))
        include = f"-I{ROOT}/include"
        kernels = f"{include}/tvm/runtime/kernels"
        command = ["gcc", "-std=c99", "-fsyntax-only", "-Werror", include, kernels, str(header)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == bool(error)
        assert error in done.stderr
