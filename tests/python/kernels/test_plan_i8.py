"""Execution plans of int8 layers: AMX or vector tiles, and the work partition between threads.

Their modules form a line: facts, choice, plan, packed weights, C text.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from i8_case import Shape, layer
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.compiler.codegen.window import choose_i8, quantized
from tvmrt.compiler.codegen.window.choose_i8 import choose_variant, prefetches_weights, with_tile
from tvmrt.compiler.codegen.window.layer_i8 import ConstantsI8, LayerI8, Reading, VariantI8
from tvmrt.compiler.codegen.window.plan_i8 import PREFETCH_BYTES, make_plan
from tvmrt.compiler.codegen.window.tiles_i8 import FORMATS, choose_tile

ONE, TWO, NONE = (1, 1), (2, 2), ((0, 0), (0, 0))
THREE = ((3, 3), (3, 3))

# how AMX tiles read the windows, and the shape of the layer
CASES = {
    "plane": (Reading.PADDED_COPY, Shape(in_c=64, out_c=48, size=(7, 7))),
    "padded-copy-batch-odd": (Reading.PADDED_COPY, Shape(batch=2, in_c=64, out_c=37, size=(5, 9))),
    "plane-5x3": (
        Reading.PADDED_COPY,
        Shape(in_c=64, out_c=80, size=(6, 8), kernel=(5, 3), pad=((2, 2), (0, 1))),
    ),
    "plane-ahead": (Reading.PADDED_COPY, Shape(in_c=128, out_c=144, size=(6, 7))),
    "flat-stride": (
        Reading.IM2COL_ROWS,
        Shape(batch=3, in_c=64, out_c=96, size=(7, 9), kernel=ONE, pad=NONE, stride=TWO),
    ),
    "im2col-first-layer": (
        Reading.IM2COL_ROWS,
        Shape(in_c=3, out_c=32, size=(15, 17), kernel=(7, 7), pad=((3, 3), (3, 3)), stride=TWO),
    ),
    "flat-groups": (Reading.IM2COL_ROWS, Shape(in_c=16, out_c=40, size=(6, 6), groups=2)),
    "flat-dilated": (Reading.IM2COL_ROWS, Shape(in_c=8, out_c=24, size=(11, 9), dilation=TWO)),
    "flat-deep": (Reading.IM2COL_ROWS, Shape(in_c=256, out_c=112, size=(5, 9), stride=TWO)),
    "rounded-first-layer": (
        Reading.PADDED_QUADS,
        Shape(in_c=3, out_c=64, size=(21, 45), kernel=(7, 7), pad=((3, 3), (3, 3)), stride=TWO),
    ),
    "rounded-odd": (Reading.PADDED_QUADS, Shape(batch=2, in_c=13, out_c=37, size=(7, 11))),
    "pairs-colours": (
        Reading.ROW_PAIRS,
        Shape(batch=2, in_c=3, out_c=64, size=(21, 45), kernel=(7, 7), pad=THREE, stride=TWO),
    ),
    "pairs-even": (
        Reading.ROW_PAIRS,
        Shape(in_c=2, out_c=37, size=(14, 43), kernel=(4, 6), pad=((1, 2), (0, 1)), stride=TWO),
    ),
    "pairs-unpadded": (
        Reading.ROW_PAIRS,
        Shape(in_c=1, out_c=32, size=(15, 37), kernel=(5, 3), pad=NONE, stride=(2, 1)),
    ),
    "pairs-four": (Reading.ROW_PAIRS, Shape(in_c=4, out_c=16, size=(9, 40), stride=TWO)),
    "ahead": (Reading.ROWS, Shape(in_c=512, out_c=300, size=(5, 7), kernel=ONE, pad=NONE)),
    "single-products": (
        Reading.ROWS,
        Shape(in_c=64, out_c=150, size=(3, 43), kernel=ONE, pad=NONE),
    ),
    "three-vectors": (Reading.ROWS, Shape(in_c=40, out_c=144, size=(3, 40), kernel=ONE, pad=NONE)),
    "five-vectors": (Reading.ROWS, Shape(in_c=132, out_c=73, size=(2, 7))),
}


def made(name: str) -> VariantI8:
    """Return the layer with weights packed for vectors."""
    reading, shape = CASES[name]
    conv = layer(shape, False, 3)
    conv = replace(conv, window=conv.window.in_longest_rows())
    return VariantI8(conv, FORMATS["amx"], FORMATS["vnni512"], reading)


def test_layers_with_many_weights_prefetch():
    ahead = [name for name in CASES if prefetches_weights(made(name))]
    assert ahead == ["plane-ahead", "flat-deep", "ahead"]


def test_runtime_weights_are_not_prefetched_past_their_end():
    """Only weights in the library are followed by the next layer's."""
    for name in CASES:
        variant = made(name)
        assert make_plan(with_tile(variant)).amx.prefetch_bytes == PREFETCH_BYTES
        packed_by_run = make_plan(with_tile(replace(variant, widest=None)))
        assert packed_by_run.amx.prefetch_bytes <= variant.weight_bytes


