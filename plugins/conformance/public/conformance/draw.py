"""Random numbers of cases: extents around tile widths, scales, zero points, elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from onnx import helper

from .case import Case

WIDTHS = tuple(2**n for n in range(1, 11))  # of the tiles of devices
TURNS = 3 * len(WIDTHS)  # cases of an operator whose three extents are each of them once


@dataclass(frozen=True)
class Quantity:
    """Scale, zero point and type of a tensor; scale and zero point may be per channel."""

    scale: Any
    zero: Any = 0
    dtype: Any = np.int8

    def parameters(self) -> tuple[np.ndarray, np.ndarray]:
        """Return scale and zero point as arrays of one shape."""
        scale = np.asarray(self.scale, np.float32)
        return scale, np.broadcast_to(np.asarray(self.zero, self.dtype), scale.shape).copy()


class Draw:
    """Source of the random numbers of one case: case ``turn`` of the operator ``subject``."""

    def __init__(self, seed: int, subject: str, turn: int) -> None:
        self.rng = np.random.default_rng([seed, crc32(subject.encode()), turn])
        self.turn = turn

    def pick(self, *choices: Any) -> Any:
        """Return one of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def once_in(self, count: int) -> bool:
        """Return whether to draw something that one of ``count`` cases has."""
        return int(self.rng.integers(count)) == 0

    def small(self, low: int = 1, high: int = 7) -> int:
        """Return an integer between the bounds, which are included."""
        return int(self.rng.integers(low, high + 1))

    def extents(self, count: int, limit: int = WIDTHS[-1]) -> list[int]:
        """Return extents: one around a tile width, another in each turn, and small ones."""
        found = [self.small() for _ in range(count)]
        width = WIDTHS[self.turn % len(WIDTHS)]
        place = (self.turn + self.turn // len(WIDTHS)) % count  # another after all widths
        found[place] = max(1, min(width, limit) + self.small(-1, 1))
        return found

    def normal(self, *shape: int) -> np.ndarray:
        """Return float32 numbers around 0."""
        return np.asarray(self.rng.normal(size=shape), np.float32)

    def weights(self, *shape: int, inner: int = 1) -> np.ndarray:
        """Return float32 numbers whose sums of ``inner`` products are around 1."""
        return (self.normal(*shape) / np.float32(inner**0.5)).astype(np.float32)

    def positive(self, *shape: int) -> np.ndarray:
        """Return float32 numbers above one half."""
        return (np.abs(self.normal(*shape)) + 0.5).astype(np.float32)

    def special(self, *shape: int) -> np.ndarray:
        """Return float32 numbers among NaN, infinities, zeros, halves, and large numbers."""
        array = (self.normal(*shape) * 3).astype(np.float32)
        found = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -2.5, 1.5, 60, -75]
        places = self.rng.permutation(array.size)[: max(1, array.size // 2)]
        array.ravel()[places] = np.resize(np.array(found, np.float32), len(places))
        return array

    def elements(self, dtype: Any, *shape: int) -> np.ndarray:
        """Return elements of any type: all integers of 8 bits, small ones of others."""
        kind = np.dtype(dtype)
        if kind.kind == "b":
            return self.rng.integers(0, 2, shape).astype(bool)
        if kind.kind == "f":
            return self.normal(*shape).astype(kind)
        if kind.itemsize == 1:
            limits = np.iinfo(kind)
            return self.rng.integers(limits.min, limits.max + 1, shape).astype(kind)
        return self.rng.integers(-50 if kind.kind == "i" else 0, 51, shape).astype(kind)

    def scale(self, exact: bool) -> np.float32:
        """Return a power of two if ``exact``, else a number with all bits of float32."""
        scale = 2.0 ** self.rng.integers(-7, -2)
        return np.float32(scale if exact else scale * self.rng.uniform(0.5, 1))

    def zero(self, dtype: Any) -> int:
        """Return a zero point: a limit of its type, or any other."""
        limits = np.iinfo(dtype)
        near = self.pick(limits.min, limits.max, 128 if limits.max > 127 else 0)
        return near if self.small(0, 2) == 0 else self.small(limits.min, limits.max)

    def quantity(self, dtype: Any, exact: bool = False) -> Quantity:
        """Return scale and zero point of a tensor."""
        return Quantity(self.scale(exact), self.zero(dtype), dtype)


def single(
    op: str, how: str, inputs: Sequence[np.ndarray], weights: Sequence[np.ndarray] = (),
    fixed: Sequence[np.ndarray] = (), opens: tuple[int, ...] = (), **attributes: Any,
) -> Case:  # fmt: skip
    """Return a case of one node ``n`` with inputs x0, x1 ..., weights w0, w1 ..., and constants k0,
    k1 ... whose values belong to the operator."""
    feeds = {f"x{i}": array for i, array in enumerate(inputs)}
    stored = {f"w{i}": array for i, array in enumerate(weights)}
    stored |= {f"k{i}": array for i, array in enumerate(fixed)}
    node = helper.make_node(op, [*feeds, *stored], ["y"], name="n", **attributes)
    return Case(f"{op}: {how}", [node], feeds, stored, opens=opens)
