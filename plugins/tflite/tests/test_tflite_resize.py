"""Test that RESIZE_NEAREST_NEIGHBOR selects the elements that LiteRT's reference kernel selects."""

from __future__ import annotations

import numpy as np
import pytest
from every_tensor import check_every_tensor
from tflite_case import Bytes

pytest.importorskip("ai_edge_litert")

# extents and sizes whose coordinates are halfway between two elements, up to rounding
SIZES = (((2, 2), (83, 107)), ((4, 2), (247, 155)), ((7, 20), (2, 6)), ((56, 21), (8, 7)))


def halves(limit):
    """Return further cases: a float32 quotient just below one half becomes 1 if one half is
    added."""
    below = np.nextafter(np.float32(0.5), np.float32(0))
    for out in range(2, limit):
        step = np.float32(1) / np.float32(out - 1)
        if (np.arange(out, dtype=np.float32) * step == below).any():
            yield out


@pytest.mark.everyday(1)
@pytest.mark.parametrize("option", ["alignCorners", "halfPixelCenters", "plain"])
def test_nearest(option, tmp_path):
    rng = np.random.default_rng(3)
    net, options = Bytes(rng), {} if option == "plain" else {option: True}
    hard = list(halves(300))[:6]
    for (h, w), size in (*SIZES, *(((2, 2), (o, o)) for o in hard)):
        scale = net.scale()
        net.op(
            "RESIZE_NEAREST_NEIGHBOR",
            [net.given(1, h, w, 1, **scale), net.const(np.array(size, np.int32))],
            [net.made(1, *size, 1, **scale)],
            3,
            "ResizeNearestNeighborOptions",
            **options,
        )
    assert len(hard) > 2
    assert len(check_every_tensor(net.data(), tmp_path)) >= len(SIZES) + len(hard)
