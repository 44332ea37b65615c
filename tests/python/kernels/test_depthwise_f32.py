"""The float depthwise convolution against numpy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import kernel_build as kb
import kernel_reference as ref
import numpy as np
import pytest

from tvmrt.codegen.c.text import initializer
from tvmrt.codegen.window.layer_f32 import LayerF32
from tvmrt.codegen.window.plan import Window

packing = kb.packing
INFINITY = float("inf")


@dataclass(frozen=True)
class Case:
    """A depthwise layer; triples are depth, height, width, pads (before, after)."""

    name: str
    size: tuple[int, int, int]
    channels: int
    kernel: tuple[int, int, int] = (1, 3, 3)
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    pads: tuple[tuple[int, int], ...] = ((0, 0), (1, 1), (1, 1))
    batch: int = 1
    bounds: tuple[float, float] = (-INFINITY, INFINITY)
    residual: bool = False
    bias: bool = True
    epilogue: bool = False
    wider: tuple[int, int] = (0, 0)

    @property
    def out(self) -> list[int]:
        return [
            ref.out_size(
                self.size[i], self.kernel[i], self.stride[i], self.dilation[i], self.pads[i]
            )
            for i in range(3)
        ]

    @property
    def layer(self) -> LayerF32:
        strides = (self.channels + self.wider[0], self.channels + self.wider[1])
        before = tuple(pad[0] for pad in self.pads)
        window = Window(
            self.batch, self.size, tuple(self.out), *strides, self.kernel, self.stride,
            self.dilation, before,
        )  # fmt: skip
        return LayerF32.depthwise(window, self.channels)

    def tile(self, machine: kb.Machine) -> packing.DepthwiseTile:
        return packing.choose_depthwise(self.layer.window, self.channels, machine)


NO_PADS = ((0, 0), (0, 0), (0, 0))
CASES = [
    Case("3x3", (1, 9, 11), 32),
    Case("3x3-relu6-residual", (1, 7, 7), 48, bounds=(0.0, 6.0), residual=True),
    Case("3x3-odd-channels", (1, 10, 21), 29, residual=True),
    Case("few-channels", (1, 6, 9), 3),
    Case("stride2", (1, 14, 17), 20, stride=(1, 2, 2)),
    Case("stride2-uneven-pads", (1, 14, 16), 24, stride=(1, 2, 2), pads=((0, 0), (0, 1), (0, 1))),
    Case("valid", (1, 9, 30), 17, pads=NO_PADS),
    Case("5x5", (1, 12, 23), 18, kernel=(1, 5, 5), pads=((0, 0), (2, 2), (2, 2))),
    Case(
        "5x5-stride2",
        (1, 12, 23),
        33,
        kernel=(1, 5, 5),
        stride=(1, 2, 2),
        pads=((0, 0), (2, 2), (1, 2)),
    ),
    Case("7x7", (1, 9, 18), 16, kernel=(1, 7, 7), pads=((0, 0), (3, 3), (3, 3))),
    Case("9x9-any", (1, 11, 14), 21, kernel=(1, 9, 9), pads=((0, 0), (4, 4), (4, 4))),
    Case(
        "dilated", (1, 15, 16), 12, dilation=(1, 2, 3), pads=((0, 0), (2, 2), (3, 3)), residual=True
    ),
    Case("stride3", (1, 15, 16), 12, stride=(1, 3, 3)),
    Case(
        "many-rows",
        (1, 40, 5),
        9,
        kernel=(1, 35, 3),
        pads=((0, 0), (17, 17), (1, 1)),
        bounds=(0.0, 1.0),
        residual=True,
    ),
    Case("1d", (1, 1, 61), 22, kernel=(1, 1, 15), pads=((0, 0), (0, 0), (14, 0))),
    Case("1d-short", (1, 1, 61), 22, kernel=(1, 1, 4), pads=((0, 0), (0, 0), (3, 0))),
    Case(
        "3d",
        (6, 5, 7),
        19,
        kernel=(3, 3, 3),
        pads=((1, 1), (1, 1), (1, 1)),
        stride=(2, 1, 1),
        batch=2,
    ),
    Case("tiny", (1, 2, 1), 40, kernel=(1, 5, 5), pads=((0, 0), (2, 2), (2, 2))),
    Case("wider", (1, 7, 9), 30, wider=(3, 5), bias=False, batch=2),
    Case("epilogue", (1, 7, 9), 30, epilogue=True, bounds=(0.0, INFINITY), wider=(0, 2), batch=2),
]


def function(index: int, case: Case, tile: packing.DepthwiseTile) -> str:
    """C that runs one case: run_<index>(x, w, bias, residual, y, ctx)."""
    arguments = (
        "const float* x, const float* w, const float* b, const float* r, float* y, const float* ctx"
    )
    y_stride = case.channels + case.wider[1]
    members = initializer(case.layer.members(case.channels, *map(kb.c_float, case.bounds)))
    epilogue = f"double_and_add_{index}" if case.epilogue else "NULL"
    define = f"""
