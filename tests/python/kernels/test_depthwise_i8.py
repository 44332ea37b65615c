"""Depthwise convolutions of 8-bit tensors against numpy, to the bit."""

from __future__ import annotations

import pytest
from i8_case import Batch, Shape, usable_formats

SHAPES = {
    "3x3": Shape(in_c=64, out_c=64, groups=64, size=(9, 10)),
    "3x3-stride-2": Shape(in_c=128, out_c=128, groups=128, size=(9, 11), stride=(2, 2)),
    "3x3-8-channels": Shape(in_c=8, out_c=8, groups=8, size=(6, 7)),
    "3x3-19-channels": Shape(in_c=19, out_c=19, groups=19, size=(6, 7)),
    "3x3-32-channels": Shape(in_c=32, out_c=32, groups=32, size=(5, 5)),
    "3x3-144-channels": Shape(in_c=144, out_c=144, groups=144, size=(5, 8)),
    "3x3-115-channels": Shape(in_c=115, out_c=115, groups=115, size=(5, 8)),
    "3x3-no-padding": Shape(in_c=24, out_c=24, groups=24, size=(8, 8), pad=((0, 0), (0, 0))),
    "3x3-dilated": Shape(
        in_c=40, out_c=40, groups=40, size=(9, 9), dilation=(2, 2), pad=((2, 2), (2, 2))
    ),
    "3x3-dilated-stride-2": Shape(
        in_c=16,
        out_c=16,
        groups=16,
        size=(9, 12),
        dilation=(3, 3),
        stride=(2, 2),
        pad=((3, 3), (3, 3)),
    ),
    "5x5": Shape(in_c=72, out_c=72, groups=72, size=(7, 9), kernel=(5, 5), pad=((2, 2), (2, 2))),
    "7x3": Shape(in_c=20, out_c=20, groups=20, size=(9, 9), kernel=(7, 3), pad=((3, 3), (1, 1))),
    "1x9": Shape(in_c=24, out_c=24, groups=24, size=(3, 20), kernel=(1, 9), pad=((0, 0), (4, 4))),
    "25x5": Shape(in_c=64, out_c=64, groups=64, size=(25, 5), kernel=(25, 5), pad=((0, 0), (0, 0))),
    "batch-2": Shape(batch=2, in_c=16, out_c=16, groups=16, size=(5, 6)),
    "1-d": Shape(
        in_c=30,
        out_c=30,
        groups=30,
        size=(40,),
        kernel=(7,),
        stride=(2,),
        dilation=(1,),
        pad=((3, 3),),
    ),
    "3-d": Shape(
        in_c=18,
        out_c=18,
        groups=18,
        size=(3, 4, 5),
        kernel=(3, 3, 3),
        stride=(1, 1, 1),
        dilation=(1, 1, 1),
        pad=((1, 1), (1, 1), (1, 1)),
    ),
}


BATCH = Batch(SHAPES)


@pytest.mark.everyday(1)
@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("types", ["s8-s8-s8", "u8-u8-u8", "s8-u8-outliers", "u8-u8-far-outliers"])
def test_depthwise_gives_numpys_bytes(tmp_path_factory, fmt, name, types):
    BATCH.check(tmp_path_factory.getbasetemp(), fmt, name, types)
