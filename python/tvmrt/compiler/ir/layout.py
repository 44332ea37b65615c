"""Named layouts: the order of the elements of an image tensor in memory.

A name lists the axes from the outermost to the innermost, ``NCHW`` or ``NHWC``. The logical shape
of a tensor is [N, C, *spatial] in every layout, with the axes of D, H, W that the name has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
