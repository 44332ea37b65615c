"""Transposed convolution in float32."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.ir import Value
from tvmrt.ir.program import Step, channels_last_order, pixel_stride

from .. import packing_f32 as packing
from ..epilogue import emit_row_epilogue
from ..lowering import lowers
from ..writer import FunctionWriter
from .conv import ChannelsLastLowering, braces, triple
from .normalization import print_layer


@lowers("conv_transpose")
class ConvTransposeLowering(ChannelsLastLowering):
    """Each phase of a row is a plain convolution by the register tile."""

    def macs(self) -> int:
        w = self.node.inputs[1]
        return self.node.inputs[0].type.size * prod(w.shape[1:])

    def operands(self) -> list[Value]:
        for value, what in zip(self.node.inputs[1:], ("weights", "bias")):
            if value is not None and not value.is_constant:
                raise ValueError(f"the convolution's {what} are computed at run time")
        return super().operands()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        x, w, y = self.node.inputs[0], self.node.inputs[1], self.node.output
        groups, attrs = self.node.attrs["groups"], self.node.attrs
        epilogue = self.epilogue
        tiles = packing.choose_tiles(
            packing.phase_pixels(y.shape[-1], attrs["strides"][-1]),
            w.shape[1],
            w.shape[0] // groups * prod(w.shape[2:]),
            self.target,
        )
        packed = f.constant("weights", packing.pack_conv_transpose(w.data, tiles, groups))
        bias = f.constant("bias", packing.pack_bias(self._bias(), tiles, groups))
        source = step.read_values.index(x)
        pointer = f.name_read(source, "in")
        residual, residual_stride = self.residual_parts(step, f, epilogue)
        y_stride = pixel_stride(step.writes[0].at)
        order = channels_last_order(len(y.shape))
        row, context = emit_row_epilogue(f, step, epilogue, y_stride, y.shape, order)
        low, high = epilogue.bounds()
        f.include("conv_transpose_f32.h")
        print_layer(
            f,
            "tvmrt_conv_transpose_f32_layer",
            {
                "batch": x.shape[0],
                "groups": groups,
                "in_channels": x.shape[1],
                "out_channels": y.shape[1],
                "in": braces(triple(x.shape[2:], 1)),
                "out": braces(triple(y.shape[2:], 1)),
                "kernel": braces(triple(w.shape[2:], 1)),
                "stride": braces(triple(attrs["strides"], 1)),
                "dilation": braces(triple(attrs["dilations"], 1)),
                "pad": braces(triple(attrs["pads_before"], 0)),
                "x_stride": pixel_stride(step.reads[source].at),
                "y_stride": y_stride,
                "residual_stride": residual_stride,
                "lo": low,
                "hi": high,
            },
        )
        f.line(f"static const tvmrt_tiles_f32 tiles = {tiles.initializer()};")
        for line in tiles.definitions():
            f.define(line)
        f.line(
            f"return tvmrt_conv_transpose_f32(&layer, &tiles, {pointer}, {packed}, {bias}, "
            f"{residual}, {f.write()}, {row}, {context});"
        )

    def _bias(self) -> np.ndarray:
        bias = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        channels = self.node.output.shape[1]
        return np.zeros(channels, np.float32) if bias is None else bias.data
