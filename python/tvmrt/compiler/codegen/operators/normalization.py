"""Normalisation of rows and of channels-last images in float32."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir.program import Step, pixel_stride

from ..c.formatting import call
from ..c.initializers import float_literal, print_layer
from ..c.inputs import input_pointers
from ..c.writer import FunctionWriter
from ..lowering import ImageLowering, Lowering, Scratch, in_place_pair, lowers


class _NormLowering(Lowering):
    """Base class: scale and shift are optional and may be dynamic; in-place is possible."""

    kernel: str
    parameter_names: tuple[str, ...] = ("scale", "shift")

    def members(self, step: Step) -> dict[str, object]:
        """Return the members of the kernel's layer."""
        raise NotImplementedError

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/norm.h")
        layer = print_layer(f, f"{self.kernel}_layer", self.members(step))
        parameter_names = input_pointers(f, *self.parameter_names, first=1)
        f.result(call(self.kernel, f"&{layer}", f.read(0), *parameter_names, f.write()))

    def in_place(self, step: Step) -> list[tuple[int, int]]:
        if not step.read_values or step.read_values[0] is not self.node.inputs[0]:
            return []
        return in_place_pair(step, self.node.inputs[0])


@lowers("layer_norm")
class LayerNormLowering(_NormLowering):
    """Layer norm of dense rows."""

    kernel = "tvmrt_layer_norm_f32"

    def members(self, step: Step) -> dict[str, object]:
        shape, axis = self.node.output.shape, self.node.attrs["axis"]
        width = prod(shape[axis:])
        return {
            "rows": prod(shape[:axis]),
            "n": width,
            "x_stride": width,
            "y_stride": width,
            "epsilon": float_literal(self.node.attrs["epsilon"]),
            "centre": int(self.node.attrs["centre"]),
        }


class _ImageNormLowering(_NormLowering, ImageLowering):
    """Base class for channels-last images."""

    def strides(self, step: Step) -> dict[str, int | None]:
        return {
            "x_stride": pixel_stride(step.reads[0].at),
            "y_stride": pixel_stride(step.writes[0].at),
        }


@lowers("group_norm")
class GroupNormLowering(_ImageNormLowering):
    """Group norm and instance norm."""

    kernel = "tvmrt_group_norm_f32"

    def scratch(self, step: Step) -> Scratch:
        return Scratch(kernel_blocks=(3 * self.node.output.shape[1] * 4,))

    def members(self, step: Step) -> dict[str, object]:
        shape = self.node.output.shape
        return {
            "batch": shape[0],
            "pixels": prod(shape[2:]),
            "channels": shape[1],
            "groups": self.node.attrs["groups"],
            **self.strides(step),
            "epsilon": float_literal(self.node.attrs["epsilon"]),
        }


@lowers("lrn")
class LocalResponseNormLowering(_ImageNormLowering):
    """Local response norm over adjacent channels of a pixel."""

    kernel = "tvmrt_lrn_f32"
    parameter_names = ()

    def scratch(self, step: Step) -> Scratch:
        floats = 2 * self.node.output.shape[1] + self.node.attrs["size"]
        return Scratch(kernel_blocks=(floats * 4,))

    def members(self, step: Step) -> dict[str, object]:
        shape, attrs = self.node.output.shape, self.node.attrs
        return {
            "pixels": shape[0] * prod(shape[2:]),
            "channels": shape[1],
            **self.strides(step),
            "size": attrs["size"],
            "alpha": float_literal(attrs["alpha"]),
            "beta": float_literal(attrs["beta"]),
            "bias": float_literal(attrs["bias"]),
        }
