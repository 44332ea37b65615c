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
from tvmrt.compiler.ir.float_to_int import to_integers
from tvmrt.compiler.ir.quantized import storage_range

from ..c.initializers import number
from ..c.text import braces
from ..loops.pair_factors import pair_factors

FIRST = 2.0**23  # floats from here to 2^24 are exactly the integers
MARGIN = 1024.0  # integers outside a byte's range that the sum must round too
ROUNDS = 1 << 18  # constants tried for rounding; even ones, for ties
HIGHS = 1 << 15  # constants tried for the one above a byte, with the bits of 0 to 255
FEW = 16  # of these that are used
FEWER = 6
MIDDLE = 3 * 2.0**22  # adding it puts a sum's integer into the lower 16 bits
MOST_SUM = 32000.0


@dataclass(frozen=True)
class QuickSum:
    """Members of ``tvmrt_fused_add_i8``."""

    round: float
    fa: float
    fa_round: float
    most: float
    fb: float
    fb_high: float
    last: float
    high: float

    @property
    def initializer(self) -> str:
        """C initialiser of the struct."""
        *numbers, high = astuple(self)
        bits = int(np.float32(high).view(np.int32))
        return braces([*map(number, numbers), f"0x{bits:08X}"])

    def results(self, q: np.ndarray) -> np.ndarray:
        """Return the tile's results for integers ``q`` and all bytes, minus the type's minimum, as
        int32; -1 everywhere if a sum is too large."""
        b = np.arange(256) + float(self.high)
        u = ((q + float(self.round)) * float(self.fa) - float(self.fa_round)).astype(np.float32)
        v = (b * float(self.fb) - float(self.fb_high)).astype(np.float32)
        most = np.float32(self.most)
        both = np.clip(u, -most, most)[:, None] + v
        if not np.abs(both).max() < MOST_SUM:
            return np.full(both.shape, -1)
        return np.clip(to_integers(both + np.float32(self.last), np.int64) - int(MIDDLE), 0, 255)


def quick_sum(product: Node, node: Node, other: int) -> QuickSum | None:
    """Find the constants for a matmul's bytes and a ``qadd`` operand, or None: if there are none,
    or if the result does not use its type's whole range."""
    attrs, own, added = node.attrs, product.attrs, "ab"[other]
    low, high = storage_range(node.output.dtype)
    if (attrs["low"], attrs["high"]) != (low, high):
        return None
    least, most = storage_range(product.output.dtype)
    bounds = own.get("low", least) - own["y_zero"], own.get("high", most) - own["y_zero"]
    b_zero = attrs[f"{added}_zero"] - storage_range(node.inputs[other].dtype)[0]
    factors = pair_factors(node)
    pair = (factors.fa, factors.fb) if other else (factors.fb, factors.fa)
    return found(*map(float, map(np.float32, pair)), bounds, b_zero, attrs["y_zero"] - low)


@lru_cache(maxsize=512)
def found(
    fa: float, fb: float, bounds: tuple[int, int], b_zero: int, y_zero: int
) -> QuickSum | None:
    """Find the constants for two scales, the bounds of the matmul's values, and the zero points of
    the added bytes and of the result, minus their types' minimum."""
    q = np.arange(bounds[0] - 1, bounds[1] + 2)
    wanted = _usual(fa, fb, np.clip(q, *bounds), b_zero, y_zero)
    middle, half = (bounds[0] + bounds[1]) / 2 * fa, (bounds[1] - bounds[0]) / 2 * fa
    most = float(np.float32(abs(half)))
    highs = _near_floats(FIRST + 256 * np.arange(HIGHS), fb, b_zero * fb - middle, FEW)
    rounds = FIRST + MARGIN + 2 * np.arange(ROUNDS)
    for high, fb_high, lost in highs:
        for round_by, fa_round, _ in _near_floats(rounds, fa, middle + lost, FEWER):
            last = MIDDLE + y_zero
            tried = QuickSum(round_by, fa, fa_round, most, fb, fb_high, last, high)
            beyond = (q[[0, -1]] + round_by) * fa - fa_round
            if (np.abs(beyond) >= most).all() and np.array_equal(tried.results(q), wanted):
                return tried
    return None


def _usual(fa: float, fb: float, q: np.ndarray, b_zero: int, y_zero: int) -> np.ndarray:
    """Return the results of all other tiles for integers and bytes, minus the type's minimum."""
    u = q.astype(np.float32) * np.float32(fa)
    v = (np.arange(256) - b_zero).astype(np.float32) * np.float32(fb)
    return np.clip(to_integers(np.rint(u[:, None] + v), np.int32) + np.int64(y_zero), 0, 255)


def _near_floats(
    numbers: np.ndarray, factor: float, more: float, count: int
) -> list[tuple[float, float, float]]:
    """Select the ``numbers`` whose product plus ``more`` is closest to a float. Return (number,
    float, rounding error) for each."""
    exact = numbers * factor + more
    floats = exact.astype(np.float32)
    lost = exact - floats
    nearest = np.argpartition(np.abs(lost), count)[:count]
    nearest = nearest[np.argsort(np.abs(lost[nearest]), kind="stable")]
    return [(float(numbers[i]), float(floats[i]), float(lost[i])) for i in nearest]
