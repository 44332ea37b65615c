"""Depth-first execution of layer chains on hosts, by tiles of rows
(``kernels/depth_first_f32.h``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import symbols_of

from ..geometry import DepthFirstLayer, Window
from .boards.board_lowering import is_per_channel
from .epilogue import Epilogue
from .tiles_f32 import LINE_BYTES


@dataclass(frozen=True)
class DepthFirstPlan:
    """Plan of a chain: ``pixels`` of the result per tile, scratch offsets of intermediate results
    in ``offsets``, and the scratch size ``nbytes``."""

    pixels: int
    offsets: tuple[int, ...]
    nbytes: int


def can_tile_depth_first(window: Window, epilogue: Epilogue, step: Step) -> bool:
    """Return whether a layer computes image rows of fixed sizes, with the same epilogue
    anywhere."""
    sizes = (*window.in_, *window.out, window.x_stride, window.y_stride)
    if symbols_of(*sizes) or window.batch != 1 or len(step.writes[0].shape) != 4:
        return False
    flat = (window.in_[0], window.out[0], window.kernel[0], window.pad[0]) == (1, 1, 1, 0)
    # windows over an image of one row would be mistaken for pixels
    if not flat or (window.out[1] == 1 and not window.is_identity_window):
        return False
    computed = {epilogue.start, *(node.output for node in epilogue.row_nodes)}
    read = {v for node in epilogue.row_nodes for v in node.inputs} - computed
    return all(v.is_constant and is_per_channel(v) for v in read)


def plan_depth_first(
    layers: Sequence[DepthFirstLayer], widths: Sequence[int], rows: int
) -> DepthFirstPlan:
    """Plan a chain in tiles of ``rows`` rows of its last layer that has rows (or all pixels).

    ``widths`` are the tile widths of the layers.
    """
    units = [layer.tile_pixels(width) for layer, width in zip(layers, widths)]
    row = next((x.window.out[2] for x in reversed(layers) if x.window.out[1] > 1), units[-1])
    span = pixels = max(rows * row // units[-1], 1) * units[-1]
    spans = []
    for (before, after), tile_pixels in zip(reversed(list(pairwise(layers))), reversed(units[:-1])):
        # the computed span begins and ends with a unit
        span = min(after.needed(span) + 2 * (tile_pixels - 1), before.pixels)
        spans.append(round_up(span * before.pixel_bytes, LINE_BYTES))
    offsets, nbytes = [], 0
    for size in reversed(spans):
        offsets.append(nbytes)
        nbytes += size
    return DepthFirstPlan(pixels, tuple(offsets), nbytes)
