"""Layouts by name: in which order the elements of an image tensor lie in memory.

A name spells the axes from the outermost to the innermost, ``NCHW`` or ``NHWC``; a number and a
small letter at the end say that the channels lie in blocks, ``NCHW8c``. The logical shape of a
tensor is [N, C, *spatial] in every layout, with D, H, W as far as the name has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NAME = re.compile(r"([NCDHW]+?)(?:([1-9][0-9]*)c)?")


@dataclass(frozen=True)
class Layout:
    """``order``: logical axes from the outermost in memory; ``block``: channels in a block."""

    name: str
    order: tuple[int, ...]
    block: int = 1

    @property
    def rank(self) -> int:
        return len(self.order)

    def misfit(self, shape: Sequence[int]) -> str | None:
        """Why a tensor of this shape cannot have the layout; None if it can."""
        if len(shape) != self.rank:
            return f"layout {self.name} is for rank {self.rank}, the tensor has {len(shape)}"
        if self.block > 1 and shape[1] % self.block:
            return f"layout {self.name}: {shape[1]} channels do not fall into {self.block}s"
        return None

    def blocked_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The extents in memory order of a tensor whose channels lie in blocks."""
        split = (*shape[:1], shape[1] // self.block, *shape[2:])
        return (*(split[d] for d in self.order), self.block)

    def split_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The logical extents with the channels as two axes: blocks, channels in a block."""
        return (shape[0], shape[1] // self.block, self.block, *shape[2:])

    def split_order(self) -> tuple[int, ...]:
        """From the axes of :meth:`split_shape` to those of :meth:`blocked_shape`."""
        return (*(d if d < 2 else d + 1 for d in self.order), 2)


def parse_layout(name: str) -> Layout:
    """The layout of that name. Raises ValueError when it is none."""
    match = _NAME.fullmatch(name)
    letters = match[1] if match else ""
    spatial = "".join(d for d in "DHW" if d in letters)
    logical = "NC" + spatial
    if sorted(letters) != sorted(logical) or spatial not in ("", "W", "HW", "DHW"):
        raise ValueError(
            f"layout {name!r} is not known; spell the axes as in NCHW, NHWC, NCW or NCHW8c"
        )
    return Layout(name, tuple(logical.index(a) for a in letters), int(match[2] or 1))
