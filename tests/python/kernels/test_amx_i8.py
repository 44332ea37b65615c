"""Layers of bytes by tiles of matrices as a network has them: images that are copied with their
padding, windows that are gathered, weights that vectors read; against numpy, to the bit. The
processor's registers or a model of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from i8_case import (
    FLAGS,
    FORMATS,
    Shape,
    int8_range,
    integer_conv,
    layer,
    random_bytes,
    requantise,
    run_conv,
    usable_formats,
)
from kernel_build import PARALLEL

from tvmrt.codegen.window.layer_i8 import ConvI8
from tvmrt.codegen.window.matrices_i8 import FETCHED_AHEAD, bytes_ahead, looks_ahead, suited

pytestmark = pytest.mark.skipif("amx" not in usable_formats(), reason="no AVX512_VNNI here")
ONE, TWO, NONE = (1, 1), (2, 2), ((0, 0), (0, 0))
THREE = ((3, 3), (3, 3))

# what of a layer differs from the usual, and its shape
CASES = {
    "plane": ("plane", Shape(in_c=64, out_c=48, size=(7, 7))),
    "plane-batch-odd": ("plane", Shape(batch=2, in_c=64, out_c=37, size=(5, 9))),
    "plane-5x3": (
        "plane",
        Shape(in_c=64, out_c=80, size=(6, 8), kernel=(5, 3), pad=((2, 2), (0, 1))),
    ),
    "plane-ahead": ("plane", Shape(in_c=128, out_c=144, size=(6, 7))),
    "flat-stride": (
        "flat",
        Shape(batch=3, in_c=64, out_c=96, size=(7, 9), kernel=ONE, pad=NONE, stride=TWO),
    ),
    "flat-first-layer": (
        "flat",
        Shape(in_c=3, out_c=32, size=(15, 17), kernel=(7, 7), pad=((3, 3), (3, 3)), stride=TWO),
    ),
    "flat-groups": ("flat", Shape(in_c=16, out_c=40, size=(6, 6), groups=2)),
    "flat-dilated": ("flat", Shape(in_c=8, out_c=24, size=(11, 9), dilation=TWO)),
    "flat-deep": ("flat", Shape(in_c=256, out_c=112, size=(5, 9), stride=TWO)),
    "rounded-first-layer": (
        "rounded",
        Shape(in_c=3, out_c=64, size=(21, 45), kernel=(7, 7), pad=((3, 3), (3, 3)), stride=TWO),
    ),
    "rounded-odd": ("rounded", Shape(batch=2, in_c=13, out_c=37, size=(7, 11))),
    "pairs-colours": (
        "pairs",
        Shape(batch=2, in_c=3, out_c=64, size=(21, 45), kernel=(7, 7), pad=THREE, stride=TWO),
    ),
    "pairs-even": (
        "pairs",
        Shape(in_c=2, out_c=37, size=(14, 43), kernel=(4, 6), pad=((1, 2), (0, 1)), stride=TWO),
    ),
    "pairs-unpadded": (
        "pairs",
        Shape(in_c=1, out_c=32, size=(15, 37), kernel=(5, 3), pad=NONE, stride=(2, 1)),
    ),
    "pairs-four": ("pairs", Shape(in_c=4, out_c=16, size=(9, 40), stride=TWO)),
    "ahead": ("", Shape(in_c=512, out_c=300, size=(5, 7), kernel=ONE, pad=NONE)),
    "single-products": ("", Shape(in_c=64, out_c=150, size=(3, 43), kernel=ONE, pad=NONE)),
    "three-vectors": ("", Shape(in_c=40, out_c=144, size=(3, 40), kernel=ONE, pad=NONE)),
    "five-vectors": ("", Shape(in_c=132, out_c=73, size=(2, 7))),
}


def made(name: str, signed: bool, w: np.ndarray, w_zero: int) -> ConvI8:
    """The layer, whose weights lie as vectors read them."""
    kind, shape = CASES[name]
    conv = layer(FORMATS["amx"], shape, signed, 3, widest=FORMATS["vnni512"])
    conv = conv.fit(w, w_zero, has_extra=False)
    kind = kind if w_zero == 0 or kind not in ("rounded", "pairs") else ""  # sums of windows
    kinds = {kind: True, "rounded": kind in ("rounded", "pairs")}
    return replace(conv, **kinds) if kind else conv


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True], ids=["u8", "s8"])
@pytest.mark.parametrize("w_zero", [0, -31], ids=["fit", "shifted"])
@pytest.mark.parametrize("name", CASES)
def test_bytes_are_numpys(tmp_path_factory, name, signed, w_zero):
    shape, rng = CASES[name][1], np.random.default_rng(5)
    x = random_bytes(rng, signed, (shape.batch, *shape.size, shape.in_c))
    w = random_bytes(rng, True, (shape.out_c, shape.in_c // shape.groups, *shape.kernel))
    bias = rng.integers(-5000, 5000, shape.out_c).astype(np.int32)
    sums = integer_conv(x, w, shape, 3, w_zero) + bias
    scale = (rng.uniform(0.5, 1.5, shape.out_c) * 60 / sums.std()).astype(np.float32)
    y = np.zeros(sums.shape, np.uint8)
    conv = made(name, signed, w, w_zero)
    flags = [*FLAGS["amx"], "-DTASKS=2", *PARALLEL]
    folder = tmp_path_factory.getbasetemp()
    run_conv(folder, conv, x, w, w_zero, bias, scale, y, int8_range(9, False), flags=flags)
    np.testing.assert_array_equal(y, requantise(sums, scale, 9, 0, 255))


def test_layers_look_ahead_where_weights_are_many():
    ahead = [name for name in CASES if looks_ahead(made(name, False, _zeros(name), 0))]
    assert ahead == ["plane-ahead", "flat-deep", "ahead"]


def test_weights_of_a_run_are_fetched_no_further_than_they_go():
    """Behind those of a library lie the next layer's."""
    for name in CASES:
        conv = made(name, False, _zeros(name), 0)
        assert bytes_ahead(conv) == FETCHED_AHEAD
        assert bytes_ahead(replace(conv, widest=None)) <= conv.weight_bytes


