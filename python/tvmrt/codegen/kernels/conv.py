"""Convolution in float32, dense and depthwise."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.ir import Value
from tvmrt.ir.program import CHANNELS_LAST, Access, Step, channels_last_order, pixel_stride

from .. import packing_f32 as packing
from .. import packing_micro_f32 as micro
from ..epilogue import emit_row_epilogue, fits_rows, residual_fits, sort_epilogue
from ..lowering import ANY, ImageLowering, lowers, same_place
from ..micro_shape import MicroShape, flat_shape
from ..writer import FunctionWriter
from .initializers import braces, print_struct, print_tiles, triple


class ChannelsLastLowering(ImageLowering):
    """What convolutions and pooling share: residual, bounds, row epilogue."""

    takes_epilogue = True

    @property
    def epilogue(self):
        return sort_epilogue(self.node.output, self.group.after)

    def accepts_epilogue(self, accesses: dict[Value, Access]) -> bool:
        last = self.group.after[-1].output
        if last.dtype != self.node.output.dtype:
            return False
        epilogue = self.epilogue
        shape = self.node.output.shape
        return residual_fits(epilogue.residual, accesses) and fits_rows(
            epilogue.rest, shape, channels_last_order(len(shape)), accesses
        )

    def demand(self, value: Value) -> str:
        return CHANNELS_LAST if value is self.node.inputs[0] else ANY

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        residual = self.epilogue.residual
        if residual is None or residual is self.node.inputs[0]:
            return []
        i = step.read_values.index(residual)
        same = same_place(step.reads[i].at, step.writes[0].at)
        return [(i, 0)] if same else []

    def residual_parts(self, step: Step, f: FunctionWriter, epilogue) -> tuple[str, int]:
        """Pointer and pixel stride of the residual."""
        if epilogue.residual is None:
            return "NULL", 0
        i = step.read_values.index(epilogue.residual)
        return f.name_read(i, "residual"), pixel_stride(step.reads[i].at)


class ConvolutionLowering(ChannelsLastLowering):
    """Weights and bias are constant."""

    def operands(self) -> list[Value]:
        for value, what in zip(self.node.inputs[1:], ("weights", "bias")):
            if value is not None and not value.is_constant:
                raise ValueError(f"the convolution's {what} are computed at run time")
        return super().operands()

    def bias(self) -> np.ndarray:
        """One number a channel of the result."""
        bias = self.node.inputs[2] if len(self.node.inputs) > 2 else None
        if bias is None:
            return np.zeros(self.node.output.shape[1], np.float32)
        return bias.data


def emit_micro(
    f: FunctionWriter,
    step: Step,
    epilogue,
    small: micro.MicroLayer,
    order,
    operands: dict[str, str],
    residual_stride: int,
) -> None:
    """Print the call of a microcontrollers' kernel.

    ``order``: the result's axes with the channels last; ``operands``: members of the call's
    ``tvmrt_micro_data_f32``.
    """
    y_stride, shape = small.shape.y_stride, step.lowering.node.output.shape
    row, context = emit_row_epilogue(f, step, epilogue, y_stride, shape, order)
    f.include(small.header)
    layer = small.initializer(residual_stride, *epilogue.bounds())
    print_struct(f, "static const tvmrt_micro_conv_f32 layer", layer)
    if small.scratch_bytes:
        f.kernel_scratch(small.scratch_bytes)
    optional = {"residual": operands["residual"], "epilogue": row, "ctx": context}
    fields = {**operands, "y": f.write(), **optional}
    given = {name: text for name, text in fields.items() if text != "NULL"}
    print_struct(f, "const tvmrt_micro_data_f32 data", given)
    f.line(f"return {small.function}(&layer, &data);")


SEGMENT_BYTES = 16  # tvmrt_segment_f32
TAPS_ON_STACK = 9  # TVMRT_CONV_F32_TAPS


@lowers("conv")
class ConvLowering(ConvolutionLowering):
    """Direct convolution by register tiles; depthwise layers have a kernel of their own."""

    def macs(self) -> int:
        w = self.node.inputs[1]
        return self.node.output.type.size * prod(w.shape[1:])

    @property
    def depthwise(self) -> bool:
        w, groups = self.node.inputs[1], self.node.attrs["groups"]
        return w.shape[1] == 1 and groups == w.shape[0] and groups > 1

    def micro(self, step: Step) -> micro.MicroLayer | None:
        """The layer for the kernels of microcontrollers, where those are to be used."""
        x, w, y, attrs = self.node.inputs[0], self.node.inputs[1], self.node.output, self.node.attrs
        if not self.target.micro_f32 or not (self.depthwise or attrs["groups"] == 1):
            return None
        spatial = (x.shape[2:], y.shape[2:], w.shape[2:], attrs["strides"], attrs["dilations"])
        extents = (*(triple(e, 1) for e in spatial), triple(attrs["pads_before"], 0))
        flat = flat_shape(extents)
        if flat is None:
            return None
        at = step.reads[step.read_values.index(x)].at
        strides = (pixel_stride(at), pixel_stride(step.writes[0].at))
        channels = (x.shape[1], y.shape[1], *strides)
        shape = MicroShape(x.shape[0], *flat, *channels, self.depthwise)
        return micro.MicroLayer(shape, shape.in_place) if shape.fits else None

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        pairs, small = super().in_place(step), self.micro(step)
        i = step.read_values.index(self.node.inputs[0])
        if small is not None and small.shape.in_place:
            if same_place(step.reads[i].at, step.writes[0].at):
                pairs.append((i, 0))
        return pairs

    def _emit_micro(self, step: Step, f: FunctionWriter, small: micro.MicroLayer) -> None:
        w = self.node.inputs[1]
        weights = w.data.reshape(*w.shape[:2], *triple(w.shape[2:], 1)[1:])
        residual, residual_stride = self.residual_parts(step, f, self.epilogue)
        shape = self.node.output.shape
        emit_micro(
            f, step, self.epilogue, small, channels_last_order(len(shape)),
            {
                "x": f.name_read(step.read_values.index(self.node.inputs[0]), "in"),
                "weights": f.constant("weights", small.pack(weights)),
                "bias": f.constant("bias", small.pad_channels(self.bias())),
                "residual": residual,
            },
            residual_stride,
        )  # fmt: skip

    def emit(self, step: Step, f: FunctionWriter) -> None:
        small = self.micro(step)
        if small is not None:
            self._emit_micro(step, f, small)
        elif self.depthwise:
            self._emit_depthwise(step, f)
        else:
            self._emit_dense(step, f)

    def _walked(self, values) -> tuple[int, ...]:
        """One number for each spatial axis, idle last axes put first.

        The kernels work on rows of pixels along the last axis; where nothing lies along it, as in
        an image of one column, the rows run along the axis before it.
        """
        x, w, y = self.node.inputs[0], self.node.inputs[1], self.node.output
        used = x.type.rank
        while used > 3 and x.shape[used - 1] == w.shape[used - 1] == y.shape[used - 1] == 1:
            used -= 1
        return (*values[used - 2 :], *values[: used - 2])

    def _weights(self) -> np.ndarray:
        w = self.node.inputs[1]
        return w.data.reshape(*w.shape[:2], *self._walked(w.shape[2:]))

    def _layer(self, step: Step, epilogue, residual_stride: int) -> dict[str, str]:
        x, w, y = self.node.inputs[0], self.node.inputs[1], self.node.output
        attrs = self.node.attrs
        low, high = epilogue.bounds()
        i = step.read_values.index(x)
        return {
            "batch": str(x.shape[0]),
            "in": braces(triple(self._walked(x.shape[2:]), 1)),
            "out": braces(triple(self._walked(y.shape[2:]), 1)),
            "kernel": braces(triple(self._walked(w.shape[2:]), 1)),
            "stride": braces(triple(self._walked(attrs["strides"]), 1)),
            "dilation": braces(triple(self._walked(attrs["dilations"]), 1)),
            "pad": braces(triple(self._walked(attrs["pads_before"]), 0)),
            "x_stride": str(pixel_stride(step.reads[i].at)),
            "y_stride": str(pixel_stride(step.writes[0].at)),
            "residual_stride": str(residual_stride),
            "lo": low,
            "hi": high,
        }

    def _call(self, step, f, kernel, layer_type, extra, tile_type, tile, w, bias) -> None:
        epilogue = self.epilogue
        x = f.name_read(step.read_values.index(self.node.inputs[0]), "in")
        residual, residual_stride = self.residual_parts(step, f, epilogue)
        y_stride = pixel_stride(step.writes[0].at)
        layer = {**extra, **self._layer(step, epilogue, residual_stride)}
        shape = self.node.output.shape
        order = channels_last_order(len(shape))
        row, context = emit_row_epilogue(f, step, epilogue, y_stride, shape, order)
        print_struct(f, f"static const {layer_type} layer", layer)
        print_tiles(f, tile, tile_type)
        f.line(
            f"return {kernel}(&layer, &tiles, {x}, {w}, {bias}, {residual}, {f.write()}, "
            f"{row}, {context});"
        )

    def _emit_dense(self, step: Step, f: FunctionWriter) -> None:
        x, w, y = self.node.inputs[0], self.node.inputs[1], self.node.output
        attrs, groups = self.node.attrs, self.node.attrs["groups"]
        spatial = x.shape[2:], y.shape[2:], w.shape[2:], attrs["strides"], attrs["pads_before"]
        row = packing.conv_row_pixels(x.shape[0], *spatial)
        tiles = packing.choose_tiles(row, w.shape[0] // groups, prod(w.shape[1:]), self.target)
        packed = f.constant("weights", packing.pack_conv(self._weights(), tiles, groups))
        bias = f.constant("bias", packing.pack_bias(self.bias(), tiles, groups))
        f.include("conv_f32.h")
        f.kernel_scratch(self._scratch_bytes())
        extra = {
            "groups": str(groups),
            "in_channels": str(x.shape[1]),
            "out_channels": str(y.shape[1]),
        }
        self._call(
            step,
            f,
            "tvmrt_conv_f32",
            "tvmrt_conv_f32_layer",
            extra,
            "tvmrt_tiles_f32",
            tiles,
            packed,
            bias,
        )

    def _scratch_bytes(self) -> int:
        """What tvmrt_conv_f32_scratch_bytes() gives."""
        x, w, y, attrs = self.node.inputs[0], self.node.inputs[1], self.node.output, self.node.attrs
        kernel = triple(self._walked(w.shape[2:]), 1)
        stride = triple(self._walked(attrs["strides"]), 1)
        dilation = triple(self._walked(attrs["dilations"]), 1)
        span = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
        columns = (triple(self._walked(y.shape[2:]), 1)[2] - 1) * stride[2] + span[2]
        pad = triple(self._walked(attrs["pads_before"]), 0)[2]
        nbytes = prod(kernel) * SEGMENT_BYTES if prod(kernel) > TAPS_ON_STACK else 0
        if pad > 0 or columns > triple(self._walked(x.shape[2:]), 1)[2] + pad:
            nbytes += span[0] * span[1] * (8 + 4 * columns * w.shape[1])
        return nbytes

    def _emit_depthwise(self, step: Step, f: FunctionWriter) -> None:
        w, y = self.node.inputs[1], self.node.output
        attrs = self.node.attrs
        tile = packing.choose_depthwise(
            w.shape[0],
            self._walked(y.shape[2:])[-1],
            self._walked(w.shape[2:])[-1],
            self._walked(attrs["strides"])[-1],
            self._walked(attrs["dilations"])[-1],
            self.target,
        )
        packed = f.constant("weights", packing.pack_depthwise(self._weights(), tile.lanes))
        bias = f.constant("bias", packing.pad_channels(self.bias(), tile.lanes))
        f.include("depthwise_f32.h")
        self._call(
            step,
            f,
            "tvmrt_depthwise_f32",
            "tvmrt_depthwise_f32_layer",
            {"channels": str(w.shape[0])},
            "tvmrt_depthwise_f32_tile",
            tile,
            packed,
            bias,
        )
