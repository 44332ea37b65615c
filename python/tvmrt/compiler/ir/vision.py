"""Sampling of images at coordinates that are computed at run time."""

from __future__ import annotations

from .contract import LIMIT, Contract, holds, let
from .op import Op, register
from .traits import Trait


@register("grid_sample", onnx="GridSample")
class GridSample(Op):
    """Sample at ``grid``: 2 or 3 coordinates in -1 to 1 for each pixel of the result, x first.

    ``align_corners``: -1 and 1 are the centres of the outermost pixels instead of their edges.
    """

    traits = frozenset({Trait.CHANNELS_INNERMOST})

    contract = Contract(
        "x: float32[N C *S{2..3}], grid: float32[N *Y{S} P] -> y: float32[N C *Y]",
        "mode: nearest|linear|cubic (bilinear=linear bicubic=cubic), "
        "padding: zeros|border|reflection (padding_mode), align_corners: bool",
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
    """Pool regions of interest. ``regions``: x1, y1, x2, y2; ``images``: the image of each region.

    ``out``: rows and columns of the result; ``largest``: use the maximum of the samples of a cell
    instead of their mean; ``ratio``: samples along each side of a cell, 0 for as many as it has
    pixels; ``scale``: from the regions' coordinates to pixels; ``half_pixel``: pixel centres are at
    half-integer coordinates.
    """

    traits = frozenset({Trait.CHANNELS_INNERMOST})

    contract = Contract(
        "x: float32[N C H W], regions: float32[R 4], images: int64[R] -> y: float32[R C *out]",
        "out: ints[2] 1.., largest: bool, ratio: int 0.., scale: float, half_pixel: bool",
    )


@register("max_roi_pool", onnx="MaxRoiPool")
class MaxRoiPool(Op):
    """Maximum of each cell of regions of interest: image, x1, y1, x2, y2.

    ``out``: rows and columns of the result; ``scale``: from coordinates to pixels.
    """

    traits = frozenset({Trait.CHANNELS_INNERMOST})

    contract = Contract(
        "x: float32[N C H W], regions: float32[R 5] -> y: float32[R C *out]",
        "out: ints[2] 1.. (pooled_shape), scale: float (spatial_scale)",
    )


@register("deform_columns")
class DeformColumns(Op):
    """im2col of a deformable convolution: each pixel of the result has the window's elements as
    ``[groups][taps][C / groups]`` channels. Each of ``parts`` of the channels has its own offsets.
    """

    traits = frozenset({Trait.CHANNELS_INNERMOST})

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
