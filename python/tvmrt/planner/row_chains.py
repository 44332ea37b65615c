"""Chains of layers that are computed a few rows at a time: the calls, and the memory they need.

Between two layers of a chain lie only the rows that the second one has not read yet; depthwise
layers keep what they need again in a ring of their own. All calls are found here, one after the
other, by asking the last layer for its rows; so the memory that a chain takes is what these calls
need, and no estimate. No row is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvmrt.ir.rounding import ceil_div, round_up

from .arena import fill

MOST_ROWS = 2  # that a call makes of a layer without windows


@dataclass(frozen=True)
class RowLayer:
    """How the output rows of a layer follow from its input rows.

    Parameters
    ----------
    in_rows, out_rows
        All rows of input and output.
    in_bytes, out_bytes
        Bytes of a row in memory.
    reach
        Input rows under a window; 1 where there is none.
    stride, pad
        Of the windows, along the rows; ``pad`` is that in front, 0 or more.
    unit
        Input rows that the layer copies at a time into a ring of its own, a slot of it; 0 where it
        has none and reads windows where the rows lie.
    ring_bytes
        Of the ring, which lives as long as the chain runs.
    over_input
        Whether a call may write its rows where those begin that it reads for the last time.
    """

    in_rows: int
    out_rows: int
    in_bytes: int
    out_bytes: int
    reach: int = 1
    stride: int = 1
    pad: int = 0
    unit: int = 0
    ring_bytes: int = 0
    over_input: bool = False

    @property
    def step(self) -> int:
        """Output rows that a call makes at most."""
        if self.unit:
            return max(1, self.unit // self.stride)
        return MOST_ROWS if self.reach == 1 and self.stride == 1 else 1

    def needed(self, row: int, rows: int) -> int:
        """Input rows, from the first on, that must be there for output rows from ``row`` on."""
        end = (row + rows - 1) * self.stride - self.pad + self.reach
        if self.unit:
            end = self.slots(row) * self.unit - self.pad
        return min(max(end, 0), self.in_rows)

    def slots(self, row: int) -> int:
        """Slots of the ring, from the first on, that are read for the step from ``row`` on."""
        window = (self.step - 1) * self.stride + self.reach
        return row * self.stride // self.unit + ceil_div(window, self.unit)

    def kept(self, row: int, there: int) -> int:
        """The first input row that is read in memory again when output row ``row`` is next, and
        the first ``there`` input rows were in memory."""
        if self.unit:
            last = self.slots(row)
            if there < self.in_rows:
                last = min(last, (there + self.pad) // self.unit)
            return min(max(0, last * self.unit - self.pad), there)
        return min(max(0, row * self.stride - self.pad), there)


@dataclass(frozen=True)
class Call:
    """One call: ``rows`` output rows of a layer are made, after which the first ``dropped`` rows of
    its input that lie in memory are not needed any more."""

    layer: int
    rows: int
    dropped: int


@dataclass(frozen=True)
class ChainPlan:
    """The calls of a chain and its memory.

    ``heights`` and ``places`` are, for each layer but the first, the most rows of its input that
    lie in memory and where they begin; ``rings`` where each layer's ring does. ``in_place``: the
    result of the chain may begin where its input does. ``moved_bytes``: of rows that are moved to
    the front of their place.
    """

    layers: tuple[RowLayer, ...]
    calls: tuple[Call, ...]
    heights: tuple[int, ...]
    places: tuple[int, ...]
    rings: tuple[int, ...]
    nbytes: int
    in_place: bool
    moved_bytes: int

    def overlaps(self, layer: int) -> bool:
        """Whether a layer inside the chain writes its rows where its input lies."""
        inside = 0 < layer < len(self.layers) - 1
        return inside and self.places[layer - 1] == self.places[layer]


def plan_chain(layers: Sequence[RowLayer], align_bytes: int) -> ChainPlan:
    """The calls of these layers, each of which reads what the one before has made, and the places
    of their rows and rings, at multiples of ``align_bytes``."""
    walk = _Walk(layers)
    walk.run(len(layers) - 1, layers[-1].out_rows)
    heights = walk.heights[1:]
    groups = _join(walk.conflicts(), walk.never_over)
    sizes = [
        max(round_up(heights[k] * layers[k + 1].in_bytes, align_bytes) for k in group)
        for group in groups
    ]
    rings = [round_up(layer.ring_bytes, align_bytes) for layer in layers]
    neighbours = _neighbours(groups, walk.conflicts(), len(rings))
    places, nbytes = _place([*sizes, *rings], neighbours)
    of_group = {k: places[i] for i, group in enumerate(groups) for k in group}
    return ChainPlan(
        tuple(layers),
        tuple(walk.calls),
        tuple(heights),
        tuple(of_group[k] for k in range(len(heights))),
        tuple(places[len(groups) :]),
        nbytes,
        walk.in_place,
        walk.moved_bytes,
    )


def _join(conflicts: Sequence[set[int]], never_over: set[int]) -> list[list[int]]:
    """Places, counted from 0, that are one: of a layer's input and of its output, where every call
    may write over what it reads."""
    groups: list[list[int]] = []
    for place, others in enumerate(conflicts):
        if place and place not in never_over and not others & set(groups[-1]):
            groups[-1].append(place)
        else:
            groups.append([place])
    return groups


def _neighbours(
    groups: Sequence[Sequence[int]], conflicts: Sequence[set[int]], rings: int
) -> list[list[int]]:
    """For each group of places, and then for each ring, what it must not overlap."""
    count = len(groups) + rings
    taken = [set().union(*(conflicts[k] for k in group)) for group in groups]
    found = [
        [j for j, other in enumerate(groups) if j != i and taken[i] & set(other)]
        + list(range(len(groups), count))
        for i in range(len(groups))
    ]
    return [*found, *([j for j in range(count) if j != i] for i in range(len(groups), count))]


def _place(sizes: Sequence[int], neighbours: Sequence[Sequence[int]]) -> tuple[list[int], int]:
    """An offset for each, and the end of all."""
    largest = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    crowded = sorted(range(len(sizes)), key=lambda i: (-len(neighbours[i]), -sizes[i], i))
    found = [fill(sizes, neighbours, order) for order in (largest, crowded)]
    tops = [max(o + s for o, s in zip(offsets, sizes)) for offsets in found]
    best = tops.index(min(tops))
    return found[best], tops[best]


class _Walk:
    """The calls as they come, and which rows lie in memory meanwhile."""

    def __init__(self, layers: Sequence[RowLayer]) -> None:
        self.layers = layers
        self.last = len(layers) - 1
        self.calls: list[Call] = []
        self.made = [0] * len(layers)
        self.first = [0] * len(layers)  # input rows that were dropped
        self.heights = [0] * len(layers)
        self.moments: list[set[int]] = []  # the layers in front of which rows lie
        self.never_over: set[int] = set()
        self.in_place = True
        self.moved_bytes = 0

    def there(self, layer: int) -> int:
        """Input rows, from the first on, that have been made for a layer."""
        return self.made[layer - 1] if layer else self.layers[0].in_rows

    def run(self, layer: int, target: int) -> None:
        """Have that many output rows made."""
        shape = self.layers[layer]
        while self.made[layer] < target:
            rows = min(shape.step, shape.out_rows - self.made[layer])
            if shape.unit:
                self._fill_slots(layer)
            else:
                rows = min(rows, target - self.made[layer])
            self._ask(layer, shape.needed(self.made[layer], rows))
            self._call(layer, rows)

    def _fill_slots(self, layer: int) -> None:
        """All slots of the next step but the last, one by one, so that few rows lie in memory."""
        shape = self.layers[layer]
        last = shape.slots(self.made[layer])
        for slot in range(1, last if layer else 0):
            end = slot * shape.unit - shape.pad
            if self.first[layer] < end < shape.in_rows:
                self._ask(layer, end)
                self._call(layer, 0)

    def _ask(self, layer: int, rows: int) -> None:
        if layer:
            self.run(layer - 1, rows)

    def _call(self, layer: int, rows: int) -> None:
        shape = self.layers[layer]
        there = self.there(layer)
        self.heights[layer] = max(self.heights[layer], there - self.first[layer])
        before = self._busy()
        read = shape.kept(self.made[layer], there) if shape.unit else 0
        self.made[layer] += rows
        kept = read if shape.unit else shape.kept(self.made[layer], there)
        if self.made[layer] == shape.out_rows:
            kept = there
        kept = max(kept, self.first[layer])
        left = there - kept
        self.calls.append(Call(layer, rows, kept - self.first[layer]))
        if layer and left and kept > self.first[layer]:
            self.moved_bytes += left * shape.in_bytes
        self.first[layer] = kept
        self._note(layer, rows, before, over=shape.over_input and not left)

    def _note(self, layer: int, rows: int, before: set[int], over: bool) -> None:
        """What lies in memory while a call runs, and when it has returned."""
        during = set(before)
        if layer < self.last and rows:
            if not over:
                during.add(layer + 1)
                self.never_over.add(layer)
        self.moments += [during, self._busy()]
        if layer == self.last:
            written = self.made[layer] * self.layers[layer].out_bytes
            self.in_place &= written <= self.first[0] * self.layers[0].in_bytes

    def _busy(self) -> set[int]:
        """The layers in front of which rows lie between two calls."""
        return {k for k in range(1, self.last + 1) if self.made[k - 1] > self.first[k]}

    def conflicts(self) -> list[set[int]]:
        """For each place in front of a layer but the first the others, all counted from 0, that
        hold rows at the same time."""
        found: list[set[int]] = [set() for _ in self.layers[1:]]
        for moment in self.moments:
            for a in moment:
                found[a - 1] |= {b - 1 for b in moment if b != a}
        return found
