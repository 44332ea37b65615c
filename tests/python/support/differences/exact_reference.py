"""Operators of the ONNX reference evaluator in exact arithmetic, where it differs from the text:
those of ``tvmrt verify``, and Resize, whose source coordinates are Python fractions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np

from tvmrt.cli import exact_operators

HALF = Fraction(1, 2)
ROUND: dict[str, Callable[[Fraction], int]] = {
    "floor": floor,
    "ceil": ceil,
    "round_prefer_floor": lambda at: ceil(at - HALF),
    "round_prefer_ceil": lambda at: floor(at + HALF),
}


def coordinates(
    mode: str, extent: int, out: int, scale: Fraction, region: tuple[Fraction, Fraction]
) -> Iterator[Fraction]:
    """Yield source coordinates of Resize along one axis, by the standard's formulas."""
    start, end = region
    for i in range(out):
        if mode == "asymmetric":
            yield i / scale
        elif mode == "half_pixel" or (mode == "pytorch_half_pixel" and out > 1):
            yield (i + HALF) / scale - HALF
        elif mode == "tf_half_pixel_for_nn":
            yield (i + HALF) / scale
        elif mode == "half_pixel_symmetric":
            adjustment = out / (scale * extent)
            yield Fraction(extent, 2) * (1 - adjustment) + (i + HALF) / scale - HALF
        elif mode == "align_corners" and out > 1:
            yield Fraction(i * (extent - 1), out - 1)
        elif mode == "tf_crop_and_resize" and out > 1:
            yield start * (extent - 1) + i * (end - start) * (extent - 1) / (out - 1)
        elif mode == "tf_crop_and_resize":
            yield (start + end) * (extent - 1) / 2
        else:  # one element
            yield Fraction(0)


def nearest_by_sizes(
    x: np.ndarray,
    axes: Sequence[int],
    sizes: Sequence[int],
    mode: str,
    nearest: str,
    policy: str,
    region: Sequence[float],
    outside: float,
) -> np.ndarray:
    """Resize to the nearest element by sizes, with exact coordinates."""
    scales = [Fraction(size, x.shape[a]) if x.shape[a] else HALF for a, size in zip(axes, sizes)]
    if policy != "stretch":
        common = (min if policy == "not_larger" else max)(scales)
        sizes = [floor(common * x.shape[a] + HALF) for a in axes]
        scales = [common] * len(axes)
    for i, (axis, size, scale) in enumerate(zip(axes, sizes, scales)):
        extent = x.shape[axis]
        ends = Fraction(float(region[i])), Fraction(float(region[i + len(axes)]))
        positions = list(coordinates(mode, extent, size, scale, ends)) if size and scale else []
        indices = [min(max(ROUND[nearest](at), 0), extent - 1) for at in positions]
        x = np.take(x, np.asarray(indices, np.int64), axis)
        if mode == "tf_crop_and_resize":
            lost = [not 0 <= at <= extent - 1 for at in positions]
            shape = [-1 if d == axis else 1 for d in range(x.ndim)]
            x = np.where(np.asarray(lost, bool).reshape(shape), np.asarray(outside, x.dtype), x)
    return x


def evaluators() -> list[type]:
    """Return the classes of these operators for the reference evaluator of onnx."""
    from onnx.reference.ops.op_resize import Resize as Plain

    class Resize(Plain):
        """Resize with nearest by sizes in fractions; other modes are those of the onnx package."""

        op_domain = ""

        def _run(self, x, roi=None, scales=None, sizes=None, **attributes):
            by_sizes = sizes is not None and np.size(sizes)
            if attributes.get("mode") != "nearest" or not by_sizes:
                return super()._run(x, roi, scales, sizes, **attributes)
            axes = [a % x.ndim for a in attributes.get("axes") or range(x.ndim)]
            none = [0.0] * len(axes) + [1.0] * len(axes)
            resized = nearest_by_sizes(
                x,
                axes,
                [int(n) for n in np.ravel(sizes)],
                attributes.get("coordinate_transformation_mode") or "half_pixel",
                attributes.get("nearest_mode") or "round_prefer_floor",
                attributes.get("keep_aspect_ratio_policy") or "stretch",
                none if roi is None or not np.size(roi) else np.ravel(roi),
                attributes.get("extrapolation_value") or 0.0,
            )
            return (resized,)

    return [Resize, *exact_operators.evaluators()]
