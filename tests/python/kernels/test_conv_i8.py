"""Convolutions and matrix products of 8-bit tensors against numpy, to the bit."""

from __future__ import annotations

import pytest
from i8_case import TYPES, Shape, check_conv, usable_formats

ONE, TWO = (1, 1), (2, 2)
NONE = ((0, 0), (0, 0))

SHAPES = {
    "3x3": Shape(in_c=16, out_c=32, size=(9, 9)),
    "3x3-odd-channels": Shape(in_c=13, out_c=37, size=(7, 11)),
    "3x3-first-layer": Shape(in_c=3, out_c=32, size=(15, 17), stride=TWO),
    "3x3-no-padding": Shape(in_c=8, out_c=64, size=(9, 8), pad=NONE),
    "3x3-stride-3": Shape(in_c=5, out_c=16, size=(12, 13), stride=(3, 3)),
    "3x3-dilated": Shape(in_c=8, out_c=24, size=(11, 12), dilation=TWO, pad=((2, 2), (2, 2))),
    "3x3-dilated-rows-only": Shape(
        in_c=8, out_c=24, size=(13, 9), dilation=(3, 1), pad=((3, 3), (1, 1))
    ),
    "3x3-dilated-few-channels": Shape(in_c=3, out_c=9, size=(10, 10), dilation=TWO, pad=NONE),
    "1x1": Shape(in_c=24, out_c=48, size=(7, 5), kernel=ONE, pad=NONE),
    "1x1-batch-3": Shape(batch=3, in_c=20, out_c=80, size=(5, 3), kernel=ONE, pad=NONE),
    "1x1-stride-2": Shape(in_c=17, out_c=33, size=(9, 9), kernel=ONE, pad=NONE, stride=TWO),
    "1x1-two-channels": Shape(in_c=2, out_c=16, size=(6, 6), kernel=ONE, pad=NONE),
    "1x1-padded": Shape(in_c=8, out_c=8, size=(4, 4), kernel=ONE, pad=((1, 1), (1, 2))),
    "1x7": Shape(in_c=4, out_c=16, size=(8, 9), kernel=(1, 7), pad=((0, 0), (3, 3))),
    "7x1": Shape(in_c=4, out_c=16, size=(8, 9), kernel=(7, 1), pad=((3, 3), (0, 0))),
    "10x4-mono": Shape(
        in_c=1, out_c=64, size=(49, 10), kernel=(10, 4), stride=TWO, pad=((4, 5), (1, 1))
    ),
    "3x3-mono": Shape(in_c=1, out_c=10, size=(8, 8)),
    "5x5-asymmetric-padding": Shape(
        in_c=6, out_c=20, size=(8, 10), kernel=(5, 5), pad=((0, 3), (4, 1))
    ),
    "3x3-more-padding-than-image": Shape(in_c=4, out_c=4, size=(2, 2), pad=((3, 3), (3, 3))),
    "groups-2": Shape(in_c=16, out_c=40, size=(6, 6), groups=2),
    "groups-3-odd": Shape(in_c=15, out_c=21, size=(6, 7), groups=3, stride=TWO),
    "groups-of-2-channels": Shape(in_c=8, out_c=8, size=(6, 7), groups=4),
    "channel-multiplier": Shape(in_c=4, out_c=12, size=(6, 7), groups=4),
    "batch-2": Shape(batch=2, in_c=8, out_c=16, size=(6, 5)),
    "1-d": Shape(
        in_c=12, out_c=20, size=(31,), kernel=(5,), stride=(2,), dilation=(1,), pad=((2, 2),)
    ),
    "3-d": Shape(
        in_c=5,
        out_c=18,
        size=(4, 5, 6),
        kernel=(3, 3, 3),
        stride=(1, 2, 1),
        dilation=(1, 1, 1),
        pad=((1, 1), (1, 1), (1, 1)),
    ),
    "3-d-dilated": Shape(
        in_c=4,
        out_c=6,
        size=(6, 5, 6),
        kernel=(2, 2, 2),
        stride=(1, 1, 1),
        dilation=(2, 1, 2),
        pad=((1, 1), (1, 1), (1, 1)),
    ),
    "wide": Shape(in_c=64, out_c=200, size=(3, 70)),
}


@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("types", TYPES)
def test_types_give_numpys_bytes(tmp_path_factory, fmt, types):
    check_conv(tmp_path_factory.getbasetemp(), fmt, SHAPES["3x3-odd-channels"], types)


@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_give_numpys_bytes(tmp_path_factory, fmt, name):
    check_conv(tmp_path_factory.getbasetemp(), fmt, SHAPES[name], "u8-u8-u8")


@pytest.mark.parametrize("fmt", usable_formats())
@pytest.mark.parametrize(
    "name", ["3x3-first-layer", "3x3-dilated-few-channels", "groups-2", "1x1", "3x3-mono"]
)
def test_few_large_weights_take_extra_quads(tmp_path_factory, fmt, name):
    check_conv(tmp_path_factory.getbasetemp(), fmt, SHAPES[name], "s8-u8-outliers")
