"""Winograd transforms of 3x3 convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from tvmrt.compiler.ir.winograd import TILE_SIZES, transform_matrices


@pytest.mark.parametrize("size", TILE_SIZES)
def test_transformed_values_give_the_convolution(size: int) -> None:
    inputs, weights, results = transform_matrices(size)
    rng = np.random.default_rng(size)
    x, w = rng.normal(size=size + 2), rng.normal(size=3)
    by_points = results @ ((weights @ w) * (inputs @ x))
    np.testing.assert_allclose(by_points, np.correlate(x, w), rtol=1e-12)
