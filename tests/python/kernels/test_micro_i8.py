"""The integer kernels of microcontrollers, compiled for this machine, against numpy.

All kernels and both ways of rounding are written out in C where an instruction set lacks them, so
they run here too, with every access checked, and on the boards that QEMU plays.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass, replace

import numpy as np
import pytest
from boards import BOARDS, link_image, run_image
from i8_case import (
    FORMATS,
    TYPES,
    Shape,
    exact,
    integer_conv,
    layer,
    pointer,
    random_bytes,
    requantise,
)
from kernel_build import CHECKED, ROOT, build

from tvmrt.codegen.c.text import laid_out
from tvmrt.codegen.target import get_target
from tvmrt.codegen.window.boards.factors import all_fixed, factors
from tvmrt.codegen.window.boards.float32 import KERNELS as FLOATS
from tvmrt.codegen.window.boards.int8 import KERNELS
from tvmrt.codegen.window.boards.kernel import MicroKernel, MicroWeights
from tvmrt.codegen.window.boards.layer_i8 import MicroLayer, shape_of

HEAD = """
#include <stdlib.h>
#include <tvm/runtime/kernels/{header}>
#include <tvm/runtime/kernels/tile/requantize.h>
"""
# scratch from a block that ends where the layer's scratch ends
FUNCTION = """
int {name}(const void* x, const void* w, const int32_t* bias, const float* scale,
           const int32_t* shift, void* y);
int {name}(const void* x, const void* w, const int32_t* bias, const float* scale,
           const int32_t* shift, void* y) {{
  static const tvmrt_micro_conv_i8 layer = {{ {members} }};
  const tvmrt_micro_data data = {{x, w, bias, scale, shift, y, {epilogue}, scale}};
  void* scratch = malloc((size_t)layer.shape.scratch + 16);
  int code;
  if (scratch == NULL) return 1;
  tvmrt_scratch_lend((uint8_t*)scratch, {lent});
  code = {call};
  free(scratch);
  return code;
}}
"""

ENOUGH = "(layer.shape.scratch + 15) / 16 * 16"

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
    "depthwise-one-way": Shape(in_c=6, out_c=6, groups=6, size=(9, 8), stride=(2, 1)),
    "depthwise-far-padding": Shape(in_c=4, out_c=4, groups=4, size=(2, 2), pad=((4, 5), (5, 4))),
    "depthwise-beside-it": Shape(in_c=4, out_c=4, groups=4, size=(4, 3), pad=((1, 1), (9, -3))),
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
    "depthwise-two-images": Shape(batch=2, in_c=4, out_c=4, groups=4, size=(5, 4)),
}  # fmt: skip


POINT = {"kernel": (1, 1), "pad": ((0, 0), (0, 0))}


@dataclass(frozen=True)
class Case:
    """A random layer for a kernel and numpy's answer, [batch, height, width, channels]."""

    kernel: MicroKernel
    layer: MicroLayer
    packed: MicroWeights
    range: tuple[int, int, int, int, bool]
    factors: np.ndarray | None
    x: np.ndarray
    expected: np.ndarray

    @property
    def arrays(self) -> tuple[np.ndarray | None, ...]:
        packed = self.packed
        return packed.weights, packed.bias, self.factors, packed.shift

    def function(self, name: str, epilogue: str = "NULL", lent: str = ENOUGH) -> str:
        """C of the layer's function."""
        fixed = self.factors is not None and self.packed.shift is None and all_fixed(self.factors)
        members = self.layer.members(self.kernel, *self.range, direct=fixed)
        return FUNCTION.format(
            name=name, members=", ".join(f".{n} = {value}" for n, value in members.items()),
            call=self.kernel.call(self.layer, "&layer"), epilogue=epilogue, lent=lent,
        )  # fmt: skip

    def check(self, library, name: str, in_place: bool = False) -> None:
        """Run it from blocks of their own, and compare."""
        x, y = exact(self.x), np.zeros_like(self.expected)
        if in_place:
            assert self.layer.shape.in_place
            y = x.view(y.dtype)
        assert library[name](*map(pointer, (x, *self.arrays, y))) == 0
        np.testing.assert_array_equal(y, self.expected)


def described(shape: Shape, x_signed: bool, x_zero: int, w, *more, scale=None) -> MicroLayer:
    conv = layer(FORMATS["plain"], shape, x_signed, x_zero)
    return MicroLayer(shape_of(conv, scale), conv, w, *more)


