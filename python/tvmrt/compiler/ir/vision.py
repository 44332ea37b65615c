"""Sampling of images at places that are computed at run time."""

from __future__ import annotations

from .contract import LIMIT, Contract, holds, let
from .op import Op, register


@register("grid_sample")
class GridSample(Op):
    """``grid`` has 2 or 3 places in -1 to 1 for each pixel of the result, x first.

    ``align_corners``: whether -1 and 1 are the centres of the outermost pixels, not their edges.
    """

    contract = Contract(
        "x: float32[N C *S{2..3}], grid: float32[N *Y{S} P] -> y: float32[N C *Y]",
        "mode: nearest|linear|cubic, padding: zeros|border|reflection, align_corners: bool",
        rules=[
            holds("grid has a place for each axis of S", lambda S, P: len(S) == P),
            holds(
                "volumes are not sampled by cubics", lambda S, mode: mode != "cubic" or len(S) == 2
            ),
        ],
        example={"P": 2},
    )


@register("roi_align")
class RoiAlign(Op):
    """``regions``: x1, y1, x2, y2; ``images``: the image of each region.

    ``out``: rows and columns of the result; ``largest``: the maximum of the samples of a cell
    instead of their mean; ``ratio``: samples along each side of a cell, 0 for as many as it has
    pixels; ``scale`` from the regions' coordinates to pixels; ``half_pixel``: pixels have their
    centres at halves.
    """

    contract = Contract(
        "x: float32[N C H W], regions: float32[R 4], images: int64[R] -> y: float32[R C *out]",
        "out: ints[2] 1.., largest: bool, ratio: int 0.., scale: float, half_pixel: bool",
    )


@register("max_roi_pool")
class MaxRoiPool(Op):
    """Maxima of each cell of regions: image, x1, y1, x2, y2.

    ``out``: rows and columns of the result; ``scale`` from coordinates to pixels.
    """

    contract = Contract(
        "x: float32[N C H W], regions: float32[R 5] -> y: float32[R C *out]",
        "out: ints[2] 1.., scale: float",
    )


@register("deform_columns")
class DeformColumns(Op):
    """Each pixel of the result holds what a deformed window sees: ``[groups][taps][C / groups]``
    channels. The channels fall into ``parts`` with offsets of their own.
    """

    contract = Contract(
        "x: float32[N C H W], offsets: float32[N P OH OW], mask?: float32[N Q OH OW] -> "
        "y: float32[N C*taps OH OW]",
        "kernel: ints[2] 1.., strides: ints[2] 1.., dilations: ints[2] 1.., "
        "pads_before: ints[2] 0.., groups: int 1.., parts: int 1..",
        rules=[
            let("taps", "places of the window", lambda kernel: kernel[0] * kernel[1]),
            holds(
                "channels fall into parts and into groups",
                lambda C, parts, groups: C % parts == 0 and C % groups == 0,
            ),
            holds(
                "there are two offsets for each place of the window and part",
                lambda P, taps, parts: P == 2 * taps * parts,
            ),
            holds(
                "the mask has a number for each place of the window and part",
                lambda Q, taps, parts: Q is None or Q == taps * parts,
            ),
            holds(
                f"places of the window are numbers up to {LIMIT}",
                lambda OH, OW, kernel, strides, dilations, pads_before: all(
                    n * s + k * d + b <= LIMIT
                    for n, k, s, d, b in zip((OH, OW), kernel, strides, dilations, pads_before)
                ),
            ),
        ],
        example={"C": 4, "kernel": (3, 3), "P": 36, "Q": 18, "parts": 2, "groups": 2},
    )
