"""Execution plans of int8 layers: AMX or vector tiles, and the work partition between threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from i8_case import Shape, layer

from tvmrt.compiler.codegen.window.amx import (
    PREFETCH_BYTES,
    choose_variant,
    prefetch_distance,
    prefetches_weights,
)
from tvmrt.compiler.codegen.window.layer_i8 import ConvI8
from tvmrt.compiler.codegen.window.tiles_i8 import FORMATS, choose_tile

ONE, TWO, NONE = (1, 1), (2, 2), ((0, 0), (0, 0))
THREE = ((3, 3), (3, 3))

# differences from the default layer, and its shape
CASES = {
    "plane": ("padded_copy", Shape(in_c=64, out_c=48, size=(7, 7))),
    "padded-copy-batch-odd": ("padded_copy", Shape(batch=2, in_c=64, out_c=37, size=(5, 9))),
    "plane-5x3": (
        "padded_copy",
        Shape(in_c=64, out_c=80, size=(6, 8), kernel=(5, 3), pad=((2, 2), (0, 1))),
    ),
    "plane-ahead": ("padded_copy", Shape(in_c=128, out_c=144, size=(6, 7))),
    "flat-stride": (
        "im2col_rows",
        Shape(batch=3, in_c=64, out_c=96, size=(7, 9), kernel=ONE, pad=NONE, stride=TWO),
    ),
    "im2col-first-layer": (
        "im2col_rows",
        Shape(in_c=3, out_c=32, size=(15, 17), kernel=(7, 7), pad=((3, 3), (3, 3)), stride=TWO),
    ),
    "flat-groups": ("im2col_rows", Shape(in_c=16, out_c=40, size=(6, 6), groups=2)),
    "flat-dilated": ("im2col_rows", Shape(in_c=8, out_c=24, size=(11, 9), dilation=TWO)),
    "flat-deep": ("im2col_rows", Shape(in_c=256, out_c=112, size=(5, 9), stride=TWO)),
    "rounded-first-layer": (
        "quad_padded",
        Shape(in_c=3, out_c=64, size=(21, 45), kernel=(7, 7), pad=((3, 3), (3, 3)), stride=TWO),
    ),
    "rounded-odd": ("quad_padded", Shape(batch=2, in_c=13, out_c=37, size=(7, 11))),
    "pairs-colours": (
        "row_pairs",
        Shape(batch=2, in_c=3, out_c=64, size=(21, 45), kernel=(7, 7), pad=THREE, stride=TWO),
    ),
    "pairs-even": (
        "row_pairs",
        Shape(in_c=2, out_c=37, size=(14, 43), kernel=(4, 6), pad=((1, 2), (0, 1)), stride=TWO),
    ),
    "pairs-unpadded": (
        "row_pairs",
        Shape(in_c=1, out_c=32, size=(15, 37), kernel=(5, 3), pad=NONE, stride=(2, 1)),
    ),
    "pairs-four": ("row_pairs", Shape(in_c=4, out_c=16, size=(9, 40), stride=TWO)),
    "ahead": ("", Shape(in_c=512, out_c=300, size=(5, 7), kernel=ONE, pad=NONE)),
    "single-products": ("", Shape(in_c=64, out_c=150, size=(3, 43), kernel=ONE, pad=NONE)),
    "three-vectors": ("", Shape(in_c=40, out_c=144, size=(3, 40), kernel=ONE, pad=NONE)),
    "five-vectors": ("", Shape(in_c=132, out_c=73, size=(2, 7))),
}


def made(name: str, signed: bool, w: np.ndarray, w_zero: int) -> ConvI8:
    """Return the layer with weights packed for vectors."""
    kind, shape = CASES[name]
    conv = layer(FORMATS["amx"], shape, signed, 3, widest=FORMATS["vnni512"])
    conv = conv.fit(w, w_zero, allow_overflow_quads=False)
    kind = (
        kind if w_zero == 0 or kind not in ("quad_padded", "row_pairs") else ""
    )  # pooling windows
    kinds = {kind: True, "quad_padded": kind in ("quad_padded", "row_pairs")}
    return replace(conv, **kinds) if kind else conv


def test_layers_with_many_weights_prefetch():
    ahead = [name for name in CASES if prefetches_weights(made(name, False, _zeros(name), 0))]
    assert ahead == ["plane-ahead", "flat-deep", "ahead"]


def test_runtime_weights_are_not_prefetched_past_their_end():
    """Only weights in the library are followed by the next layer's."""
    for name in CASES:
        conv = made(name, False, _zeros(name), 0)
        assert prefetch_distance(conv) == PREFETCH_BYTES
        assert prefetch_distance(replace(conv, widest=None)) <= conv.weight_bytes


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
def test_plan_with_fewest_cycles_is_chosen(shape, chosen):
    w = np.zeros((shape.out_c, shape.in_c, *shape.kernel), np.int8)
    found = choose_variant(layer(FORMATS["amx"], shape, False, 0).fit(w), True, True)
    kinds = {
        "plane": found.padded_copy,
        "flat": found.im2col_rows,
        "pairs": found.row_pairs,
        "rounded": found.quad_padded and not found.row_pairs,
        "vectors": not found.fmt.uses_amx,
    }
    assert [kind for kind, is_so in kinds.items() if is_so] == [chosen] * (chosen != "matrices")


@pytest.mark.parametrize("pixels", [256, 729, 1089, 3136])
@pytest.mark.parametrize("tasks", [2, 4])
def test_threads_get_equal_parts_of_one_row(pixels, tasks):
    """Partition the chunks as the kernel does; compare the largest part with the mean."""
    one = ConvI8.matmul(FORMATS["vnni512"], pixels, 96, 64).fit(np.ones((64, 96), np.int8))
    members = one.members(shifted=False, epilogue=False)
    chunk, chunks = members["chunk"], members["chunks"]
    assert not members["by_blocks"]
    ends = [min(pixels, chunks * task // tasks * chunk) for task in range(tasks + 1)]
    parts = [end - begin for begin, end in zip(ends, ends[1:])]
    assert sum(parts) == pixels
    assert max(parts) <= 1.1 * pixels / tasks


def test_equal_tiles_prefer_fewer_pixels():
    """4 vectors x 4 pixels take 0.84 of the time of 2 x 8 in a layer of 64 channels."""
    assert choose_tile(FORMATS["vnni512"], 4, 8) == (4, 4)
    assert choose_tile(FORMATS["vnni512"], 2, 8) == (2, 8)
