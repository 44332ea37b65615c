"""Sampling of images at computed coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import CHANNELS_LAST, Step, pixel_stride

from ..c.formatting import call
from ..c.initializers import float_literal, print_layer, triple
from ..c.inputs import input_pointers
from ..c.writer import FunctionWriter, error_location
from ..loops.loop_nest import task_range
from ..lowering import ImageLowering, lowers


class SamplingLowering(ImageLowering):
    """Base class: tasks split the pixels or regions."""

    in_memory = ()

    def stride(self, step: Step, value: Value | None) -> int | None:
        """Return the pixel stride of an input in floats."""
        if value is None:
            return 0
        if value.is_constant:
            return value.shape[1]
        return pixel_stride(step.reads[step.read_values.index(value)].at)

    def finish(self, f: FunctionWriter, called: Sequence[object], extent: int) -> None:
        """Print the call over ``extent``, or over a task's part of it if it is worth threads.
        ``called`` has the function and its first arguments."""
        begin, end = task_range(f, extent, self.macs())
        f.result(call(*called, f.write(), begin, end))


@lowers("grid_sample")
class GridSampleLowering(SamplingLowering):
    """Grid sampling, one output pixel at a time, vectorised over its channels."""

    def macs(self) -> int:
        taps = {"nearest": 1, "linear": 2, "cubic": 4}[self.node.attrs["mode"]]
        return self.node.output.type.size * taps ** (self.node.output.type.rank - 2)

    def emit(self, step: Step, f: FunctionWriter) -> None:
        x, attrs, shape = self.node.inputs[0], self.node.attrs, self.node.output.shape
        outside = {"zeros": "ZERO", "border": "BORDER", "reflection": "REFLECT"}[attrs["padding"]]
        f.include("op/grid_sample.h")
        layer = print_layer(
            f,
            "tvmrt_grid_sample_f32_layer",
            {
                "mode": f"TVMRT_SAMPLE_{attrs['mode'].upper()}",
                "outside": f"TVMRT_OUTSIDE_{outside}",
                "align_corners": int(attrs["align_corners"]),
                "rank": len(shape) - 2,
                "channels": shape[1],
                "in": triple(x.shape[2:], 1),
                "out_pixels": prod(shape[2:]),
                "x_stride": self.stride(step, x),
                "y_stride": pixel_stride(step.writes[0].at),
            },
        )
        pointers = input_pointers(f, "in", "grid")
        called = ("tvmrt_grid_sample_f32", f"&{layer}", *pointers)
        self.finish(f, called, shape[0] * prod(shape[2:]))


@lowers("roi_align", "max_roi_pool")
class RegionLowering(SamplingLowering):
    """Region pooling, one region of the result at a time."""

    def macs(self) -> int:
        return 4 * self.node.output.type.size * max(self.node.attrs.get("ratio", 2), 1) ** 2

    def emit(self, step: Step, f: FunctionWriter) -> None:
        x, attrs = self.node.inputs[0], self.node.attrs
        f.include("op/roi.h")
        layer = print_layer(
            f,
            "tvmrt_roi_f32_layer",
            {
                "images": x.shape[0],
                "channels": x.shape[1],
                "in": tuple(x.shape[2:]),
                "out": tuple(attrs["out"]),
                "x_stride": self.stride(step, x),
                "y_stride": pixel_stride(step.writes[0].at),
                "scale": float_literal(attrs["scale"]),
                "ratio": attrs.get("ratio", 0),
                "largest": int(attrs.get("largest", True)),
                "half_pixel": int(attrs.get("half_pixel", False)),
            },
        )
        names = ("in", "regions", "images")[: len(self.node.inputs)]
        pointers = input_pointers(f, *names)
        operand = "batch_indices" if "images" in names else "rois"
        where = error_location(self.node, operand)
        called = (f"tvmrt_{self.node.op}_f32", f"&{layer}", *pointers, where)
        self.finish(f, called, self.node.output.shape[0])


@lowers("deform_columns")
class DeformColumnsLowering(SamplingLowering):
    """Windows of a deformable convolution, for a subsequent 1x1 convolution."""

    def demand(self, value: Value) -> str:
        return CHANNELS_LAST

    def macs(self) -> int:
        return 4 * self.node.output.type.size

    def emit(self, step: Step, f: FunctionWriter) -> None:
        inputs, attrs, shape = self.node.inputs, self.node.attrs, self.node.output.shape
        x, mask = inputs[0], inputs[2] if len(inputs) > 2 else None
        f.include("op/deform_conv_im2col.h")
        layer = print_layer(
            f,
            "tvmrt_deform_f32_layer",
            {
                "channels": x.shape[1],
                "groups": attrs["groups"],
                "parts": attrs["parts"],
                "in": tuple(x.shape[2:]),
                "out": tuple(shape[2:]),
                "kernel": tuple(attrs["kernel"]),
                "stride": tuple(attrs["strides"]),
                "dilation": tuple(attrs["dilations"]),
                "pad": tuple(attrs["pads_before"]),
                "x_stride": self.stride(step, x),
                "offset_stride": self.stride(step, inputs[1]),
                "mask_stride": self.stride(step, mask),
                "y_stride": pixel_stride(step.writes[0].at),
            },
        )
        pointers = input_pointers(f, "in", "offset", "mask")
        called = ("tvmrt_deform_im2col_f32", f"&{layer}", *pointers)
        self.finish(f, called, shape[0] * prod(shape[2:]))
