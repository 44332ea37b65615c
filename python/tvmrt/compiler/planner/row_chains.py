"""Chains of layers that are computed a few rows at a time: the calls, and the memory they need.

Between layers of a chain lie only the rows that a later one has not read yet; depthwise layers keep
what they need again in a ring of their own. Several layers may read the rows of one: a row stays
until the last of them has read it. All calls are found here, one after the other, by asking the
last layer for its rows; so the memory that a chain takes is what these calls need, and no estimate.
No row is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvmrt.compiler.ir.rounding import ceil_div, round_up

from .arena import fill

MOST_ROWS = 2  # that a call makes of a layer without windows
OUTSIDE = -1  # the chain's own input


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
    most_rows
        That a call makes where the layer has no windows.
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
    most_rows: int = MOST_ROWS

    @property
    def step(self) -> int:
        """Output rows that a call makes at most."""
        if self.unit:
            return max(1, self.unit // self.stride)
        return self.most_rows if self.reach == 1 and self.stride == 1 else 1

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
class RowSources:
    """Whose rows a layer reads: through its windows those of ``main``, and of each of ``added`` the
    row that it writes; numbers of earlier layers, or ``OUTSIDE``."""

    main: int
    added: tuple[int, ...] = ()


@dataclass(frozen=True)
class Call:
    """One call: ``rows`` output rows of a layer are made, after which it does not read ``dropped``
    more rows of its input."""

    layer: int
    rows: int
    dropped: int


@dataclass(frozen=True)
class ChainPlan:
    """The calls of a chain and its memory.

    ``heights`` and ``places`` are, for each layer but the last, the most rows of its output that
    lie in memory and where they begin; ``rings`` where each layer's ring does. ``in_place``: the
    result of the chain may begin where its input does. ``moved_bytes``: of rows that are moved to
    the front of their place.
    """

    layers: tuple[RowLayer, ...]
    sources: tuple[RowSources, ...]
    calls: tuple[Call, ...]
    heights: tuple[int, ...]
    places: tuple[int, ...]
    rings: tuple[int, ...]
    nbytes: int
    in_place: bool
    moved_bytes: int

    def overlaps(self, layer: int) -> bool:
        """Whether a layer inside the chain writes its rows where its input lies."""
        source = self.sources[layer].main
        inside = source != OUTSIDE and layer < len(self.layers) - 1
        return inside and self.places[source] == self.places[layer]

    def readers(self, layer: int) -> tuple[list[int], list[int]]:
        """The layers that read a layer's output through windows, and those that add it."""
        return _readers(self.sources, layer)


