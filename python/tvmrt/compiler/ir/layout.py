"""Named layouts: the order of the elements of an image tensor in memory.

A name lists the axes from the outermost to the innermost, ``NCHW`` or ``NHWC``. A number and a
small letter at the end mean blocked channels, ``NCHW8c``. The logical shape of a tensor is
[N, C, *spatial] in every layout, with the axes of D, H, W that the name has.
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

    def mismatch(self, shape: Sequence[int]) -> str | None:
        """Return why a tensor of this shape cannot have the layout; None if it can."""
        if len(shape) != self.rank:
            return f"layout {self.name} is for rank {self.rank}, the tensor has {len(shape)}"
        if self.block > 1 and shape[1] % self.block:
            return f"layout {self.name}: {shape[1]} channels do not fall into {self.block}s"
        return None

    def blocked_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the extents in memory order of a tensor with blocked channels."""
        split = (*shape[:1], shape[1] // self.block, *shape[2:])
        return (*(split[d] for d in self.order), self.block)

    def split_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the logical extents with channels as two axes: blocks, channels in a block."""
        return (shape[0], shape[1] // self.block, self.block, *shape[2:])

    def split_order(self) -> tuple[int, ...]:
        """Return the permutation from :meth:`split_shape` to :meth:`blocked_shape`."""
        return (*(d if d < 2 else d + 1 for d in self.order), 2)


def parse_layout(name: str) -> Layout:
    """Return the layout of that name. Raise ValueError for an unknown name."""
    match = _NAME.fullmatch(name)
    letters = match[1] if match else ""
    spatial = "".join(d for d in "DHW" if d in letters)
    logical = "NC" + spatial
    if sorted(letters) != sorted(logical) or spatial not in ("", "W", "HW", "DHW"):
        raise ValueError(
            f"layout {name!r} is not known; spell the axes as in NCHW, NHWC, NCW or NCHW8c"
        )
    return Layout(name, tuple(logical.index(a) for a in letters), int(match[2] or 1))
