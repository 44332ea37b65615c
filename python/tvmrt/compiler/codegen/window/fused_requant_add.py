"""Requantisation with residual add in fewer operations: the constants of a ``tvmrt_fused_add_i8``,
see ``tile/requantize_i8_amx.h``.

Adding 2^23 or more to a float rounds it to an integer. Subtracting that constant exactly before the
multiplication costs an operation. It can be merged with the multiplication if the product of the
constant is exactly a float, or nearly one. Many constants are possible, and some have such a
product. The rounding error differs from the usual sequence of operations, so all 65,536 pairs of
bytes are tried for equal results.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import lru_cache

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.dtype import to_integers
from tvmrt.compiler.ir.quantized import storage_range

from ..c.formatting import braces
from ..c.initializers import float_literal
from ..loops.quantized_binary_scales import binary_scales

MIN_EXACT_ROUNDING = 2.0**23  # floats from here to 2^24 are exactly the integers
MARGIN = 1024.0  # integers outside a byte's range that the sum must round too
ROUNDING_CANDIDATES = 1 << 18  # constants tried for rounding; even ones, for ties
HIGH_CANDIDATES = 1 << 15  # constants tried for the one above a byte, with the bits of 0 to 255
BEST_HIGHS = 16  # of these that are used
BEST_ROUNDINGS = 6
ROUND_TO_INT = 3 * 2.0**22  # adding it puts a sum's integer into the lower 16 bits
MAX_SUM = 32000.0


@dataclass(frozen=True)
class FusedRequantAdd:
    """Members of ``tvmrt_fused_add_i8``."""

    round: float
    a_scale: float
    fa_round: float
    most: float
    b_scale: float
    fb_high: float
    last: float
    high: float

    @property
    def initializer(self) -> str:
        """C initialiser of the struct."""
        *numbers, high = astuple(self)
        bits = int(np.float32(high).view(np.int32))
        return braces([*map(float_literal, numbers), f"0x{bits:08X}"])

    def results(self, q: np.ndarray) -> np.ndarray:
        """Return the tile's results for integers ``q`` and all bytes, minus the type's minimum, as
        int32; -1 everywhere if a sum is too large."""
        b = np.arange(256) + float(self.high)
        u = ((q + float(self.round)) * float(self.a_scale) - float(self.fa_round)).astype(
            np.float32
        )
        v = (b * float(self.b_scale) - float(self.fb_high)).astype(np.float32)
        most = np.float32(self.most)
        both = np.clip(u, -most, most)[:, None] + v
        if not np.abs(both).max() < MAX_SUM:
            return np.full(both.shape, -1)
        return np.clip(
            to_integers(both + np.float32(self.last), np.int64) - int(ROUND_TO_INT), 0, 255
        )


def find_fused_requant_add(product: Node, node: Node, other: int) -> FusedRequantAdd | None:
    """Find the constants for a matmul's bytes and a ``qadd`` operand, or None: if there are none,
    or if the result does not use its type's whole range."""
    attrs, own, added = node.attrs, product.attrs, "ab"[other]
    low, high = storage_range(node.output.dtype)
    if (attrs["low"], attrs["high"]) != (low, high):
        return None
    least, most = storage_range(product.output.dtype)
    bounds = own.get("low", least) - own["y_zero"], own.get("high", most) - own["y_zero"]
    b_zero = attrs[f"{added}_zero"] - storage_range(node.inputs[other].dtype)[0]
    factors = binary_scales(node)
    pair = (factors.a_scale, factors.b_scale) if other else (factors.b_scale, factors.a_scale)
    return find_constants(*map(float, map(np.float32, pair)), bounds, b_zero, attrs["y_zero"] - low)


@lru_cache(maxsize=512)
def find_constants(
    a_scale: float, b_scale: float, bounds: tuple[int, int], b_zero: int, y_zero: int
) -> FusedRequantAdd | None:
    """Find the constants for two scales, the bounds of the matmul's values, and the zero points of
    the added bytes and of the result, minus their types' minimum."""
    q = np.arange(bounds[0] - 1, bounds[1] + 2)
    expected = _reference_results(a_scale, b_scale, np.clip(q, *bounds), b_zero, y_zero)
    middle, half = (bounds[0] + bounds[1]) / 2 * a_scale, (bounds[1] - bounds[0]) / 2 * a_scale
    most = float(np.float32(abs(half)))
    highs = _nearest_to_floats(
        MIN_EXACT_ROUNDING + 256 * np.arange(HIGH_CANDIDATES),
        b_scale,
        b_zero * b_scale - middle,
        BEST_HIGHS,
    )
    rounds = MIN_EXACT_ROUNDING + MARGIN + 2 * np.arange(ROUNDING_CANDIDATES)
    for high, fb_high, error in highs:
        for round_by, fa_round, _ in _nearest_to_floats(
            rounds, a_scale, middle + error, BEST_ROUNDINGS
        ):
            last = ROUND_TO_INT + y_zero
            candidate = FusedRequantAdd(
                round_by, a_scale, fa_round, most, b_scale, fb_high, last, high
            )
            saturated = (q[[0, -1]] + round_by) * a_scale - fa_round
            if (np.abs(saturated) >= most).all() and np.array_equal(candidate.results(q), expected):
                return candidate
    return None


def _reference_results(
    a_scale: float, b_scale: float, q: np.ndarray, b_zero: int, y_zero: int
) -> np.ndarray:
    """Return the results of all other tiles for integers and bytes, minus the type's minimum."""
    u = q.astype(np.float32) * np.float32(a_scale)
    v = (np.arange(256) - b_zero).astype(np.float32) * np.float32(b_scale)
    return np.clip(to_integers(np.rint(u[:, None] + v), np.int32) + np.int64(y_zero), 0, 255)


def _nearest_to_floats(
    numbers: np.ndarray, factor: float, addend: float, count: int
) -> list[tuple[float, float, float]]:
    """Select the ``numbers`` whose product plus ``addend`` is closest to a float. Return (number,
    float, rounding error) for each."""
    exact = numbers * factor + addend
    floats = exact.astype(np.float32)
    error = exact - floats
    nearest = np.argpartition(np.abs(error), count)[:count]
    nearest = nearest[np.argsort(np.abs(error[nearest]), kind="stable")]
    return [(float(numbers[i]), float(floats[i]), float(error[i])) for i in nearest]
