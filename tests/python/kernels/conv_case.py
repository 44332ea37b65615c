"""A float convolution as a test case: its shape, the C that runs it, the comparison with numpy."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field

import kernel_build as kb
import kernel_reference as ref
import numpy as np

from tvmrt.codegen.c.text import initializer
from tvmrt.codegen.window.layer_f32 import LayerF32
from tvmrt.codegen.window.plan import Window

INFINITY = float("inf")
NO_PADS = ((0, 0), (0, 0), (0, 0))


@dataclass(frozen=True)
class Case:
    """A convolution; triples are depth, height, width, pads (before, after)."""

    name: str
    size: tuple[int, int, int]
    channels: tuple[int, int]
    kernel: tuple[int, int, int] = (1, 3, 3)
    stride: tuple[int, int, int] = (1, 1, 1)
    dilation: tuple[int, int, int] = (1, 1, 1)
    pads: tuple[tuple[int, int], ...] = ((0, 0), (1, 1), (1, 1))
    batch: int = 1
    groups: int = 1
    bounds: tuple[float, float] = (-INFINITY, INFINITY)
    residual: bool = False
    bias: bool = True
    epilogue: bool = False
    slices: tuple[int, int] = field(
        default=(0, 0)
    )  # how much wider than needed pixels of x and y are

    @property
    def out(self) -> list[int]:
        return [
            ref.out_size(
                self.size[i], self.kernel[i], self.stride[i], self.dilation[i], self.pads[i]
            )
            for i in range(3)
        ]

    @property
    def window(self) -> int:
        return int(np.prod(self.kernel)) * self.channels[0] // self.groups

    @property
    def moved(self) -> Window:
        strides = (self.channels[0] + self.slices[0], self.channels[1] + self.slices[1])
        before = tuple(pad[0] for pad in self.pads)
        return Window(
            self.batch, self.size, tuple(self.out), *strides, self.kernel, self.stride,
            self.dilation, before,
        )  # fmt: skip

    @property
    def layer(self) -> LayerF32:
        return LayerF32.conv(self.moved, *self.channels, self.groups)

    @property
    def ends(self) -> tuple[int, str, str]:
        """The residual's pixel stride and the bounds, for a layer's members."""
        low, high = map(kb.c_float, self.bounds)
        return self.channels[1], low, high


def function(
    index: int,
    case: Case,
    tiles: kb.packing.Tiles,
    kernel: str = "tvmrt_conv_f32",
    struct: str = "tvmrt_layer_f32",
    fields: Mapping[str, object] | None = None,
) -> str:
    """C that runs one case: run_<index>(x, w, bias, residual, y, ctx), ``fields`` in the struct."""
    lines = []
    epilogue = "NULL"
    y_stride = case.channels[1] + case.slices[1]
    if case.epilogue:
        epilogue = f"double_and_add_{index}"
        lines.append(f"""
static void double_and_add_{index}(float* out, int64_t pixel, int pixels, int channel,
    int channels, const void* ctx) {{
  const float* each = (const float*)ctx;
  for (int p = 0; p < pixels; p++)
    for (int c = 0; c < channels; c++)
      out[p * {y_stride} + c] = out[p * {y_stride} + c] * 2.0f +
                                each[(pixel + p) * {case.channels[1]} + channel + c];
}}""")
    members = initializer(fields or case.layer.members(*case.ends))
    lines.append(f"""
int run_{index}(const float* x, const float* w, const float* bias, const float* residual,
    float* y, const float* ctx);
int run_{index}(const float* x, const float* w, const float* bias, const float* residual,
    float* y, const float* ctx) {{
  static const tvmrt_tiles_f32 tiles = {tiles.initializer()};
  static const {struct} layer = {members};
  const tvmrt_data_f32 data = {{x, w, bias, residual, y, {epilogue}, ctx}};
  return {kernel}(&layer, &tiles, &data);
}}
""")
    return "\n".join(lines)


def check(
    library: ctypes.CDLL,
    index: int,
    case: Case,
    pack,
    loss: float = 1.0,
    rounded=lambda array: array,
) -> None:
    """Run the case and compare with numpy; ``pack`` makes of weights and bias what the kernel
    reads. Results may be off by ``loss`` times what sums in any order of products of ``rounded``
    numbers are."""
    rng = np.random.default_rng(1)
    ic, oc = case.channels
    x = rng.standard_normal((case.batch, *case.size, ic), np.float32)
    w = rng.standard_normal((oc, ic // case.groups, *case.kernel), np.float32)
    bias = rng.standard_normal(oc, np.float32) if case.bias else np.zeros(oc, np.float32)
    shape = (case.batch, *case.out, oc)
    residual = rng.standard_normal(shape, np.float32) if case.residual else None
    each = rng.standard_normal(shape, np.float32)

    how = (case.stride, case.dilation, case.pads, case.groups)
    expected = ref.conv(rounded(x), rounded(w), bias, *how)
    if residual is not None:
        expected = expected + residual
    expected = np.clip(expected, *case.bounds)
    if case.epilogue:
        expected = expected * 2 + each

    wide_x = np.full((case.batch, *case.size, ic + case.slices[0]), np.nan, np.float32)
    wide_x[..., :ic] = x
    x_memory, _ = kb.guarded(wide_x, np.nan)
    y_memory, y_whole = kb.guarded(np.full((*shape[:-1], oc + case.slices[1]), 7.0, np.float32))
    residual_memory = None if residual is None else kb.guarded(residual, np.nan)[0]
    weights, offsets = pack(w, bias if case.bias else None)
    arrays = (x_memory, weights, offsets, residual_memory, y_memory, each)
    assert library[f"run_{index}"](*map(kb.pointer, arrays)) == 0
    assert kb.guards_intact(y_whole), case.name
    assert (y_memory[..., oc:] == 7.0).all(), case.name
    bounds = ref.tolerance(case.window)
    bounds["atol"] *= loss
    np.testing.assert_allclose(y_memory[..., :oc], expected, **bounds, err_msg=case.name)
