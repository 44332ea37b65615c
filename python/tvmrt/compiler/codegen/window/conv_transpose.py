"""Lowering of transposed convolution in float32 or bfloat16."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from tvmrt.compiler.ir.program import Step

from ..lowering import lowers
from . import packing_f32 as packing
from .conv import ConvolutionLowering, TiledLayer
from .layer_f32 import LayerF32
from .tiles_f32 import choose_tiles, phase_pixels


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

    def layer(self, step: Step) -> LayerF32:
        w, groups = self.node.inputs[1], self.node.attrs["groups"]
        sizes = (w.shape[0], w.shape[1] * groups, groups)
        return LayerF32.transposed(self.window(step), *sizes, self.kind)

    def tiled(self, step: Step) -> TiledLayer:
        groups, layer = self.node.attrs["groups"], self.layer(step)
        rows = phase_pixels(layer.window.out[2], layer.window.stride[2])
        sizes = (rows, layer.out_channels, layer.weights)
        tiles = choose_tiles(*sizes, self.target, kind=self.kind)
        pairs = bool(self.kind.words_per_pair)
        pack = partial(packing.pack_conv_transpose, tiles=tiles, groups=groups, pairs=pairs)
        bias = packing.pack_bias(self.bias(), tiles, groups)
        return TiledLayer(f"conv_transpose_{self.kind.driver}", layer, tiles, pack, bias)