class Walks:
    """The calls of chains whose layers differ in the bytes of their rows alone, each found once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Walk] = {}

    def walk(self, layers: Sequence[RowLayer], sources: Sequence[RowSources]) -> _Walk:
        """The calls of these layers."""
        bare = (replace(layer, in_bytes=0, out_bytes=0, ring_bytes=0) for layer in layers)
        key = (*bare, *sources)
        if key not in self._known:
            self._known[key] = _Walk(layers, sources)
        return self._known[key]


def plan_chain(
    layers: Sequence[RowLayer],
    align_bytes: int,
    sources: Sequence[RowSources] | None = None,
    walks: Walks | None = None,
) -> ChainPlan:
    """The calls of these layers and the places of their rows and rings, at multiples of
    ``align_bytes``. Without ``sources`` each reads what the one before has made."""
    known = sources or [RowSources(k - 1) for k in range(len(layers))]
    walk = (walks or Walks()).walk(layers, known)
    groups = _join(walk)
    sizes = [
        max(round_up(walk.heights[k] * layers[k].out_bytes, align_bytes) for k in group)
        for group in groups
    ]
    rings = [round_up(layer.ring_bytes, align_bytes) for layer in layers]
    neighbours = _neighbours(groups, walk.conflicts, len(rings))
    places, nbytes = _place([*sizes, *rings], neighbours)
    of_group = {k: places[i] for i, group in enumerate(groups) for k in group}
    return ChainPlan(
        tuple(layers),
        tuple(known),
        tuple(walk.calls),
        tuple(walk.heights[:-1]),
        tuple(of_group[k] for k in range(len(layers) - 1)),
        tuple(places[len(groups) :]),
        nbytes,
        walk.in_place(layers),
        sum(rows * layer.out_bytes for rows, layer in zip(walk.moved, layers)),
    )


def _readers(sources: Sequence[RowSources], layer: int) -> tuple[list[int], list[int]]:
    windows = [k for k, source in enumerate(sources) if source.main == layer]
    return windows, [k for k, source in enumerate(sources) if layer in source.added]


def _join(walk: _Walk) -> list[list[int]]:
    """Outputs whose places are one: that of a layer and that of its input, where every call may
    write over what it reads."""
    groups: list[list[int]] = []
    for place, others in enumerate(walk.conflicts[:-1]):
        of_input = [group for group in groups if walk.sources[place].main in group]
        if of_input and place not in walk.never_over and not others & set(of_input[0]):
            of_input[0].append(place)
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

    def __init__(self, layers: Sequence[RowLayer], sources: Sequence[RowSources]) -> None:
        """Have all rows of the last layer made."""
        self.layers, self.sources = layers, sources
        self.last = len(layers) - 1
        self.readers = [_readers(sources, k) for k in range(len(layers))]
        self.calls: list[Call] = []
        self.made = [0] * len(layers)
        self.first = [0] * len(layers)  # input rows that a layer does not read any more
        self.base = [0] * len(layers)  # output rows in front of those in the place
        self.heights = [0] * len(layers)
        # for each output the others that lie in memory at the same time
        self.conflicts: list[set[int]] = [set() for _ in layers]
        self.never_over: set[int] = set()
        self.lying: set[int] = set()
        self.moved = [0] * len(layers)  # output rows that go to the front of their place
        # for each call of the last layer the rows that it has made, and those of the chain's input
        # that nobody reads any more
        self.written: list[tuple[int, int]] = []
        self.run(self.last, layers[self.last].out_rows)

    def in_place(self, layers: Sequence[RowLayer]) -> bool:
        """Whether the result may begin where the input does, of rows of these layers' bytes."""
        sizes = layers[self.last].out_bytes, layers[0].in_bytes
        return all(made * sizes[0] <= free * sizes[1] for made, free in self.written)

    def there(self, layer: int) -> int:
        """Input rows, from the first on, that have been made for a layer."""
        source = self.sources[layer].main
        return self.layers[layer].in_rows if source == OUTSIDE else self.made[source]

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
            for added in self.sources[layer].added:
                self.run(added, self.made[layer] + rows)
            self._call(layer, rows)

    def _fill_slots(self, layer: int) -> None:
        """All slots of the next step but the last, one by one, so that few rows lie in memory."""
        shape = self.layers[layer]
        inside = self.sources[layer].main != OUTSIDE
        for slot in range(1, shape.slots(self.made[layer]) if inside else 0):
            end = slot * shape.unit - shape.pad
            if self.first[layer] < end < shape.in_rows:
                self._ask(layer, end)
                self._call(layer, 0)

    def _ask(self, layer: int, rows: int) -> None:
        if self.sources[layer].main != OUTSIDE:
            self.run(self.sources[layer].main, rows)

    def _call(self, layer: int, rows: int) -> None:
        shape, before = self.layers[layer], self.first[layer]
        there, busy = self.there(layer), self._busy()
        if rows and layer != self.last:
            self._make_room(layer, rows)
        read = shape.kept(self.made[layer], there) if shape.unit else 0
        self.made[layer] += rows
        kept = read if shape.unit else shape.kept(self.made[layer], there)
        if self.made[layer] == shape.out_rows:
            kept = there
        self.first[layer] = max(kept, before)
        self.calls.append(Call(layer, rows, self.first[layer] - before))
        self._look(layer)
        if rows:
            self._note_write(layer, busy, before)
        self._note(self._busy())

    def _make_room(self, layer: int, rows: int) -> None:
        """What nobody reads any more of a layer's output goes, and what is left to the front."""
        kept, made = self._kept(layer), self.made[layer]
        if self.base[layer] < kept < made:
            self.moved[layer] += made - kept
        self.base[layer] = kept
        self.heights[layer] = max(self.heights[layer], made + rows - kept)

    def _kept(self, layer: int) -> int:
        """The first output row of a layer that is read again."""
        windows, adding = self.readers[layer]
        return min([*(self.first[k] for k in windows), *(self.made[k] for k in adding)])

    def _note_write(self, layer: int, busy: set[int], before: int) -> None:
        """What lies in memory while a call writes; ``before``: the first input row it reads."""
        if layer == self.last:
            self.written.append((self.made[layer], self._released(before)))
            return
        source = self.sources[layer].main
        over = self.layers[layer].over_input and source not in self._busy()
        self._note(busy - {source} | {layer})
        if not over:
            self.never_over.add(layer)
            self._note({source, layer} - {OUTSIDE})

    def _released(self, before: int) -> int:
        """Rows of the chain's input that nobody reads any more."""
        firsts = [self.first[k] for k, s in enumerate(self.sources) if s.main == OUTSIDE]
        return min([*firsts, *([before] if self.sources[self.last].main == OUTSIDE else [])])

    def _look(self, layer: int) -> None:
        """Have the outputs that a call of this layer changes or reads among those in memory, or
        not."""
        for k in (layer, self.sources[layer].main, *self.sources[layer].added):
            if k in range(self.last) and self.made[k] > self._kept(k):
                self.lying.add(k)
            else:
                self.lying.discard(k)

    def _busy(self) -> set[int]:
        """The layers of which output rows lie in memory between two calls."""
        return set(self.lying)

    def _note(self, together: set[int]) -> None:
        for place in together:
            self.conflicts[place] |= together - {place}
