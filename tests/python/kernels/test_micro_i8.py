"""Selection of the int8 kernel of a microcontroller layer."""

from __future__ import annotations

import re

import numpy as np
import pytest
from i8_case import Shape, layer
from kernel_build import ROOT

from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.codegen.window.boards.float32 import KERNELS as FLOATS
from tvmrt.compiler.codegen.window.boards.int8 import KERNELS
from tvmrt.compiler.codegen.window.boards.layer_i8 import MicroLayerI8, micro_shape

SHAPES = {
    "3x3": Shape(in_c=5, out_c=7),
    "3x3-whole-rows": Shape(in_c=16, out_c=6, size=(9, 9)),
    "rgb-strided": Shape(in_c=3, out_c=9, size=(11, 10), stride=(2, 2)),
    "one-channel-10x4": Shape(
        in_c=1, out_c=34, size=(49, 10), kernel=(10, 4), stride=(2, 2), pad=((4, 5), (1, 1))
    ),
    "dilated": Shape(in_c=8, out_c=3, dilation=(2, 3), pad=((2, 2), (3, 3)), size=(8, 9)),
    "cropped": Shape(in_c=4, out_c=4, pad=((-1, -2), (-1, 0))),
    "two-images": Shape(batch=2, in_c=6, out_c=5, size=(5, 4)),
    "pointwise": Shape(in_c=16, out_c=35, kernel=(1, 1), pad=((0, 0), (0, 0)), size=(5, 3)),
    "pointwise-odd": Shape(in_c=13, out_c=65, kernel=(1, 1), pad=((0, 0), (0, 0)), size=(3, 3)),
    "long-window": Shape(in_c=600, out_c=5, kernel=(1, 1), pad=((0, 0), (0, 0)), size=(1, 3)),
    "one-pixel": Shape(in_c=50, out_c=11, kernel=(1, 1), pad=((0, 0), (0, 0)), size=(1, 1)),
    "depthwise": Shape(in_c=12, out_c=12, groups=12),
    "depthwise-odd": Shape(in_c=38, out_c=38, groups=38, size=(4, 7)),
    "depthwise-strided": Shape(in_c=8, out_c=8, groups=8, size=(9, 8), stride=(2, 2)),
    "depthwise-strided-odd": Shape(in_c=5, out_c=5, groups=5, size=(8, 6), stride=(2, 2),
                                   pad=((0, 1), (2, 1))),
    "depthwise-1d": Shape(in_c=6, out_c=6, groups=6, size=(9, 8), stride=(2, 1)),
    "depthwise-far-padding": Shape(in_c=4, out_c=4, groups=4, size=(2, 2), pad=((4, 5), (5, 4))),
    "depthwise-no-overlap": Shape(in_c=4, out_c=4, groups=4, size=(4, 3), pad=((1, 1), (9, -3))),
    "depthwise-one-pixel": Shape(in_c=4, out_c=4, groups=4, size=(1, 1)),
    "depthwise-5x4": Shape(in_c=6, out_c=6, groups=6, kernel=(5, 4), pad=((2, 2), (1, 2)),
                           dilation=(1, 2), size=(9, 11)),
    "depthwise-5x5": Shape(in_c=10, out_c=10, groups=10, kernel=(5, 5), pad=((2, 2), (2, 2)),
                           size=(6, 9)),
    "depthwise-5x5-strided": Shape(in_c=8, out_c=8, groups=8, kernel=(5, 5), stride=(2, 2),
                                   pad=((1, 2), (1, 2)), size=(9, 13)),
    "depthwise-3x4": Shape(in_c=4, out_c=4, groups=4, kernel=(3, 4), pad=((2, 2), (1, 2)),
                           dilation=(2, 1), size=(8, 6)),
    "depthwise-7x7": Shape(in_c=5, out_c=5, groups=5, kernel=(7, 7),
                           pad=((3, 3), (3, 3)), size=(5, 6)),
    "depthwise-7x7-strided": Shape(batch=2, in_c=12, out_c=12, groups=12, kernel=(7, 7),
                                   stride=(1, 2), pad=((3, 2), (3, 3)), size=(7, 12)),
    "depthwise-8x8": Shape(in_c=9, out_c=9, groups=9, kernel=(8, 8), pad=((3, 4), (4, 3)),
                           size=(9, 7)),
    "depthwise-2x6-cropped": Shape(in_c=4, out_c=4, groups=4, kernel=(2, 6),
                                   pad=((0, 1), (-1, 3)), size=(4, 11)),
    "depthwise-cropped": Shape(in_c=4, out_c=4, groups=4, pad=((-1, 1), (-2, -1)), size=(8, 9)),
    "depthwise-row-of-29": Shape(in_c=12, out_c=12, groups=12, size=(1, 40), kernel=(1, 29),
                                 pad=((0, 0), (14, 14))),
    "depthwise-column-of-9": Shape(in_c=9, out_c=9, groups=9, size=(20, 1), kernel=(9, 1),
                                   pad=((8, 0), (0, 0)), dilation=(1, 1)),
    "depthwise-two-images": Shape(batch=2, in_c=4, out_c=4, groups=4, size=(5, 4)),
}  # fmt: skip


