"""Roles of open dimensions, and the bounds that a dimension of each role gets by default.

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
# Rows and columns of a picture: what detectors and segmentation networks are mostly run at.
MAX_PICTURE = 640
MAX_VOLUME = 128  # each axis of a volume or of a clip of pictures
MAX_LENGTH = 512  # words, frames or other elements that a network relates to each other
# Samples of a sound: ten seconds at 16 kHz. Networks for sound take windows of at most that, and
# one second of 16 kHz, which is as much as most of them need, is well inside.
MAX_SAMPLES = 160_000
MAX_COUNT = 512
MAX_SIZE = 1 << 28  # whatever windows in a file ask for
# A 1-D network that steps over so many elements in all reads samples rather than frames: frames
# come at 50 to 100 a second, and nobody computes fewer than 6 results a second of them.
SAMPLES_PER_STEP = 16
# Bytes of tensors at bounds that are chosen: a library of more asks its user for bounds.
MAX_CHOSEN_BYTES = 1 << 30


class Role(enum.Enum):
    """What a dimension counts."""

    BATCH = "batch"
    PICTURE = "rows or columns of a picture"
    VOLUME = "an axis of a volume"
    SAMPLES = "samples"
    LENGTH = "length of a sequence"
    COUNT = "count"


_HIGHEST = {
    Role.BATCH: MAX_BATCH,
    Role.PICTURE: MAX_PICTURE,
    Role.VOLUME: MAX_VOLUME,
    Role.SAMPLES: MAX_SAMPLES,
    Role.LENGTH: MAX_LENGTH,
    Role.COUNT: MAX_COUNT,
}
# The size to try first where a network may run at one size alone.
_USUAL = {
    Role.BATCH: 1,
    Role.PICTURE: 224,
    Role.VOLUME: 32,
    Role.SAMPLES: 16_000,
    Role.LENGTH: 16,
    Role.COUNT: 16,
}
# Sizes of pictures to try where a network runs at one size alone, but not at the usual one.
OTHER_PICTURES = (256, 384, 512, 192)


@dataclass
class Uses:
    """How a network uses the axes of one dimension.

    Parameters
    ----------
    leading
        Whether it is the first axis of an input.
    batch
        Whether an operator takes it for its batch, as the first axis of a convolution.
    window_ranks
        The number of axes of the windows that move along it.
    step
        Its elements for one element of the coarsest tensor along it.
    least
        The smallest size at which all windows along it fit.
    signal
        Whether a 1-D window with a stride moves along one channel, or a spectrum is made of it.
    sequence
        Whether its elements are related to each other: attention, recurrence, positions.
    mixed
        Whether its elements meet otherwise: a reduction, a sort, a choice among them.
    joined
        Whether an input is made longer along it, as a cache is.
    limit
        The largest size that constants such as a table of positions allow.
    equal
        Ranges of sizes at which it meets constants of a fixed extent.
    same
        Dimensions of other inputs whose elements meet its elements one by one.
    """

    leading: bool = False
    batch: bool = False
    window_ranks: set[int] = field(default_factory=set)
    step: Fraction = Fraction(1)
    least: int = 1
    signal: bool = False
    sequence: bool = False
    mixed: bool = False
    joined: bool = False
    limit: int | None = None
    equal: set[tuple[int, int]] = field(default_factory=set)
    same: set[str] = field(default_factory=set)

    def role(self) -> Role | None:
        """The role; None where it only passes through, and not as the first axis."""
        if self.window_ranks:
            if max(self.window_ranks) > 2:
                return Role.VOLUME
            if max(self.window_ranks) == 2:
                return Role.PICTURE
        if self.signal or (self.window_ranks and self.step >= SAMPLES_PER_STEP):
            return Role.SAMPLES
        if self.sequence or self.window_ranks:
            return Role.LENGTH
        if self.mixed and not self.batch:  # as a detector that keeps boxes of each picture
            return Role.COUNT
        return Role.BATCH if self.batch or self.leading else None


@dataclass(frozen=True)
class ChosenSize:
    """Bounds of one dimension by its role.

    ``step``: the size of which a network mostly needs multiples; ``in_steps``: multiples alone.
    """

    role: Role
    low: int
    high: int
    step: int = 1
    in_steps: bool = False

    def usual(self, picture: int | None = None) -> int:
        """One size that networks of this kind are mostly run at; ``picture``: of its axes."""
        size = picture if picture and self.role is Role.PICTURE else _USUAL[self.role]
        return min(max(size, self.low), self.high)


def choose_sizes(
    uses: Mapping[str, Uses], stated: int | None = None, names: Iterable[str] = ()
) -> dict[str, ChosenSize]:
    """The bounds of each dimension.

    ``stated``: the size of pictures that the file states, which counts where it is larger than
    ``MAX_PICTURE``. ``names``: dimensions to choose; all by default.
    """
    roles = {name: each.role() for name, each in uses.items()}
    passing = Role.COUNT if Role.BATCH in roles.values() else Role.BATCH
    for name, each in uses.items():
        if roles[name] in (None, Role.BATCH):
            found = [roles[other] for other in sorted(each.same) if roles.get(other)]
            others = [role for role in found if role is not Role.BATCH]
            roles[name] = next(iter([*others, *found]), roles[name])
    wanted = list(names) or list(uses)
    return {name: _chosen(uses[name], roles[name] or passing, stated) for name in wanted}


def _chosen(uses: Uses, role: Role, stated: int | None) -> ChosenSize:
    low, high = max(uses.least, 1), _HIGHEST[role]
    step = max(math.ceil(uses.step), 1)
    if role is Role.PICTURE:
        high = max(high, stated or 0)
    high = max(high, 2 * uses.least)
    if role in (Role.PICTURE, Role.VOLUME):
        # half of a step gives one result, too, but nobody has pictures of that size
        low = max(low, step)
        high = max(high // step * step, low)
    if uses.joined and role in (Role.LENGTH, Role.COUNT):
        low = 0
    if uses.limit is not None:
        high = min(high, uses.limit) if role is not Role.PICTURE else uses.limit
    for first, last in sorted(uses.equal):
        if max(low, first) <= last:
            low, high = max(low, first), last
    low, high = min(low, MAX_SIZE), min(high, MAX_SIZE)
    return ChosenSize(role, min(low, high), max(high, low), step)