def _zeros(name: str) -> np.ndarray:
    shape = CASES[name][1]
    return np.zeros((shape.out_c, shape.in_c // shape.groups, *shape.kernel), np.int8)


@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        (Shape(in_c=512, out_c=512, size=(7, 7)), "plane"),
        (Shape(in_c=1024, out_c=2048, size=(14, 14), kernel=ONE, pad=NONE, stride=TWO), "flat"),
        (Shape(in_c=512, out_c=512, size=(14, 14), stride=TWO), "flat"),
        (Shape(in_c=64, out_c=256, size=(56, 56), kernel=ONE, pad=NONE), "matrices"),
        (
            Shape(in_c=3, out_c=64, size=(224, 224), kernel=(7, 7), pad=THREE, stride=TWO),
            "pairs",
        ),
        (Shape(in_c=3, out_c=64, size=(224, 224), kernel=(7, 7), pad=THREE), "rounded"),
        (Shape(in_c=3, out_c=32, size=(224, 224), stride=TWO), "pairs"),
        (Shape(in_c=3, out_c=64, size=(224, 224), pad=NONE, stride=TWO), "pairs"),
        (Shape(in_c=3, out_c=24, size=(224, 224), stride=TWO), "vectors"),
        (Shape(in_c=4, out_c=32, size=(128, 128), stride=TWO), "vectors"),
        (Shape(in_c=2048, out_c=1000, size=ONE, kernel=ONE, pad=NONE), "vectors"),
        (Shape(in_c=128, out_c=8, size=ONE, kernel=ONE, pad=NONE), "vectors"),
        (Shape(in_c=4, out_c=16, size=(30, 30), kernel=ONE, pad=NONE), "vectors"),
    ],
    ids=[
        "few columns",
        "few columns apart",
        "few windows, many weights",
        "many pixels",
        "colours",
        "colours of every row",
        "few columns of colours",
        "colours without padding",
        "half a vector",
        "four channels",
        "one pixel",
        "one vector",
        "few channels",
    ],
)
def test_what_takes_the_fewest_cycles_is_chosen(shape, chosen):
    w = np.zeros((shape.out_c, shape.in_c, *shape.kernel), np.int8)
    found = suited(layer(FORMATS["amx"], shape, False, 0).fit(w), True, True)
    kinds = {
        "plane": found.plane,
        "flat": found.flat,
        "pairs": found.pairs,
        "rounded": found.rounded and not found.pairs,
        "vectors": not found.fmt.matrices,
    }
    assert [kind for kind, is_so in kinds.items() if is_so] == [chosen] * (chosen != "matrices")
