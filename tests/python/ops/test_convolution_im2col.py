"""Convolutions over images of width one, which exporters write for sequences."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Batch, case

RNG = np.random.default_rng(15)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def column(id, x, w, **attrs):
    return case(id, "Conv", [x, w, f32(w.shape[0])], [1, 2], rtol=1e-4, atol=1e-4, **attrs)


COLUMNS = Batch(
    17,
    [
        column("dense", f32(1, 16, 50, 1), f32(24, 16, 5, 1), pads=[2, 0, 2, 0]),
        column("strided", f32(2, 6, 21, 1), f32(8, 6, 3, 1), strides=[2, 1], dilations=[3, 1]),
        column("depthwise", f32(1, 16, 50, 1), f32(16, 1, 3, 1), pads=[1, 0, 1, 0], group=16),
        column("volume", f32(1, 6, 20, 1, 1), f32(8, 6, 3, 1, 1), strides=[2, 1, 1]),
        column("plane", f32(1, 6, 9, 20, 1), f32(8, 6, 3, 3, 1), strides=[2, 1, 1]),
        column("padded-column", f32(1, 6, 9, 1), f32(8, 6, 3, 3), pads=[1, 1, 1, 1]),
        column("point", f32(2, 6, 1, 1), f32(8, 6, 1, 1)),
    ],
)


@pytest.mark.parametrize("part", [*COLUMNS])
def test_columns(part):
    part.check()