def cropped(x: np.ndarray, w: np.ndarray, shape: Shape):
    """(x, w, shape) without what negative padding takes away."""
    ends = [(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(shape.size, shape.pad)]
    (top, bottom), (left, right) = ends
    pad = tuple((max(0, a), max(0, b)) for a, b in shape.pad)
    size = (bottom - top, right - left)
    return x[:, top:bottom, left:right], w, replace(shape, size=size, pad=pad)


def case(shape: Shape, types: str, kernel: MicroKernel, low: int | None = None) -> Case | None:
    """The layer for that kernel, None where it does not support it."""
    x_signed, x_zero, w_signed, w_zero, y_signed, y_zero = TYPES[types]
    rng = np.random.default_rng(zlib.crc32(repr((types, shape)).encode()))
    x = random_bytes(rng, x_signed, (shape.batch, *shape.size, shape.in_c))
    w = random_bytes(rng, w_signed, (shape.out_c, shape.in_c // shape.groups, *shape.kernel))
    if w_signed:
        w = np.maximum(w, -127)  # 16 bits do not hold -128 above a negative one
    if w_zero == "channel":
        w_zero = rng.integers(-3, 4, shape.out_c)
    bias = rng.integers(-5000, 5000, shape.out_c).astype(np.int32)
    acc = integer_conv(*cropped(x, w, shape), x_zero, w_zero) + bias
    scale = rng.uniform(0.5, 1.5, shape.out_c) * 60 / max(1.0, float(acc.std()))
    scale = scale.astype(np.float32)
    least = -128 if y_signed else 0
    low, high = (least, least + 255) if low is None else (low, low + 90)
    expected = requantise(acc, scale, y_zero, low, high).astype(np.int8 if y_signed else np.uint8)
    one = described(shape, x_signed, x_zero, w, w_zero, bias, scale=scale)
    if not kernel.supports(one):
        return None
    numbers = (1, y_zero, low, high, y_signed)
    multipliers = factors(scale, y_zero, low, high)
    return Case(kernel, one, kernel.pack(one), numbers, multipliers, x, expected)


def source(kernel: MicroKernel, functions: list[str], fpu: int | None = None) -> str:
    """C of the layers; ``fpu``: whether it rounds by floats, if not as the processor can."""
    defines = ["#define TVMRT_FREESTANDING 1"]
    if fpu is not None:
        defines.append(f"#define TVMRT_MICRO_HAS_FPU {fpu}")
    return "\n".join([*defines, HEAD.format(header=kernel.header), *functions])


def library(folder, kernel: MicroKernel, functions: list[str], fpu: int = 1):
    return build(folder, source(kernel, functions, fpu), CHECKED)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", list(KERNELS))
def test_bytes_are_those_of_exact_sums(name, tmp_path):
    cases = {}
    for types in ("s8-s8-s8", "u8-s8-u8", "u8-u8-outliers", "u8-u8-far-outliers"):
        fit = [one for shape in SHAPES.values() if (one := case(shape, types, KERNELS[name]))]
        assert fit or "outliers" in types  # of which some fit into no byte
        cases.update({f"run_{len(cases) + i}": one for i, one in enumerate(fit)})
    built = library(tmp_path, KERNELS[name], [c.function(run) for run, c in cases.items()])
    for run, one in cases.items():
        one.check(built, run)


MAIN = """
#include <stdio.h>
int main(void) {{
  int wrong = 0;
{calls}
  return wrong;
}}
"""
CALL = """\
  {{
    static uint8_t y[sizeof({name}_5)];
    const int code = {name}({arguments}, y);
    if (code != 0 || memcmp(y, {name}_5, sizeof(y)) != 0) wrong = 1, puts("{name}");
  }}
"""


def program(cases: dict[str, Case]) -> str:
    """C of a program that runs the layers and prints the names of those whose bytes are wrong."""
    lines, calls = [], []
    for name, one in cases.items():
        arguments = []
        for i, array in enumerate((one.x, *one.arrays, one.expected)):
            arguments.append("NULL" if array is None else f"(const void*){name}_{i}")
            if array is not None:
                data = ", ".join(map(str, array.tobytes()))
                lines.append(f"static const _Alignas(16) uint8_t {name}_{i}[] = {{{data}}};")
        calls.append(CALL.format(name=name, arguments=", ".join(arguments[:-1])))
    return "\n".join([*lines, MAIN.format(calls="".join(calls))])


def runners(kernel: MicroKernel) -> list[str]:
    """The first board that has what the kernel needs, and the one that has all instructions."""
    able = [target for target in BOARDS if kernel.needs <= get_target(target).board]
    return list(dict.fromkeys([able[0], "cortex-m55"]))


@pytest.mark.everyday(3)
@pytest.mark.parametrize(("name", "target"), [(n, t) for n in KERNELS for t in runners(KERNELS[n])])
def test_boards_with_its_instructions_give_the_same_bytes(name, target, tmp_path):
    kernel, board = KERNELS[name], BOARDS[target]
    if board.missing_tool():
        pytest.skip(f"{board.missing_tool()} is not installed")
    types = ("u8-s8-u8", "s8-s8-s8")
    cases = {f"run_{i}": case(s, types[i % 2], kernel) for i, s in enumerate(SHAPES.values())}
    cases = {run: one for run, one in cases.items() if one is not None}
    head = source(kernel, [one.function(run) for run, one in cases.items()])
    (tmp_path / "main.c").write_text(laid_out(head + program(cases)))
    includes = [ROOT / "include"]
    image = link_image(board, [tmp_path / "main.c"], [], tmp_path / "image.elf", includes)
    assert run_image(board, image, tmp_path) == ""


@pytest.mark.parametrize(
    "target", ["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32", "rv32imac_zve32x"]
)
def test_every_layer_has_a_kernel_on_every_board(target):
    for shape in SHAPES.values():
        w = np.full((shape.out_c, shape.in_c // shape.groups, *shape.kernel), 255, np.uint8)
        one = described(shape, False, 0, w)
        kernel = KERNELS.choose(one, get_target(target).board)
        assert kernel.needs <= get_target(target).board
        assert kernel.supports(one)


def test_nothing_but_its_record_knows_a_kernel_by_its_name():
    folder = ROOT / "python" / "tvmrt"
    records = [folder / "codegen/window/boards" / kind for kind in ("int8", "float32")]
    others = [p for p in folder.rglob("*.py") if p.parent not in records]
    texts = {path: path.read_text(encoding="utf-8") for path in others}
    for kernel in (*KERNELS.values(), *FLOATS.values()):
        names = (kernel.header, f"{kernel.name}_run", f"{kernel.name}_rows")
        assert [p for p, text in texts.items() if any(name in text for name in names)] == []
    picked = re.compile(r"\b(KERNELS|BOARDS)\[")
    assert [path for path, text in texts.items() if picked.search(text)] == []


def test_weights_are_joined_where_no_input_makes_a_sum_too_large():
    joined = {}
    for n in (508, 520):
        shape = Shape(in_c=n, out_c=4, size=(1, 1), **POINT)
        one = described(shape, True, 0, np.full((4, n, 1, 1), 127, np.int8))
        joined[n] = KERNELS.choose(one, frozenset({"dsp"})) is KERNELS["conv_joint"]
    assert joined == {508: True, 520: False}  # 508 * 127 * 128 < 2 ** 23 < 520 * 127 * 128


def test_two_pixels_in_a_number_stay_apart_at_the_limits_of_16_bits(tmp_path):
    """Of every four weights, the largest and the smallest sums there can be, next to the limits."""
    kernel, channels, blocks = KERNELS["conv_twin"], 40, 36
    rng = np.random.default_rng(13)
    w = rng.integers(-95, 96, (channels, 4 * blocks, 1, 1)).astype(np.int8)
    limits = [
        [-128, -128, 0, 0], [-128, -128, -1, 0], [127, 127, 4, 0], [127, 127, 2, -1],
        [-127, 0, -127, 0], [0, 127, 0, -128], [-64, -64, -64, -64], [64, 64, 64, 63],
    ]  # fmt: skip
    w[: len(limits), :4, 0, 0] = limits
    x = np.where(w[:, :, 0, 0] < 0, -128, 127).astype(np.int8)
    x = np.stack([x, -1 - x, rng.permutation(x), x[:, ::-1]], axis=1)  # pairs, and both ways
    shape = Shape(in_c=4 * blocks, out_c=channels, size=(channels, 4), **POINT)
    one = described(shape, True, 0, w)
    packed = kernel.pack(one)
    quads = packed.weights.reshape(channels // 4, -1)
    flags = np.unpackbits(quads[:, :4].copy().view("<u4").astype(">u4").view(np.uint8))
    assert 0.1 < flags.mean() < 0.9
    sums = integer_conv(x[None], w, shape, 0, 0).astype(np.int32)
    run = Case(kernel, one, packed, (4, 0, 0, 0, True), None, x[None], sums)
    run.check(library(tmp_path, kernel, [run.function("run", "tvmrt_i8_rows_int32")]), "run")


def test_weights_that_16_bits_do_not_hold_are_not_joined():
    shape = Shape(in_c=8, out_c=2, size=(1, 1), **POINT)
    w = np.zeros((2, 8, 1, 1), np.int8)
    w[1, 3] = -128
    assert KERNELS["conv_joint"].supports(described(shape, True, 0, w))
    w = w.copy()
    w[0, 3] = -1
    assert not KERNELS["conv_joint"].supports(described(shape, True, 0, w))


def test_rounding_by_integers_is_that_of_a_float_unit(tmp_path):
    shape = Shape(in_c=24, out_c=40, size=(17, 12), **POINT)
    cases = {f"run_{i}": case(shape, types, KERNELS["conv"]) for i, types in enumerate(TYPES)}
    built = library(
        tmp_path, KERNELS["conv"], [c.function(name) for name, c in cases.items()], fpu=0
    )
    for name, one in cases.items():
        one.check(built, name)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", list(KERNELS))
def test_the_result_may_lie_in_the_inputs_place(name, tmp_path):
    pointwise = Shape(in_c=11, out_c=11, size=(5, 3), **POINT)
    shapes = (pointwise, *(SHAPES[f"depthwise-{each}"] for each in ("odd", "5x5", "7x7")))
    fit = [one for shape in shapes if (one := case(shape, "s8-s8-s8", KERNELS[name]))]
    cases = {f"run_{i}": one for i, one in enumerate(fit)}
    built = library(tmp_path, KERNELS[name], [one.function(run) for run, one in cases.items()])
    assert cases
    for run, one in cases.items():
        one.check(built, run, in_place=True)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("fpu", [0, 1])
@pytest.mark.parametrize("name", list(KERNELS))
def test_bounds_narrower_than_the_type(name, fpu, tmp_path):
    shapes = ("3x3", "depthwise", "depthwise-5x5", "depthwise-7x7")
    cases = [case(SHAPES[s], "u8-s8-u8", KERNELS[name], low=40) for s in shapes]
    one = next(c for c in cases if c is not None)
    one.check(library(tmp_path, one.kernel, [one.function("run")], fpu), "run")


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", list(KERNELS))
def test_an_epilogue_gets_the_exact_sums(name, tmp_path):
    rng, kernel, cases = np.random.default_rng(7), KERNELS[name], {}
    for shape in map(SHAPES.get, ("3x3", "depthwise-odd", "depthwise-5x5", "depthwise-7x7")):
        x = random_bytes(rng, True, (1, *shape.size, shape.in_c))
        w = random_bytes(rng, True, (shape.out_c, shape.in_c // shape.groups, *shape.kernel))
        one = described(shape, True, 3, np.maximum(w, -127))
        if kernel.supports(one):
            sums = integer_conv(x, one.w, shape, 3, 0).astype(np.int32)
            numbers = (4, 0, 0, 0, True)
            run = Case(kernel, one, kernel.pack(one), numbers, None, x, sums)
            cases[f"run_{len(cases)}"] = run
    functions = [one.function(run, "tvmrt_i8_rows_int32") for run, one in cases.items()]
    built = library(tmp_path, kernel, functions)
    assert cases
    for run, one in cases.items():
        one.check(built, run)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", list(KERNELS))
def test_too_little_scratch_is_an_error(name, tmp_path):
    cases = (case(shape, "s8-s8-s8", KERNELS[name]) for shape in SHAPES.values())
    one = next(c for c in cases if c is not None and c.kernel.scratch(c.layer).bytes > 16)
    built = library(tmp_path, one.kernel, [one.function("run", lent="16")])
    y = np.zeros_like(one.expected)
    assert built.run(*map(pointer, (one.x, *one.arrays, y))) == -1
    assert not y.any()
