"""Lowering of transposed convolution in float32 or bfloat16."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import numpy as np

from tvmrt.compiler.ir.program import Step, pixel_stride

from ..geometry import Window
from ..kernel_features import BOARD_KERNELS
from ..lowering import lowers
from . import packing_f32 as packing
from .conv import ConvolutionLowering, TiledLayer, tile_kind
from .layer_f32 import LayerF32, joined_pixels
from .tile_kinds import TileKind
from .tiles_f32 import TileSizes, VectorMachine, choose_tiles, min_row_cycles, phase_pixels

MAX_COST = 0.8  # of phases together, as a part of that of one after the other


@lowers("conv_transpose")
class ConvTransposeLowering(ConvolutionLowering):
    """Transposed convolution: each phase of a row is a plain convolution by the micro-kernel."""

    def macs(self) -> int:
        w = self.node.inputs[1]
        return self.node.inputs[0].type.size * prod(w.shape[1:])

    def runtime_packing_order(self) -> packing.PackingOrder | None:
        order = super().runtime_packing_order()
        if order is None:
            return None
        return replace(order, channels=order.inputs, inputs=order.channels, transposed=True)

    def phases(self, step: Step) -> int:
        """Return the phases of a row that are computed together, 1 for one after the other."""
        window, residual = self.window(step), self.epilogue.residual
        # all ISA levels share the weights
        machine = self.target.widest or self.target
        if machine.lanes == 1 or BOARD_KERNELS.of(machine) or self.runtime_packing_order():
            return 1
        pixels = [step.writes[0].at]
        if residual is not None:
            pixels.append(step.reads[step.read_values.index(residual)].at)
        channels = self.node.inputs[1].shape[1]
        if self.node.attrs["groups"] > 1 or any(pixel_stride(at) != channels for at in pixels):
            return 1
        return joined_phases(window, self._layer(window, tile_kind(self.node, machine)), machine)

    def layer(self, step: Step) -> LayerF32:
        return self._layer(self.window(step), self.kind, self.phases(step))

    def _layer(self, window: Window, kind: TileKind, phases: int = 1) -> LayerF32:
        w, groups = self.node.inputs[1], self.node.attrs["groups"]
        sizes = (w.shape[0], w.shape[1] * groups, groups)
        return LayerF32.transposed(window, *sizes, kind, phases)

    def tiled(self, step: Step) -> TiledLayer:
        groups, layer = self.node.attrs["groups"], self.layer(step)
        tiles = choose_tiles(*tile_sizes(layer, self.target))
        pack = partial(
            packing.pack_conv_transpose,
            tiles=tiles,
            groups=groups,
            pairs=bool(self.kind.words_per_pair),
            phases=layer.phases,
        )
        bias = packing.pack_bias(np.tile(self.bias(), layer.phases), tiles, groups)
        return TiledLayer(f"conv_transpose_{self.kind.driver}", layer, tiles, pack, bias)


def tile_sizes(layer: LayerF32, machine: VectorMachine) -> TileSizes:
    """Return the sizes that the tiles of a transposed layer are chosen for."""
    out, stride = layer.window.out[2], layer.window.stride[2]
    rows = (joined_pixels(layer.window),) if layer.phases > 1 else phase_pixels(out, stride)
    return TileSizes(rows, layer.out_channels, layer.weights, machine, 0, layer.kind)


def joined_phases(window: Window, layer: LayerF32, machine: VectorMachine) -> int:
    """Return the stride if the phases of a row take less time together, else 1. Together, they
    leave fewer lanes empty if there are few channels."""
    stride = window.stride[2]
    if stride == 1 or window.kernel[2] % stride or window.dilation[2] > 1 or window.pad[2] < 0:
        return 1
    joined = replace(layer, out_channels=layer.out_channels * stride, phases=stride)
    alone = tile_sizes(layer, machine)._replace(window=joined.weights)
    rows = stride / len(alone.row_pixels)
    is_faster = min_row_cycles(tile_sizes(joined, machine)) < MAX_COST * rows * min_row_cycles(
        alone
    )
    return stride if is_faster else 1
