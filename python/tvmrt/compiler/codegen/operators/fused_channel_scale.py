"""Channel scaling and the following 1x1 convolution as one step on hosts.

Squeeze-and-excitation blocks end with these. A task scales the pixels that its tiles read next into
its own memory. The scaled image never passes through the arena or to another processor's cache.

Results are bit-exact for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmrt.compiler.ir.program import Group, Step, pixel_stride
from tvmrt.compiler.ir.sizes import symbols_of

from ..c.formatting import braces
from ..c.initializers import print_layer
from ..c.writer import FunctionWriter
from ..geometry import FLOAT, DepthFirstLayer, Window
from ..lowering_protocols import DepthFirstFusable
from ..target import Target
from ..window.conv import print_data_f32
from .depth_first_chain import DepthFirstLowering

MIN_TILES = 2  # minimum micro-tiles per step: weights pass through the cache once per step
MAX_TILE_BYTES = 16 << 10  # of scaled pixels, which leaves space in the L1 cache for other data
MAX_TILES = 32  # maximum micro-tiles per step; more save nothing


class ChannelScaleLowering(DepthFirstFusable):
    """Scaling of an image by a factor per channel, as a layer of a depth-first chain. ``image``:
    index of the image operand."""

    def __init__(self, group: Group, target: Target, image: int) -> None:
        super().__init__(group, target)
        self.image = image

    def row_operand(self, step: Step) -> int:
        return self.image

    def depth_first_layer(self, step: Step) -> DepthFirstLayer:
        row = (1, 1, prod(step.writes[0].shape[2:]))
        strides = [pixel_stride(a.at) for a in (step.reads[self.image], step.writes[0])]
        return DepthFirstLayer(Window(1, row, row, *strides), step.writes[0].shape[1] * FLOAT)

    def depth_first_width(self, step: Step) -> int:
        return 1

    def print_depth_first(self, step: Step, f: FunctionWriter, x, residual, y) -> Sequence[str]:
        """Print the layer; the factors replace the residual operand."""
        layer, kernel, data = (f.fresh(name) for name in ("pixels", "multiplied", "image"))
        f.include("depth_first_scale_f32.h")
        window, channels = self.depth_first_layer(step).window, step.writes[0].shape[1]
        work = window.pixels * channels
        sizes = {"window": window.members(), "groups": 1, "out_channels": channels, "work": work}
        layer = print_layer(f, "tvmrt_layer_f32", sizes, layer)
        members = braces(["NULL", "tvmrt_scale_f32_rows"])
        f.line(f"const tvmrt_depth_first_kernel_f32 {kernel} = {members};")
        print_data_f32(f, {"x": x, "w": residual[0], "y": y}, data)
        return [f"&{layer}", "NULL", "NULL", f"&{kernel}", f"&{data}"]


class ScaledConvLowering(DepthFirstLowering):
    """Depth-first chain of channel scaling and a 1x1 convolution."""

    tile_sizes = range(MIN_TILES, MAX_TILES + 1)  # in micro-tiles
    max_bytes = MAX_TILE_BYTES

    def _residual(self, step: Step, f: FunctionWriter, k: int) -> tuple[str, int]:
        if k > 0:
            return super()._residual(step, f, k)
        first = self.steps[0]
        scale = first.reads[1 - first.lowering.image]
        return f.name_read(step.reads.index(scale), "factors"), 0


def as_channel_scale(step: Step, target: Target) -> Step | None:
    """Return the step as a channel scaling layer, if it scales the channels of one image."""
    image = _image_of(step)
    if image is None:
        return None
    levels: dict[str, object] = {
        each.name: ChannelScaleLowering(step.group, each, image) for each in target.levels
    }
    lowering = ChannelScaleLowering(step.group, target, image)
    operands = step.read_values, step.reads, step.writes, step.demands
    return Step(step.name, step.group, lowering, *operands, levels=levels)


def _image_of(step: Step) -> int | None:
    """Return the index of the image operand; None if the step is not a channel scaling."""
    plain = step.guard is None and not step.data_dependent_dims and len(step.writes) == 1
    if not plain or len(step.reads) != 2 or [n.op for n in step.group.nodes] != ["mul"]:
        return None
    shape = step.writes[0].shape
    images = [i for i, access in enumerate(step.reads) if access.shape == shape]
    if len(shape) != 4 or symbols_of(*shape) or shape[0] != 1 or len(images) != 1:
        return None
    scale = step.reads[1 - images[0]]
    pixels = [a for a in step.accesses() if a.dtype.name == "float32" and pixel_stride(a.at)]
    many = shape[1] > 1 and prod(shape[2:]) > 1
    is_channel_scale = scale.shape == (1, shape[1], 1, 1) and len(pixels) == 3
    return images[0] if many and is_channel_scale else None
