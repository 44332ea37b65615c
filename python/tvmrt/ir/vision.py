"""Sampling of images at places that are computed at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .graph import TensorType
from .op import Op, register


@register("grid_sample")
class GridSample(Op):
    """Inputs: x [N, C, *spatial], grid [N, *out, places] with 2 or 3 places in -1 to 1, x first.

    ``mode``: nearest, linear or cubic; ``padding``: zeros, border or reflection;
    ``align_corners``: whether -1 and 1 are the centres of the outermost pixels, not their edges.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, grid = types[0], types[1]
        rank = x.rank - 2
        fits = grid.rank == x.rank and grid.shape[0] == x.shape[0] and grid.shape[-1] == rank
        if rank not in (2, 3) or not fits or grid.dtype != x.dtype:
            raise ValueError(f"grid {grid} does not fit {x}")
        if attrs["mode"] == "cubic" and rank == 3:
            raise ValueError("cubic sampling of volumes is not defined")
        return [TensorType((*x.shape[:2], *grid.shape[1:-1]), x.dtype)]


@register("roi_align")
class RoiAlign(Op):
    """Inputs: x [N, C, H, W], regions [R, 4] (x1, y1, x2, y2), image of each region [R] (int64).

    ``out``: rows and columns of the result; ``largest``: the maximum of the samples of a cell
    instead of their mean; ``ratio``: samples along each side of a cell, 0 for as many as it has
    pixels; ``scale`` from the regions' coordinates to pixels; ``half_pixel``: pixels have their
    centres at halves.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, regions, images = types
        count = regions.shape[0]
        if x.rank != 4 or regions.shape != (count, 4) or images.shape != (count,):
            raise ValueError(f"regions {regions} of images {images} do not fit {x}")
        return [TensorType((count, x.shape[1], *attrs["out"]), x.dtype)]


@register("max_roi_pool")
class MaxRoiPool(Op):
    """Inputs: x [N, C, H, W], regions [R, 5] (image, x1, y1, x2, y2): maxima of each cell.

    ``out``: rows and columns of the result; ``scale`` from coordinates to pixels.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, regions = types
        if x.rank != 4 or regions.rank != 2 or regions.shape[1] != 5:
            raise ValueError(f"regions {regions} do not fit {x}")
        return [TensorType((regions.shape[0], x.shape[1], *attrs["out"]), x.dtype)]


@register("deform_columns")
class DeformColumns(Op):
    """Inputs: x [N, C, H, W], offsets [N, parts * taps * 2, OH, OW][, mask [N, parts * taps, ...]].

    Each pixel of the result holds what a deformed window sees: [groups][taps][C / groups]
    channels. ``kernel``, ``strides``, ``dilations``, ``pads_before``; the channels fall into
    ``parts`` with offsets of their own.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, offsets = types[0], types[1]
        taps = attrs["kernel"][0] * attrs["kernel"][1]
        mask = types[2] if len(types) > 2 else None
        parts = attrs["parts"]
        wanted = (x.shape[0], parts * taps, *offsets.shape[2:])
        if x.rank != 4 or x.shape[1] % parts or x.shape[1] % attrs["groups"]:
            raise ValueError(f"{x} does not fall into {parts} parts and {attrs['groups']} groups")
        if offsets.shape != (x.shape[0], 2 * parts * taps, *offsets.shape[2:]):
            raise ValueError(f"offsets {offsets} do not fit {taps} taps in {parts} parts")
        if mask is not None and mask.shape != wanted:
            raise ValueError(f"mask {mask} does not fit {taps} taps in {parts} parts")
        return [TensorType((x.shape[0], x.shape[1] * taps, *offsets.shape[2:]), x.dtype)]