@pytest.mark.parametrize(
    ("shape", "chosen"),
    [
        (Shape(in_c=512, out_c=512, size=(7, 7)), Reading.PADDED_COPY),
        (
            Shape(in_c=1024, out_c=2048, size=(14, 14), kernel=ONE, pad=NONE, stride=TWO),
            Reading.IM2COL_ROWS,
        ),
        (Shape(in_c=512, out_c=512, size=(14, 14), stride=TWO), Reading.IM2COL_ROWS),
        (Shape(in_c=64, out_c=256, size=(56, 56), kernel=ONE, pad=NONE), Reading.ROWS),
        (
            Shape(in_c=3, out_c=64, size=(224, 224), kernel=(7, 7), pad=THREE, stride=TWO),
            Reading.ROW_PAIRS,
        ),
        (Shape(in_c=3, out_c=64, size=(224, 224), kernel=(7, 7), pad=THREE), Reading.PADDED_QUADS),
        (Shape(in_c=3, out_c=32, size=(224, 224), stride=TWO), Reading.ROW_PAIRS),
        (Shape(in_c=3, out_c=64, size=(224, 224), pad=NONE, stride=TWO), Reading.ROW_PAIRS),
        (Shape(in_c=3, out_c=24, size=(224, 224), stride=TWO), None),
        (Shape(in_c=4, out_c=32, size=(128, 128), stride=TWO), None),
        (Shape(in_c=2048, out_c=1000, size=ONE, kernel=ONE, pad=NONE), None),
        (Shape(in_c=128, out_c=8, size=ONE, kernel=ONE, pad=NONE), None),
        (Shape(in_c=4, out_c=16, size=(30, 30), kernel=ONE, pad=NONE), None),
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
    """``chosen``: how AMX tiles read the windows; None for vectors."""
    w = np.zeros((shape.out_c, shape.in_c, *shape.kernel), np.int8)
    conv = layer(shape, False, 0)
    conv = replace(conv, window=conv.window.in_longest_rows())
    constants = ConstantsI8(conv, w)
    found = choose_variant(conv, FORMATS["amx"], constants=constants, requantizes=True)
    assert (found.reading if found.fmt.uses_amx else None) is chosen


@pytest.mark.parametrize("pixels", [256, 729, 1089, 3136])
@pytest.mark.parametrize("tasks", [2, 4])
def test_threads_get_equal_parts_of_one_row(pixels, tasks):
    """Partition the chunks as the kernel does; compare the largest part with the mean."""
    variant = VariantI8(LayerI8.matmul(pixels, 96, 64), FORMATS["vnni512"])
    plan = make_plan(with_tile(variant))
    assert not plan.by_blocks
    ends = [min(pixels, plan.chunks * task // tasks * plan.chunk) for task in range(tasks + 1)]
    parts = [end - begin for begin, end in zip(ends, ends[1:])]
    assert sum(parts) == pixels
    assert max(parts) <= 1.1 * pixels / tasks


def test_equal_tiles_prefer_fewer_pixels():
    """4 vectors x 4 pixels take 0.84 of the time of 2 x 8 in a layer of 64 channels."""
    assert choose_tile(FORMATS["vnni512"], 4, 8) == (4, 4)
    assert choose_tile(FORMATS["vnni512"], 2, 8) == (2, 8)


STAGES = ("tiles_i8", "layer_i8", "choose_i8", "plan_i8", "packing_i8", "print_i8", "quantized")


def test_a_layer_passes_through_its_modules_in_one_direction():
    """No module imports a later one, so that none has to be read again."""
    folder = Path(choose_i8.__file__).parent
    for number, stage in enumerate(STAGES):
        tree = ast.parse((folder / f"{stage}.py").read_text())
        imports = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert imports.isdisjoint(STAGES[number:]), stage


def test_printing_a_convolution_plans_and_packs_it_once(monkeypatch):
    """Each ISA level asks each module once, and enters eight files of the package at most."""
    calls: list[str] = []
    names = ("choose_variant", "choose", "make_plan", "pack", "print_plan")
    for name in names:
        function = getattr(quantized, name)

        def counted(*args, function=function, **more):
            calls.append(function.__name__)
            return function(*args, **more)

        monkeypatch.setattr(quantized, name, counted)
    files: set[str] = set()

    def profile(frame, event, _):
        if event == "call":
            files.add(frame.f_code.co_filename)

    emit_tiles = quantized.QConvLowering.emit_tiles

    def profiled(self, step, f):
        sys.setprofile(profile)
        try:
            emit_tiles(self, step, f)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(quantized.QConvLowering, "emit_tiles", profiled)
    w = np.arange(16 * 8 * 9, dtype=np.uint8).reshape(16, 8, 3, 3) % 120
    constants = {"w": w, "s": np.float32(0.1), "z": np.uint8(0)}
    node = helper.make_node("QLinearConv", [*"xszwszsz"], ["y"], pads=[1] * 4)
    network = model([node], {"x": np.zeros((1, 8, 9, 9), np.uint8)}, ["y"], constants)
    tvmrt.compile(network, target="x86-64", levels=["v3", "v4amx"], executor="aot")
    assert Counter(calls) == dict.fromkeys(names, 2)
    package = str(Path(quantized.__file__).parent)
    assert len({file for file in files if file.startswith(package)}) <= 8