static void double_and_add_{index}(float* out, int64_t pixel, int pixels, int channel, int channels,
                                   const void* ctx) {{
  const float* each = (const float*)ctx + pixel * {case.channels} + channel;
  for (int p = 0; p < pixels; p++)
    for (int c = 0; c < channels; c++)
      out[p * {y_stride} + c] = out[p * {y_stride} + c] * 2.0f + each[p * {case.channels} + c];
}}"""
    return f"""{define if case.epilogue else ""}
int run_{index}({arguments});
int run_{index}({arguments}) {{
  static const tvmrt_depthwise_f32_tile tile = {tile.initializer()};
  static const tvmrt_layer_f32 layer = {members};
  const tvmrt_data_f32 data = {{x, w, b, r, y, {epilogue}, ctx}};
  return tvmrt_depthwise_f32(&layer, &tile, &data);
}}
"""


def source(machine: kb.Machine) -> str:
    tiles = [case.tile(machine) for case in CASES]
    head = ["#include <math.h>", "#include <tvm/runtime/kernels/depthwise_f32.h>"]
    functions = [function(index, case, tiles[index]) for index, case in enumerate(CASES)]
    return "\n".join([*head, *kb.unique_definitions(tiles), *functions])


@pytest.mark.slow
@pytest.mark.parametrize("build", kb.BUILDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_depthwise_equals_numpy(case: Case, build: str, build_folder: Path) -> None:
    cc, flags, machine = kb.BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    library = kb.build(build_folder, source(machine), flags, cc)
    tile = case.tile(machine)

    rng = np.random.default_rng(2)
    channels = case.channels
    x = rng.standard_normal((case.batch, *case.size, channels), np.float32)
    w = rng.standard_normal((channels, 1, *case.kernel), np.float32)
    bias = rng.standard_normal(channels, np.float32) * case.bias
    shape = (case.batch, *case.out, channels)
    residual = rng.standard_normal(shape, np.float32) if case.residual else None
    each = rng.standard_normal(shape, np.float32)

    expected = np.broadcast_to(bias.astype(np.float64), shape).copy()
    for tap, window in ref.taps(
        x.astype(np.float64), case.kernel, case.stride, case.dilation, case.pads
    ):
        expected += window * w[(slice(None), 0, *tap)]
    expected = np.clip(expected + (0 if residual is None else residual), *case.bounds)
    if case.epilogue:
        expected = expected * 2 + each

    wide_x = np.full((case.batch, *case.size, channels + case.wider[0]), np.nan, np.float32)
    wide_x[..., :channels] = x
    x_memory, _ = kb.guarded(wide_x, np.nan)
    y_memory, y_whole = kb.guarded(
        np.full((*shape[:-1], channels + case.wider[1]), 7.0, np.float32)
    )
    packed = packing.pack_depthwise(w, tile.lanes)
    packed_bias = packing.pad_channels(bias, tile.lanes) if case.bias else None
    residual_memory = None if residual is None else kb.guarded(residual, np.nan)[0]
    arrays = (x_memory, packed, packed_bias, residual_memory, y_memory, each)
    rc = library[f"run_{CASES.index(case)}"](*(kb.pointer(array) for array in arrays))

    assert rc == 0
    assert kb.guards_intact(y_whole)
    assert (y_memory[..., channels:] == 7.0).all()
    np.testing.assert_allclose(
        y_memory[..., :channels], expected, **ref.tolerance(int(np.prod(case.kernel)))
    )
