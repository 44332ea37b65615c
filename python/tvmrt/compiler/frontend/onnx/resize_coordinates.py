"""Source coordinates of Resize: exact integer quotients if sizes are known, else floats.

A scale that comes from sizes is the quotient of two integers, and so is each source coordinate.
Rounding to float could move an integer or half-integer coordinate just below or above, which would
select a neighbouring element. A scale given by the network is a
float32, and 0.33333334 stands for a third: its coordinates are float32 quotients, as in other
runtimes. The same holds for a region with such ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import NamedTuple, Union

from tvmrt.compiler.ir.sizes import SymInt, upper_bound

from .context import NodeContext
from .tensor_expressions import TensorExpr

MAX_INT32, MAX_INT64 = 2**31 - 1, 2**62
MAX_DENOMINATOR = 2**16  # maximum denominator of exact ends of a region: 0.75 is exact, 0.1 is not


@dataclass(frozen=True)
class ResizeMode:
    """Interpolation mode and coordinate transformation."""

    interpolation: str
    coordinates: str
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True)
class AxisScale:
    """The quotient of two sizes, or a float32 that is constant or computed at run time.

    Sizes are integers, extents, or int64 Numbers.
    """

    size: SymInt | TensorExpr | None = None
    extent: SymInt | TensorExpr | None = None
    given: TensorExpr | None = None

    @property
    def is_exact(self) -> bool:
        return self.given is None

    def as_float(self, ctx: NodeContext, dtype: str) -> TensorExpr:
        """Return the scale as a float."""
        if self.given is not None:
            return self.given.cast(dtype)
        return _as_dtype(ctx, self.size, dtype) / _as_dtype(ctx, self.extent, dtype)


@dataclass(frozen=True)
class CropRegion:
    """Start and end of the region of interest of an axis, in units of its extent.

    Constants are fractions; run-time values are float32 Numbers.
    """

    start: Fraction | TensorExpr = Fraction(0)
    end: Fraction | TensorExpr = Fraction(1)


@dataclass(frozen=True)
class ResizeAxis:
    """One axis of a resize: extents before and after, scale and region."""

    axis: int
    extent: SymInt
    out: SymInt
    scale: AxisScale
    region: CropRegion = CropRegion()


@dataclass(frozen=True)
class ExactCoordinates:
    """Source coordinates ``numerator / divisor``, integers of one type; the divisor is positive."""

    numerator: TensorExpr
    divisor: TensorExpr

    def split(self) -> tuple[TensorExpr, TensorExpr]:
        """Return the floor of the coordinates and the fractions (below 1), in float64."""
        remainder = self.numerator % self.divisor
        base = (self.numerator - remainder) / self.divisor
        return base.cast("float64"), remainder.cast("float64") / self.divisor.cast("float64")

    def nearest(self, rule: str) -> TensorExpr:
        """Return the indices of the nearest elements, clamped to 0 from below."""
        numerator, divisor = self.numerator, self.divisor
        rounded = {
            "floor": lambda: (numerator, divisor),
            "ceil": lambda: (numerator + divisor - 1, divisor),
            "round_prefer_floor": lambda: (numerator * 2 + divisor - 1, divisor * 2),
            "round_prefer_ceil": lambda: (numerator * 2 + divisor, divisor * 2),
        }
        above, below = _rule(rounded, rule)()
        return above.maximum(0) / below  # for non-negative numbers, rounding towards zero is floor

    def inside(self, extent: SymInt) -> TensorExpr:
        """Return whether a coordinate lies within the axis."""
        last = self.divisor * (self.numerator.like(extent) - 1)
        return (self.numerator >= 0).logical_and(self.numerator <= last)


@dataclass(frozen=True)
class RoundedCoordinates:
    """Source coordinates in float32, computed from a float32 scale or region."""

    position: TensorExpr
    scale: TensorExpr

    def split(self) -> tuple[TensorExpr, TensorExpr]:
        """Return the floor of the coordinates and the fractions (below 1), in float64."""
        position = self.position.cast("float64")
        base = position.apply("floor")
        return base, position - base

    def nearest(self, rule: str) -> TensorExpr:
        """Return the indices of the nearest elements, clamped to 0 from below."""
        at = self.position
        rounded = {
            "floor": lambda: at.apply("floor"),
            "ceil": lambda: at.apply("ceil"),
            "round_prefer_floor": lambda: (at - 0.5).apply("ceil"),
            "round_prefer_ceil": lambda: (at + 0.5).apply("floor"),
            "simple": lambda: (self.scale < 1).where(at.apply("ceil"), at.apply("floor")),
        }
        return _rule(rounded, rule)().maximum(0)

    def inside(self, extent: SymInt) -> TensorExpr:
        """Return whether a coordinate lies within the axis."""
        last = self.position.like(extent) - 1
        return (self.position >= 0).logical_and(self.position <= last)


Coordinates = Union[ExactCoordinates, RoundedCoordinates]


def _rule(rules: dict[str, Callable], name: str) -> Callable:
    if name not in rules:
        raise ValueError(f"unknown nearest_mode {name}")
    return rules[name]


def source_coordinates(ctx: NodeContext, dim: ResizeAxis, mode: ResizeMode) -> Coordinates:
    """Return the source coordinate of each element of the result."""
    ctx.check_table_size(dim.out, "a resized axis", 8)
    if mode.coordinates not in _COORDINATES:
        raise ValueError(f"unknown coordinate_transformation_mode {mode.coordinates}")
    exact = _exact_coordinates(ctx, dim, mode)
    return _float_coordinates(ctx, dim, mode.coordinates) if exact is None else exact


def nearest_indices(found: Coordinates, dim: ResizeAxis, mode: ResizeMode) -> TensorExpr:
    """Return the index of the element nearest to each source coordinate."""
    nearest = found.nearest(mode.nearest)
    return nearest.minimum(nearest.like(dim.extent) - 1).cast("int64")


def _as_dtype(ctx: NodeContext, size: SymInt | TensorExpr, dtype: str) -> TensorExpr:
    if isinstance(size, TensorExpr):
        return size.cast(dtype)
    return TensorExpr(ctx, ctx.const(0, dtype)).like(size)


def _exact_coordinates(
    ctx: NodeContext, dim: ResizeAxis, mode: ResizeMode
) -> ExactCoordinates | None:
    """Return coordinates as integer quotients; None if they need floats or are too large."""
    region = dim.region
    by_region = mode.coordinates == "tf_crop_and_resize"
    ends = (region.start, region.end) if by_region else (Fraction(0), Fraction(1))
    if not all(isinstance(end, Fraction) for end in ends):
        return None
    if mode.coordinates in _BY_SCALE and not dim.scale.is_exact:
        return None
    if mode.nearest == "simple" and mode.interpolation == "nearest":
        return None  # depends on the scale only
    unit = lcm(*(end.denominator for end in ends))
    first, last = (int(end * unit) for end in ends)
    sizes = (dim.scale.size, dim.scale.extent) if mode.coordinates in _BY_SCALE else (1, 1)
    bound = _max_intermediate(dim, sizes, max(abs(first), abs(last), unit))
    if unit > MAX_DENOMINATOR or bound > MAX_INT64:
        return None
    dtype = "int32" if bound <= MAX_INT32 else "int64"
    at = TensorExpr(ctx, ctx.cast(ctx.iota(dim.out), dtype))
    count, extent = at.like(dim.out), at.like(dim.extent)
    if mode.coordinates in _BY_SCALE:
        scale = (_as_dtype(ctx, n, dtype) for n in sizes)
        return ExactCoordinates(*_BY_SCALE[mode.coordinates](_Sizes(at, count, extent, *scale)))
    steps = (count - 1).maximum(1)  # a single element has coordinate 0
    numerator = (steps * first + at * (last - first)) * (extent - 1)
    if not by_region:
        return ExactCoordinates(numerator, steps * unit)
    middle = (extent - 1) * (first + last) + at * 0
    return ExactCoordinates(
        (count <= 1).where(middle, numerator), (count <= 1).where(2 * unit, steps * unit)
    )


def _max_intermediate(dim: ResizeAxis, sizes: tuple, end: int) -> int:
    """Return a bound of all integers in the computation of exact coordinates."""
    if any(isinstance(n, TensorExpr) for n in sizes):
        return MAX_INT32 + 1  # each run checks them against the extents
    size, across = (max(upper_bound(n), 1) for n in sizes)
    out, extent = upper_bound(dim.out) + 1, upper_bound(dim.extent) + 1
    by_scale = extent * size + across * (2 * out + 1) + size
    return 4 * max(by_scale, 2 * out * extent * end)


class _Sizes(NamedTuple):
    """Indices of the result's elements, their number, the input's, and the scale ``size / across``:
    one element of the result spans ``across / size`` elements of the input."""

    at: TensorExpr
    count: TensorExpr
    extent: TensorExpr
    size: TensorExpr
    across: TensorExpr


def _half_pixel(s: _Sizes) -> tuple[TensorExpr, TensorExpr]:
    return (s.at * 2 + 1) * s.across - s.size, s.size * 2


def _pytorch_half_pixel(s: _Sizes) -> tuple[TensorExpr, TensorExpr]:
    middle, divisor = _half_pixel(s)
    return (s.count <= 1).where(s.at, middle), divisor


def _half_pixel_symmetric(s: _Sizes) -> tuple[TensorExpr, TensorExpr]:
    steps = s.across * (s.at * 2 + 1 - s.count)
    return s.extent * s.size + steps - s.size, s.size * 2


# Numerators and divisors of coordinates.
_BY_SCALE: dict[str, Callable[[_Sizes], tuple[TensorExpr, TensorExpr]]] = {
    "asymmetric": lambda s: (s.at * s.across, s.size),
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": lambda s: ((s.at * 2 + 1) * s.across, s.size * 2),
    "half_pixel_symmetric": _half_pixel_symmetric,
}
_COORDINATES = (*_BY_SCALE, "align_corners", "tf_crop_and_resize")


def _float_coordinates(ctx: NodeContext, dim: ResizeAxis, coordinates: str) -> RoundedCoordinates:
    """Return coordinates in float32."""
    at = TensorExpr(ctx, ctx.cast(ctx.iota(dim.out), "float32"))
    count, extent = at.like(dim.out), at.like(dim.extent)
    scale = dim.scale.as_float(ctx, "float32")
    if coordinates == "asymmetric":
        position = at / scale
    elif coordinates in ("half_pixel", "pytorch_half_pixel"):
        position = (at + 0.5) / scale - 0.5
        if coordinates == "pytorch_half_pixel":
            position = (count <= 1).where(at, position)
    elif coordinates == "tf_half_pixel_for_nn":
        position = (at + 0.5) / scale
    elif coordinates == "half_pixel_symmetric":
        adjustment = count / (scale * extent)
        position = (1 - adjustment) * (extent / 2) + (at + 0.5) / scale - 0.5
    else:  # a single element is the first one of the corners, and in the middle of a region
        region = dim.region if coordinates == "tf_crop_and_resize" else CropRegion()
        start, end = (_end(at, each) for each in (region.start, region.end))
        last, steps = extent - 1, (count - 1).maximum(1)
        position = start * last + at * ((end - start) * last / steps)
        if coordinates == "tf_crop_and_resize":
            position = (count <= 1).where((start + end) * (last * 0.5) + at, position)
    return RoundedCoordinates(position, scale)


def _end(at: TensorExpr, end: Fraction | TensorExpr) -> TensorExpr:
    return end if isinstance(end, TensorExpr) else at.like(float(end))
