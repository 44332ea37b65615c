"""Factors of channels, and the 1x1 convolution of what they make, as one step of hosts.

Squeeze and excitation ends with them. A task multiplies the pixels that its tiles read next, into
memory of its own, so that the product is neither written to the network's memory nor read from it,
and no line of it goes from one processor to another.

Contract: equal to the bit, by any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmrt.compiler.ir.extent import symbols_of
from tvmrt.compiler.ir.program import Group, Step, pixel_stride

from ..c.initializers import print_layer
from ..c.text import braces
from ..c.writer import FunctionWriter
from ..geometry import FLOAT, SlabLayer, Window
from ..lowering import Lowering
from ..target import Target
from ..window.conv import print_data_f32
from ..window.slabs import SlabPlan, plan_slabs
from .slab_chain import SlabChainLowering

LEAST_TILES = 2  # of a slab, however large: weights pass through the cache with each
SLAB_BYTES = 16 << 10  # of the product, beside which a first-level cache has room for the rest
MOST_TILES = 32  # from there on they save nothing


class FactorsLowering(Lowering):
    """An image times a factor for each of its channels, as a chain prints it. ``image``: which of
    the operands that is."""

    def __init__(self, group: Group, target: Target, image: int) -> None:
        super().__init__(group, target)
        self.image = image

    def row_operand(self, step: Step) -> int:
        return self.image

    def slab_layer(self, step: Step) -> SlabLayer:
        row = (1, 1, prod(step.writes[0].shape[2:]))
        strides = [pixel_stride(a.at) for a in (step.reads[self.image], step.writes[0])]
        return SlabLayer(Window(1, row, row, *strides), step.writes[0].shape[1] * FLOAT)

    def slab_width(self, step: Step) -> int:
        return 1

    def print_slab(self, step: Step, f: FunctionWriter, x, residual, y) -> Sequence[str]:
        """As others do; the factors have the place of what is added elsewhere."""
        layer, kernel, data = (f.fresh(name) for name in ("pixels", "multiplied", "image"))
        f.include("slab_factors_f32.h")
        window, channels = self.slab_layer(step).window, step.writes[0].shape[1]
        work = window.pixels * channels
        sizes = {"window": window.members(), "groups": 1, "out_channels": channels, "work": work}
        print_layer(f, "tvmrt_layer_f32", sizes, layer)
        members = braces(["NULL", "tvmrt_factors_f32_slab"])
        f.line(f"const tvmrt_slab_kernel_f32 {kernel} = {members};")
        print_data_f32(f, {"x": x, "w": residual[0], "y": y}, data)
        return [f"&{layer}", "NULL", "NULL", f"&{kernel}", f"&{data}"]


class FactorsChainLowering(SlabChainLowering):
    """Such a layer and the convolution."""

    def _plan(self) -> tuple[int, SlabPlan]:
        """That of as many tiles as leave room in the first-level cache."""
        widths = [s.lowering.slab_width(s) for s in self.steps]
        found = LEAST_TILES, plan_slabs(self.layers, widths, LEAST_TILES)
        for tiles in range(LEAST_TILES + 1, MOST_TILES + 1):
            plan = plan_slabs(self.layers, widths, tiles)
            if plan.nbytes > SLAB_BYTES:
                break
            found = tiles, plan
        return found

    def _residual(self, step: Step, f: FunctionWriter, k: int) -> tuple[str, int]:
        if k > 0:
            return super()._residual(step, f, k)
        first = self.steps[0]
        factors = first.reads[1 - first.lowering.image]
        return f.name_read(step.reads.index(factors), "factors"), 0


def as_factors(step: Step, target: Target) -> Step | None:
    """The step as the first layer of such a chain, if it multiplies one image's channels."""
    image = _image_of(step)
    if image is None:
        return None
    levels: dict[str, object] = {
        each.name: FactorsLowering(step.group, each, image) for each in target.levels
    }
    lowering = FactorsLowering(step.group, target, image)
    operands = step.read_values, step.reads, step.writes, step.demands
    return Step(step.name, step.group, lowering, *operands, levels=levels)


def _image_of(step: Step) -> int | None:
    """Which of two operands is the image; None where the step is another one."""
    plain = step.guard is None and not step.counts and len(step.writes) == 1
    if not plain or len(step.reads) != 2 or [n.op for n in step.group.nodes] != ["mul"]:
        return None
    shape = step.writes[0].shape
    images = [i for i, access in enumerate(step.reads) if access.shape == shape]
    if len(shape) != 4 or symbols_of(*shape) or shape[0] != 1 or len(images) != 1:
        return None
    factors = step.reads[1 - images[0]]
    pixels = [a for a in step.accesses() if a.dtype.name == "float32" and pixel_stride(a.at)]
    many = shape[1] > 1 and prod(shape[2:]) > 1
    alike = factors.shape == (1, shape[1], 1, 1) and len(pixels) == 3
    return images[0] if many and alike else None
