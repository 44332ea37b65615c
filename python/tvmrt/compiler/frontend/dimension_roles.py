"""Roles of symbolic dimensions, and the default bounds of a dimension of each role.

A role follows from how the axes of a dimension are used, never from its name. An importer collects
the uses (``frontend/onnx/axis_uses.py``); this module decides what they mean.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

MAX_BATCH = 8
# Rows and columns of a picture: the usual size of detectors and segmentation networks.
MAX_PICTURE = 640
MAX_VOLUME = 128  # each axis of a volume or of a video clip
MAX_LENGTH = 512  # words, frames or other elements that a network relates to each other
# Audio samples: ten seconds at 16 kHz, the longest window that most audio networks take. One second
# at 16 kHz, which is enough for most of them, is well inside.
MAX_SAMPLES = 160_000
MAX_COUNT = 512
MAX_SIZE = 1 << 28  # limit for sizes derived from the windows of a file
# A 1-D network with at least this total stride reads samples rather than frames: frames come at 50
# to 100 per second, and networks compute at least 6 results per second from them.
SAMPLES_PER_STEP = 16
# Total bytes of tensors at default bounds: a larger library needs bounds from the user.
MAX_DEFAULT_BYTES = 1 << 30


class Role(enum.Enum):
    """Kind of quantity that a dimension counts."""

    BATCH = "batch"
    PICTURE = "rows or columns of a picture"
    VOLUME = "an axis of a volume"
    SAMPLES = "samples"
    LENGTH = "length of a sequence"
    COUNT = "count"


_MAX_SIZES = {
    Role.BATCH: MAX_BATCH,
    Role.PICTURE: MAX_PICTURE,
    Role.VOLUME: MAX_VOLUME,
    Role.SAMPLES: MAX_SAMPLES,
    Role.LENGTH: MAX_LENGTH,
    Role.COUNT: MAX_COUNT,
}
# The size to try first for a network that may run at one size only.
_DEFAULT_SIZES = {
    Role.BATCH: 1,
    Role.PICTURE: 224,
    Role.VOLUME: 32,
    Role.SAMPLES: 16_000,
    Role.LENGTH: 16,
    Role.COUNT: 16,
}
# Picture sizes to try for a network that runs at one size only, but not at the usual one.
OTHER_PICTURE_SIZES = (256, 384, 512, 192)


@dataclass
class DimUses:
    """How a network uses the axes of one dimension.

    Parameters
    ----------
    leading
        Whether this is the first axis of an input.
    batch
        Whether an operator uses it as its batch axis, such as the first axis of a convolution.
    window_ranks
        The number of axes of the windows that move along it.
    step
        Elements per element of the coarsest tensor along this dimension.
    least
        The minimum size at which all windows along it fit.
    signal
        Whether a 1-D window with a stride moves along one channel, or a spectrum is computed.
    sequence
        Whether its elements are related to each other: attention, recurrence, positions.
    mixed
        Whether its elements are combined otherwise: by a reduction, a sort or a selection.
    joined
        Whether an input is extended along it, such as a key-value cache.
    limit
        The largest size that constants such as a table of positions allow.
    equal
        Ranges of sizes at which it is combined with constants of a fixed extent.
    same
        Dimensions of other inputs that are combined element by element with this one.
    """

    leading: bool = False
    batch: bool = False
    window_ranks: set[int] = field(default_factory=set)
    step: Fraction = Fraction(1)
    min_size: int = 1
    signal: bool = False
    sequence: bool = False
    mixed: bool = False
    concatenated: bool = False
    limit: int | None = None
    equal_ranges: set[tuple[int, int]] = field(default_factory=set)
    combined_with: set[str] = field(default_factory=set)

    def role(self) -> Role | None:
        """Return the role; None if it only passes through and is not the leading axis."""
        if self.window_ranks:
            if max(self.window_ranks) > 2:
                return Role.VOLUME
            if max(self.window_ranks) == 2:
                return Role.PICTURE
        if self.signal or (self.window_ranks and self.step >= SAMPLES_PER_STEP):
            return Role.SAMPLES
        if self.sequence or self.window_ranks:
            return Role.LENGTH
        if self.mixed and not self.batch:  # such as a detector that keeps boxes of each picture
            return Role.COUNT
        return Role.BATCH if self.batch or self.leading else None


@dataclass(frozen=True)
class DefaultBounds:
    """Bounds of one dimension by its role.

    ``step``: the usual divisor of sizes; ``in_steps``: whether only multiples of it are valid.
    """

    role: Role
    low: int
    high: int
    step: int = 1
    in_steps: bool = False

    def default_size(self, picture: int | None = None) -> int:
        """Return one usual size for networks of this kind. ``picture``: size for picture axes."""
        size = picture if picture and self.role is Role.PICTURE else _DEFAULT_SIZES[self.role]
        return min(max(size, self.low), self.high)


def bounds_by_role(
    uses: Mapping[str, DimUses], stated: int | None = None, names: Iterable[str] = ()
) -> dict[str, DefaultBounds]:
    """Return the bounds of each dimension.

    ``stated``: the picture size that the file states, used if it is larger than ``MAX_PICTURE``.
    ``names``: the dimensions to choose; default: all.
    """
    roles = {name: each.role() for name, each in uses.items()}
    passing = Role.COUNT if Role.BATCH in roles.values() else Role.BATCH
    for name, each in uses.items():
        if roles[name] in (None, Role.BATCH):
            found = [roles[other] for other in sorted(each.combined_with) if roles.get(other)]
            others = [role for role in found if role is not Role.BATCH]
            roles[name] = next(iter([*others, *found]), roles[name])
    wanted = list(names) or list(uses)
    return {name: _bounds_of_role(uses[name], roles[name] or passing, stated) for name in wanted}


def _bounds_of_role(uses: DimUses, role: Role, stated: int | None) -> DefaultBounds:
    low, high = max(uses.min_size, 1), _MAX_SIZES[role]
    step = max(math.ceil(uses.step), 1)
    if role is Role.PICTURE:
        high = max(high, stated or 0)
    high = max(high, 2 * uses.min_size)
    if role in (Role.PICTURE, Role.VOLUME):
        # half of a step gives one result, too, but pictures of that size do not occur
        low = max(low, step)
        high = max(high // step * step, low)
    if uses.concatenated and role in (Role.LENGTH, Role.COUNT):
        low = 0
    if uses.limit is not None:
        high = min(high, uses.limit) if role is not Role.PICTURE else uses.limit
    for first, last in sorted(uses.equal_ranges):
        if max(low, first) <= last:
            low, high = max(low, first), last
    low, high = min(low, MAX_SIZE), min(high, MAX_SIZE)
    return DefaultBounds(role, min(low, high), max(high, low), step)