POINT = {"kernel": (1, 1), "pad": ((0, 0), (0, 0))}


def described(shape: Shape, x_signed: bool, x_zero: int, w, *more, scale=None) -> MicroLayerI8:
    conv = layer(shape, x_signed, x_zero)
    return MicroLayerI8(micro_shape(conv, scale), conv, w, *more)


@pytest.mark.parametrize(
    "target", ["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32", "rv32imac_zve32x"]
)
def test_every_layer_has_a_kernel_on_every_board(target):
    for shape in SHAPES.values():
        w = np.full((shape.out_c, shape.in_c // shape.groups, *shape.kernel), 255, np.uint8)
        one = described(shape, False, 0, w)
        kernel = KERNELS.choose(one, get_target(target).board)
        assert kernel.required_features <= get_target(target).board
        assert kernel.supports(one)


def test_only_the_kernel_table_names_a_kernel():
    folder = ROOT / "python" / "tvmrt"
    records = [folder / "compiler/codegen/window/boards" / kind for kind in ("int8", "float32")]
    others = [p for p in folder.rglob("*.py") if p.parent not in records]
    texts = {path: path.read_text(encoding="utf-8") for path in others}
    for kernel in (*KERNELS.values(), *FLOATS.values()):
        names = (kernel.header, f"{kernel.name}_run", f"{kernel.name}_rows")
        assert [p for p, text in texts.items() if any(name in text for name in names)] == []
    picked = re.compile(r"\b(KERNELS|BOARDS)\[")
    assert [path for path, text in texts.items() if picked.search(text)] == []


def test_weights_are_paired_if_sums_cannot_overflow():
    joined = {}
    for n in (508, 520):
        shape = Shape(in_c=n, out_c=4, size=(1, 1), **POINT)
        one = described(shape, True, 0, np.full((4, n, 1, 1), 127, np.int8))
        joined[n] = KERNELS.choose(one, frozenset({"dsp"})) is KERNELS["conv_2ch_dsp"]
    assert joined == {508: True, 520: False}  # 508 * 127 * 128 < 2 ** 23 < 520 * 127 * 128


def test_weights_beyond_16_bits_are_not_paired():
    shape = Shape(in_c=8, out_c=2, size=(1, 1), **POINT)
    w = np.zeros((2, 8, 1, 1), np.int8)
    w[1, 3] = -128
    assert KERNELS["conv_2ch_dsp"].supports(described(shape, True, 0, w))
    w = w.copy()
    w[0, 3] = -1
    assert not KERNELS["conv_2ch_dsp"].supports(described(shape, True, 0, w))
    over_time = Shape(in_c=8, out_c=8, groups=8, size=(1, 30), kernel=(1, 9), pad=((0, 0), (4, 4)))
    w = np.full((8, 1, 1, 9), -127, np.int8)
    w[3, 0, 0, 4] = -128
    assert KERNELS["depthwise_8ch_mve"].supports(described(over_time, True, 0, w))
    w[3, 0, 0, 5] = -128  # 2 * 128 * 128 is above 16 bits
    assert not KERNELS["depthwise_8ch_mve"].supports(described(over_time, True, 0, w))
