"""Operators of the ONNX reference evaluator in exact arithmetic, where it differs from the text.

They share no code with the compiler: source coordinates are Python fractions, and integers those of
Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import ceil, floor, isfinite, isnan

import numpy as np

HALF = Fraction(1, 2)
STRING = 8  # TensorProto.STRING
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


BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}


def lowest_bits(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round floats to the nearest integer, ties to even, and keep the lowest bits of ``dtype``.

    NaN and infinities become 0.
    """
    mask = (1 << BITS[dtype.name]) - 1
    values = x.astype(np.float64).reshape(-1).tolist()
    codes = [round(v) & mask if isfinite(v) else 0 for v in values]
    return np.asarray(codes, np.uint8).view(dtype).reshape(x.shape)


def to_integers(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round floats toward zero to integers of ``dtype``, out of range to its bounds, NaN to 0."""
    ends = np.iinfo(dtype)
    values = x.astype(np.float64).reshape(-1).tolist()
    low, high = float(ends.min), float(ends.max)
    found = [
        0 if isnan(v) else ends.min if v <= low else ends.max if v >= high else int(v)
        for v in values
    ]
    return np.asarray(found, dtype).reshape(x.shape)


def _is_float(dtype: np.dtype) -> bool:
    """Return whether a NumPy type, or one of ml_dtypes, is a floating-point type."""
    return "float" in dtype.name


def _conversions() -> list[type]:
    """Return Cast, CastLike and Pow, whose results are integers by the rules of the table."""
    from onnx.helper import np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops.op_cast import cast_to

    def convert(x, to: int, saturate=None, round_mode=None):
        dtype = np.dtype(object) if to == STRING else tensor_dtype_to_np_dtype(to)
        if _is_float(x.dtype) and (dtype.name in BITS or dtype.kind in "iu"):
            return ((lowest_bits if dtype.name in BITS else to_integers)(x, dtype),)
        return (cast_to(x, to, saturate is None or bool(saturate), round_mode or "up"),)

    class Cast(OpRun):
        """Cast with the standard's rule for 4-bit integers, and saturation for wider ones."""

        op_domain = ""

        def _run(self, x, to=None, **attributes):
            return convert(x, to, **attributes)

    class CastLike(OpRun):
        """CastLike as Cast above."""

        op_domain = ""

        def _run(self, x, like, **attributes):
            return convert(x, np_dtype_to_tensor_dtype(like.dtype), **attributes)

    class Pow(OpRun):
        """Pow, saturated where an integer has a floating-point exponent."""

        op_domain = ""

        def _run(self, x, exponent, **attributes):
            if x.dtype.kind in "iu" and _is_float(exponent.dtype):
                power = np.power(x.astype(np.float64), exponent.astype(np.float64))
                return (to_integers(power, x.dtype),)
            return (np.power(x, exponent).astype(x.dtype),)

    return [Cast, CastLike, Pow]


def evaluators() -> list[type]:
    """Return the classes of these operators for the reference evaluator of onnx."""
    from onnx.reference.ops.op_max_pool import MaxPool as PlainPool
    from onnx.reference.ops.op_resize import Resize as Plain

    class MaxPool(PlainPool):
        """MaxPool whose maximum is NaN if NaN is in the window."""

        op_domain = ""

        def _run(self, x, **attributes):
            y, *places = super()._run(x, **attributes)
            nan = np.isnan(x) if _is_float(x.dtype) else np.zeros(0)
            if nan.any():
                found, *_ = super()._run(nan.astype(np.float32), **attributes)
                y = np.where(found > 0, np.asarray(np.nan, y.dtype), y)
            return (y, *places)

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

    return [MaxPool, Resize, *_conversions()]
