"""Strided access: the buffer element of each logical index of a tensor; and named layouts.

A name lists the axes from the outermost to the innermost, ``NCHW`` or ``NHWC``. The logical shape
of a tensor is [N, C, *spatial] in every layout, with the axes of D, H, W that the name has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .sizes import SymInt, exact_quotient, upper_bound


@dataclass(frozen=True)
class Strided:
    """Element ``index`` is at ``offset + sum(index[d] * strides[d])``, all in elements."""

    shape: tuple[SymInt, ...]
    strides: tuple[SymInt, ...]
    offset: SymInt = 0

    @property
    def size(self) -> SymInt:
        return prod(self.shape)

    def order(self) -> tuple[int, ...]:
        """Return the axes from the outermost in memory to the innermost.

        Axes of extent 1 or stride 0 have no order in memory; each follows its logical predecessor
        as far as the others allow.
        """
        placed = [d for d in range(len(self.shape)) if upper_bound(self.shape[d]) > 1]
        placed = [d for d in placed if self.strides[d] != 0]
        placed.sort(key=lambda d: -upper_bound(abs(self.strides[d])))
        order = list(placed)
        for d in range(len(self.shape)):
            if d in placed:
                continue
            before = [order.index(e) for e in range(d) if e in order]
            order.insert((before[-1] + 1) if before else 0, d)
        return tuple(order)

    def is_dense(self, order: Sequence[int] | None = None) -> bool:
        """Return whether the elements have no gaps in this order of axes (default: logical)."""
        order = range(len(self.shape)) if order is None else order
        expected = 1
        for d in reversed(list(order)):
            if self.shape[d] != 1 and self.strides[d] != expected:
                return False
            expected *= self.shape[d]
        return True

    def transpose(self, perm: Sequence[SymInt]) -> Strided:
        return Strided(
            tuple(self.shape[p] for p in perm), tuple(self.strides[p] for p in perm), self.offset
        )

    def slice(
        self, starts: Sequence[int], steps: Sequence[int], sizes: Sequence[SymInt]
    ) -> Strided:
        offset = self.offset + sum(s * t for s, t in zip(starts, self.strides))
        strides = tuple(t * s for t, s in zip(self.strides, steps))
        return Strided(tuple(sizes), strides, offset)

    def expand(self, shape: Sequence[SymInt]) -> Strided:
        """Repeat extents of 1, and new leading axes, to fill ``shape``."""
        lead = len(shape) - len(self.shape)
        strides = [0] * lead + [
            0 if old == 1 and new != 1 else stride
            for old, new, stride in zip(self.shape, shape[lead:], self.strides)
        ]
        return Strided(tuple(shape), tuple(strides), self.offset)

    def reshape(self, shape: Sequence[SymInt]) -> Strided | None:
        """Return the row-major elements in another shape; None if strides cannot express it."""
        old = [(n, s) for n, s in zip(self.shape, self.strides) if n != 1]
        if prod(self.shape) == 0:
            return Strided(tuple(shape), compact(shape), self.offset)
        strides = [0] * len(shape)
        i = j = 0
        while i < len(old) and j < len(shape):
            # take axes from both sides until the extents of the two groups agree
            first, group = j, old[i][0]
            last_old, total = i, shape[j]
            while group != total:
                grows = _is_part(group, total)
                ends = last_old + 1 == len(old) if grows else j + 1 == len(shape)
                # neither extent divides the other, or they are equal by a condition of the run
                if grows is None or ends:
                    return dense(shape, offset=self.offset) if self.is_dense() else None
                if grows:
                    last_old += 1
                    group *= old[last_old][0]
                else:
                    j += 1
                    total *= shape[j]
            for k in range(i, last_old):
                if old[k][1] != old[k + 1][0] * old[k + 1][1]:
                    return None
            stride = old[last_old][1]
            for axis in range(j, first - 1, -1):
                strides[axis] = stride
                stride *= shape[axis]
            i, j = last_old + 1, j + 1
        return Strided(tuple(shape), tuple(strides), self.offset)


def _is_part(group: SymInt, total: SymInt) -> bool | None:
    """Return whether the first of two unequal products needs more factors to equal the second; None
    if neither divides the other."""
    if isinstance(group, int) and isinstance(total, int):
        return group < total
    if exact_quotient(total, group) is not None:
        return True
    return None if exact_quotient(group, total) is None else False


def compact(shape: Sequence[SymInt], order: Sequence[int] | None = None) -> tuple[SymInt, ...]:
    """Return strides of a tensor without gaps whose axes have this order, outermost first."""
    order = range(len(shape)) if order is None else order
    strides = [0] * len(shape)
    step = 1
    for d in reversed(list(order)):
        strides[d] = step
        step *= shape[d]
    return tuple(strides)


def dense(
    shape: Sequence[SymInt], order: Sequence[int] | None = None, offset: SymInt = 0
) -> Strided:
    """Return the access to a whole buffer that holds exactly this tensor."""
    return Strided(tuple(shape), compact(shape, order), offset)


@dataclass(frozen=True)
class Layout:
    """``order``: logical axes from the outermost in memory."""

    name: str
    order: tuple[int, ...]

    def mismatch(self, shape: Sequence[int]) -> str | None:
        """Return why a tensor of this shape cannot have the layout; None if it can."""
        if len(shape) == len(self.order):
            return None
        return f"layout {self.name} is for rank {len(self.order)}, the tensor has {len(shape)}"


def parse_layout(name: str) -> Layout:
    """Return the layout of that name. Raise ValueError for an unknown name."""
    spatial = "".join(d for d in "DHW" if d in name)
    logical = "NC" + spatial
    if sorted(name) != sorted(logical) or spatial not in ("", "W", "HW", "DHW"):
        raise ValueError(f"layout {name!r} is not known; spell the axes as in NCHW, NHWC or NCW")
    return Layout(name, tuple(logical.index(axis) for axis in name))
