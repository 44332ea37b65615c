"""Transposed convolution in float32."""

from __future__ import annotations

from math import prod

from tvmrt.ir.program import Step, channels_last_order, pixel_stride

from .. import packing_f32 as packing
from ..epilogue import emit_row_epilogue
from ..lowering import lowers
from ..writer import FunctionWriter
from .conv import SEGMENT_BYTES, ConvolutionLowering
from .initializers import braces, print_struct, print_tiles, triple


@lowers("conv_transpose")
class ConvTransposeLowering(ConvolutionLowering):
    """Each phase of a row is a plain convolution by the register tile."""

    def macs(self) -> int:
        w = self.node.inputs[1]
        return self.node.inputs[0].type.size * prod(w.shape[1:])

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
        bias = f.constant("bias", packing.pack_bias(self.bias(), tiles, groups))
        source = step.read_values.index(x)
        pointer = f.name_read(source, "in")
        residual, residual_stride = self.residual_parts(step, f, epilogue)
        y_stride = pixel_stride(step.writes[0].at)
        order = channels_last_order(len(y.shape))
        row, context = emit_row_epilogue(f, step, epilogue, y_stride, y.shape, order)
        low, high = epilogue.bounds()
        f.include("conv_transpose_f32.h")
        f.kernel_scratch(self._scratch_bytes())
        print_struct(
            f,
            "static const tvmrt_conv_transpose_f32_layer layer",
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
        print_tiles(f, tiles)
        f.line(
            f"return tvmrt_conv_transpose_f32(&layer, &tiles, {pointer}, {packed}, {bias}, "
            f"{residual}, {f.write()}, {row}, {context});"
        )

    def _scratch_bytes(self) -> int:
        """What tvmrt_conv_transpose_f32_scratch_bytes() gives."""
        x, w, attrs = self.node.inputs[0], self.node.inputs[1], self.node.attrs
        kernel, stride = triple(w.shape[2:], 1), triple(attrs["strides"], 1)
        dilation, pad = triple(attrs["dilations"], 1), triple(attrs["pads_before"], 0)
        span = [(k - 1) * d // s + 1 for k, d, s in zip(kernel, dilation, stride)]
        reach = (kernel[2] - 1) * dilation[2] - pad[2]
        last = (triple(self.node.output.shape[2:], 1)[2] - 1 + pad[2]) // stride[2]
        columns = triple(x.shape[2:], 1)[2]
        left = -(-reach // stride[2]) if reach > 0 else 0
        right = max(0, last - columns + 1)
        nbytes = prod(kernel) * SEGMENT_BYTES
        if left or right:
            channels = x.shape[1] // self.node.attrs["groups"]
            nbytes += span[0] * span[1] * (8 + 4 * (left + columns + right) * channels)
        return nbytes
