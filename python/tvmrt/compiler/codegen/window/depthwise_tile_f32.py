"""Micro-kernel tile of float depthwise convolutions and its selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.sizes import upper_bound

from .tiles_f32 import VectorMachine

if TYPE_CHECKING:
    from tvmrt.compiler.codegen.geometry import Window


@dataclass(frozen=True)
class DepthwiseTile:
    """Micro-kernel tile of a depthwise layer: ``lanes`` channels times ``width`` pixels.

    ``columns`` is the kernel width if the instance is specialised for it (and for ``stride``,
    without dilation), 0 for any. ``shared_block`` is the number of channels per block of packed
    weights, a multiple of ``lanes``; 0 if equal to ``lanes``.
    """

    lanes: int
    width: int
    columns: int = 0
    stride: int = 0
    shared_block: int = 0
    c_type = "tvmrt_depthwise_f32_tile"
    headers = target_fields = ()

    def name(self) -> str:
        """Return the name of the tile function."""
        fixed = f"k{self.columns}s{self.stride}" if self.columns else ""
        part = f"of{self.shared_block}" if self.shared_block else ""
        return f"tvmrt_depthwise_f32_{self.lanes}{part}{fixed}x{self.width}"

    def definitions(self) -> list[str]:
        """Return the C lines that define the tile function; a file has each line once."""
        sizes = f"{self.columns}, {self.stride}, {self.width}" if self.columns else self.width
        kind = "DEPTHWISE" if self.columns else "DEPTHWISE_ANY"
        return [f"TVMRT_DEFINE_{kind}_F32({self.name()}, {self.lanes}, {sizes}, {self.packed})"]

    @property
    def packed(self) -> int:
        """Channels of a block of packed weights."""
        return self.shared_block or self.lanes

    def members(self) -> dict[str, object]:
        """Return no extra members: the tile has them."""
        return {}

    def initializer(self) -> str:
        """Return the C initialiser of a ``tvmrt_depthwise_f32_tile``."""
        return f"{{{self.lanes}, {self.width}, {self.name()}}}"


def choose_depthwise(window: Window, channels: int, machine: VectorMachine) -> DepthwiseTile:
    """Select the tile of a depthwise convolution with the best estimate for the longest rows."""
    return depthwise_options(window, channels, machine)[0]


def depthwise_options(window: Window, channels: int, machine: VectorMachine) -> list[DepthwiseTile]:
    """Return all tiles that :func:`choose_depthwise` considers, the best estimate first."""
    columns, stride, out_width = window.kernel[2], window.stride[2], upper_bound(window.out[2])
    lanes = machine.lanes
    while lanes > 4 and round_up(channels, lanes) > round_up(channels, lanes // 2):
        lanes //= 2
    widest = getattr(machine, "widest", None)
    packed = lanes
    if widest is not None:
        packed = choose_depthwise(window, channels, widest).lanes
        lanes = min(machine.lanes, packed)
    fixed = window.dilation[2] == 1 and columns <= 11 and stride <= 2
    limit = 8
    if fixed:
        while limit > 1 and (limit - 1) * stride + columns + limit + 1 > machine.registers:
            limit -= 1
    widths = sorted(
        range(1, min(limit, out_width) + 1),
        key=lambda w: (ceil_div(out_width, w) * (w + 0.5 + (columns - 1) / 3), -w),
    )
    fixed_sizes = (columns, stride) if fixed else (0, 0)
    part = packed if packed != lanes else 0
    return [DepthwiseTile(lanes, width, *fixed_sizes, part) for width in widths]
