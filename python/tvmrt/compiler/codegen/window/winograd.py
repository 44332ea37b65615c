"""Winograd convolution: tile sizes, scratch, weights and C text.

``kernels/winograd_f32.h`` describes the computation, ``tvmrt.compiler.transform.winograd`` selects
the convolutions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tvmrt.compiler.ir.program import Step, channels_last_order
from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import SymInt, upper_bound
from tvmrt.compiler.ir.winograd import transformed_weights

from ..c.initializers import print_layer, print_tiles
from ..geometry import FLOAT, Window
from ..lowering import Scratch, lowers
from . import packing_f32 as packing
from .conv import ConvolutionLowering, print_data_f32
from .epilogue import emit_row_epilogue
from .tiles_f32 import Tiles, VectorMachine, choose_tiles

if TYPE_CHECKING:
    from ..c.writer import FunctionWriter

LINE = 16  # floats of a cache line: elements are a line apart to avoid powers of two
SCRATCH_BYTES = 1 << 20  # of a task for inputs, unless tiles are larger


@dataclass(frozen=True)
class WinogradLayer:
    """A layer in Winograd tiles of ``size`` x ``size`` pixels; ``tvmrt_winograd_f32`` in C."""

    window: Window
    size: int
    in_channels: int
    out_channels: int
    tiles: Tiles

    @classmethod
    def of(
        cls, window: Window, size: int, channels: tuple[int, int], machine: VectorMachine
    ) -> WinogradLayer:
        """Return the layer of ``channels``, (in, out), with the machine's best matmul tiles."""
        ins, outs = channels
        down, across = (ceil_div(extent, size) for extent in window.out[1:])
        tiles = choose_tiles(window.batch * down * across, outs, ins, machine)
        return cls(window, size, ins, outs, tiles)

    @property
    def transform_elements(self) -> int:
        return (self.size + 2) ** 2

    @property
    def tile_rows(self) -> int:
        """Winograd tiles in a column of the output."""
        return ceil_div(self.window.out[1], self.size)

    @property
    def tile_columns(self) -> int:
        return ceil_div(self.window.out[2], self.size)

    @property
    def winograd_tiles(self) -> SymInt:
        """Winograd tiles of all images; may be dynamic."""
        return self.window.batch * self.tile_rows * self.tile_columns

    @property
    def tiles_per_pass(self) -> int:
        """Winograd tiles in scratch: whole matmul tiles in equal parts, or all if there are few."""
        width, winograd_tiles = self.tiles.widths[0], max(upper_bound(self.winograd_tiles), 1)
        each = self.transform_elements * self.in_channels * FLOAT
        if winograd_tiles * each <= SCRATCH_BYTES:
            return winograd_tiles
        passes = ceil_div(winograd_tiles, max(1, SCRATCH_BYTES // (each * width)) * width)
        return round_up(ceil_div(winograd_tiles, passes), width)

    @property
    def x_position(self) -> int:
        return round_up(self.tiles_per_pass * self.in_channels, LINE) + LINE

    @property
    def y_position(self) -> int:
        return round_up(self.tiles_per_pass * self.tiles.packed, LINE) + LINE

    @property
    def w_position(self) -> int:
        return round_up(self.out_channels, self.tiles.packed) * self.in_channels

    @property
    def scratch_bytes(self) -> int:
        """Bytes that a task requests from ``tvmrt_scratch_alloc``."""
        return self.transform_elements * (self.x_position + self.y_position) * FLOAT

    @property
    def macs(self) -> SymInt:
        """Multiply-adds of all matmuls."""
        return self.winograd_tiles * self.transform_elements * self.in_channels * self.out_channels

    def pack(self, weights: np.ndarray) -> np.ndarray:
        """Transform and pack [OC, IC, 3, 3] to [element][block][ic][packed], flat."""
        each = transformed_weights(weights, self.size)  # [elements, OC, IC]
        packed = np.empty((len(each), self.w_position), np.float32)
        for target, element in zip(packed, each):
            target[:] = packing.pack_conv(element[:, :, None], self.tiles)
        return packed.reshape(-1)

    def members(self, residual_stride: int, low: str, high: str) -> dict[str, object]:
        """Return the members of the ``tvmrt_winograd_f32``; bounds of the result as C text."""
        return {
            "window": self.window.members(),
            "in_channels": self.in_channels,
            "out_channels": self.out_channels,
            "down": self.tile_rows,
            "across": self.tile_columns,
            "at_once": self.tiles_per_pass,
            "packed": self.tiles.packed,
            "residual_stride": residual_stride,
            "w_position": self.w_position,
            "x_position": self.x_position,
            "y_position": self.y_position,
            "scratch": self.scratch_bytes,
            "lo": low,
            "hi": high,
            "work": self.macs,
        }


@lowers("conv_winograd")
class WinogradLowering(ConvolutionLowering):
    """Winograd convolution with ``winograd_f32.h``."""

    def macs(self) -> SymInt:
        y, size = self.node.output.shape, self.node.attrs["size"]
        winograd_tiles = y[0] * ceil_div(y[2], size) * ceil_div(y[3], size)
        return winograd_tiles * (size + 2) ** 2 * self.node.inputs[0].shape[1] * y[1]

    def window(self, step: Step) -> Window:
        x, y = self.node.inputs[0], self.node.output
        strides, pad = self.pixel_strides(step), (0, *self.node.attrs["pads_before"])
        shapes = (1, *x.shape[2:]), (1, *y.shape[2:])
        return Window(x.shape[0], *shapes, *strides, (1, 3, 3), pad=pad)

    def winograd_layer(self, step: Step) -> WinogradLayer:
        """Return the layer as the kernel sees it."""
        channels = (self.node.inputs[0].shape[1], self.node.output.shape[1])
        return WinogradLayer.of(self.window(step), self.node.attrs["size"], channels, self.target)

    def scratch(self, step: Step) -> Scratch:
        return Scratch(kernel_blocks=(self.winograd_layer(step).scratch_bytes,))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        epilogue, shape = self.epilogue, self.node.output.shape
        layer = self.winograd_layer(step)
        residual, residual_stride = self.residual_parts(step, f, epilogue)
        fields = {
            "x": f.name_read(step.read_values.index(self.node.inputs[0]), "in"),
            "w": f.constant("weights", layer.pack(self.node.inputs[1].data)),
            "bias": f.constant("bias", np.asarray(self.bias(), np.float32)),
            "residual": residual,
            "y": f.write(),
        }
        order = channels_last_order(len(shape))
        row, context = emit_row_epilogue(f, step, epilogue, layer.window.y_stride, shape, order)
        f.include("winograd_f32.h")
        members = layer.members(residual_stride, *epilogue.bounds())
        struct = print_layer(f, "tvmrt_winograd_f32", members)
        tiles = print_tiles(f, layer.tiles)
        print_data_f32(f, {**fields, "epilogue": row, "ctx": context})
        f.result(f"tvmrt_winograd_f32_{layer.size}(&{struct}, &{tiles}, &data)")
