"""Row-wise fusion: the calls that compute a chain of layers a few rows at a time, and their memory.

Between layers, only rows that a later layer still needs are in memory; depthwise layers keep rows
for reuse in a line buffer. If several layers read a row, it stays until the last has read it. The
calls are found by simulation, starting with requests for rows of the last layer, so the memory of a
chain is exact and not estimated. No row is computed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvmrt.compiler.ir.rounding import ceil_div, round_up

from .arena import fill

MAX_ROWS_PER_CALL = 2  # maximum rows per call of a layer without windows
OUTSIDE = -1  # index for the chain's own input


@dataclass(frozen=True)
class RowLayer:
    """Dependency of a layer's output rows on its input rows.

    Parameters
    ----------
    in_rows, out_rows
        Number of input and output rows.
    in_bytes, out_bytes
        Bytes of a row in memory.
    window_rows
        Input rows of a window; 1 without windows.
    stride, pad
        Of the windows, along the rows; ``pad`` is the padding at the start, 0 or more.
    unit
        Input rows per slot of the layer's line buffer, copied together; 0 without a line buffer:
        windows are read in place.
    line_buffer_bytes
        Size of the line buffer, which is live while the chain runs.
    may_overwrite_input
        Whether a call may overwrite the input rows that it reads for the last time.
    max_rows
        Maximum rows per call of a layer without windows.
    """

    in_rows: int
    out_rows: int
    in_bytes: int
    out_bytes: int
    window_rows: int = 1
    stride: int = 1
    pad: int = 0
    unit: int = 0
    line_buffer_bytes: int = 0
    may_overwrite_input: bool = False
    max_rows: int = MAX_ROWS_PER_CALL

    @property
    def step(self) -> int:
        """Maximum output rows of a call."""
        if self.unit:
            return max(1, self.unit // self.stride)
        return self.max_rows if self.window_rows == 1 and self.stride == 1 else 1

    def needed(self, row: int, rows: int) -> int:
        """Return how many input rows, from the first, are needed for output rows from ``row``
        on."""
        end = (row + rows - 1) * self.stride - self.pad + self.window_rows
        if self.unit:
            end = self.slots(row) * self.unit - self.pad
        return min(max(end, 0), self.in_rows)

    def slots(self, row: int) -> int:
        """Return how many line buffer slots, from the first, are read for the step from ``row``
        on."""
        window = (self.step - 1) * self.stride + self.window_rows
        return row * self.stride // self.unit + ceil_div(window, self.unit)

    def first_needed_row(self, row: int, available: int) -> int:
        """Return the first input row that is still needed in memory when output row ``row`` is next
        and the first ``available`` input rows are available."""
        if self.unit:
            last = self.slots(row)
            if available < self.in_rows:
                last = min(last, (available + self.pad) // self.unit)
            return min(max(0, last * self.unit - self.pad), available)
        return min(max(0, row * self.stride - self.pad), available)


@dataclass(frozen=True)
class RowSources:
    """Layers whose rows a layer reads: ``main`` through its windows, and each of ``added`` at its
    output row. Values are indices of earlier layers, or ``OUTSIDE``."""

    main: int
    added: tuple[int, ...] = ()


@dataclass(frozen=True)
class LayerCall:
    """One call, which computes ``rows`` output rows of a layer and then releases ``dropped`` more
    rows of its input."""

    layer: int
    rows: int
    dropped: int


@dataclass(frozen=True)
class ChainPlan:
    """Calls of a chain and their memory.

    For each layer but the last, ``max_live_rows`` is the maximum number of output rows in memory,
    and ``offsets`` their offset. ``line_buffers``: offsets of the line buffers. ``in_place``: the
    chain's result may start at its input's address. ``moved_bytes``: bytes of rows that are moved
    to the start of their memory.
    """

    layers: tuple[RowLayer, ...]
    sources: tuple[RowSources, ...]
    calls: tuple[LayerCall, ...]
    max_live_rows: tuple[int, ...]
    offsets: tuple[int, ...]
    line_buffers: tuple[int, ...]
    nbytes: int
    in_place: bool
    moved_bytes: int

    def overlaps(self, layer: int) -> bool:
        """Return whether a layer inside the chain overwrites its input."""
        source = self.sources[layer].main
        inside = source != OUTSIDE and layer < len(self.layers) - 1
        return inside and self.offsets[source] == self.offsets[layer]

    def readers(self, layer: int) -> tuple[list[int], list[int]]:
        """Return the layers that read an output through windows, and those that add it."""
        return _readers(self.sources, layer)


class ScheduleCache:
    """Cache of the calls of chains whose layers differ only in row sizes."""

    def __init__(self) -> None:
        self._schedules: dict[tuple[object, ...], _Schedule] = {}

    def schedule(self, layers: Sequence[RowLayer], sources: Sequence[RowSources]) -> _Schedule:
        """Return the calls of these layers."""
        bare = (replace(layer, in_bytes=0, out_bytes=0, line_buffer_bytes=0) for layer in layers)
        key = (*bare, *sources)
        if key not in self._schedules:
            self._schedules[key] = _Schedule(layers, sources)
        return self._schedules[key]


def plan_chain(
    layers: Sequence[RowLayer],
    align_bytes: int,
    sources: Sequence[RowSources] | None = None,
    schedules: ScheduleCache | None = None,
) -> ChainPlan:
    """Return the calls of these layers and the offsets of their rows and line buffers, aligned to
    ``align_bytes``. Without ``sources``, each layer reads the previous one."""
    row_sources = sources or [RowSources(k - 1) for k in range(len(layers))]
    schedule = (schedules or ScheduleCache()).schedule(layers, row_sources)
    groups = _join(schedule)
    sizes = [
        max(round_up(schedule.max_live_rows[k] * layers[k].out_bytes, align_bytes) for k in group)
        for group in groups
    ]
    line_buffers = [round_up(layer.line_buffer_bytes, align_bytes) for layer in layers]
    interference = _interference(groups, schedule.conflicts, len(line_buffers))
    offsets, nbytes = _assign_offsets([*sizes, *line_buffers], interference)
    of_group = {k: offsets[i] for i, group in enumerate(groups) for k in group}
    return ChainPlan(
        tuple(layers),
        tuple(row_sources),
        tuple(schedule.calls),
        tuple(schedule.max_live_rows[:-1]),
        tuple(of_group[k] for k in range(len(layers) - 1)),
        tuple(offsets[len(groups) :]),
        nbytes,
        schedule.in_place(layers),
        sum(rows * layer.out_bytes for rows, layer in zip(schedule.moved, layers)),
    )


def _readers(sources: Sequence[RowSources], layer: int) -> tuple[list[int], list[int]]:
    windows = [k for k, source in enumerate(sources) if source.main == layer]
    return windows, [k for k, source in enumerate(sources) if layer in source.added]


def _join(schedule: _Schedule) -> list[list[int]]:
    """Group outputs that share memory: a layer with its input if every call may overwrite what it
    reads."""
    groups: list[list[int]] = []
    for place, others in enumerate(schedule.conflicts[:-1]):
        of_input = [group for group in groups if schedule.sources[place].main in group]
        if of_input and place not in schedule.never_overwrites and not others & set(of_input[0]):
            of_input[0].append(place)
        else:
            groups.append([place])
    return groups


def _interference(
    groups: Sequence[Sequence[int]], conflicts: Sequence[set[int]], line_buffers: int
) -> list[list[int]]:
    """Return for each group of row memory, then each line buffer, what it must not overlap."""
    count = len(groups) + line_buffers
    group_conflicts = [set().union(*(conflicts[k] for k in group)) for group in groups]
    between_groups = [
        [j for j, other in enumerate(groups) if j != i and group_conflicts[i] & set(other)]
        + list(range(len(groups), count))
        for i in range(len(groups))
    ]
    return [
        *between_groups,
        *([j for j in range(count) if j != i] for i in range(len(groups), count)),
    ]


def _assign_offsets(
    sizes: Sequence[int], interference: Sequence[Sequence[int]]
) -> tuple[list[int], int]:
    """Return the offset of each size, and the total size."""
    largest = sorted(range(len(sizes)), key=lambda i: (-sizes[i], i))
    by_conflicts = sorted(range(len(sizes)), key=lambda i: (-len(interference[i]), -sizes[i], i))
    conflicts = [[(j, sizes[i], sizes[j]) for j in row] for i, row in enumerate(interference)]
    layouts = [fill(conflicts, order) for order in (largest, by_conflicts)]
    tops = [max(o + s for o, s in zip(offsets, sizes)) for offsets in layouts]
    best = tops.index(min(tops))
    return layouts[best], tops[best]


class _Schedule:
    """Simulation of the calls in order, and of the rows that are in memory."""

    def __init__(self, layers: Sequence[RowLayer], sources: Sequence[RowSources]) -> None:
        """Request all rows of the last layer."""
        self.layers, self.sources = layers, sources
        self.last = len(layers) - 1
        self.readers = [_readers(sources, k) for k in range(len(layers))]
        self.calls: list[LayerCall] = []
        self.computed = [0] * len(layers)
        self.first = [0] * len(layers)  # input rows that a layer has released
        self.base = [0] * len(layers)  # first output row that is in memory
        self.max_live_rows = [0] * len(layers)
        # for each output, the others in memory at the same time
        self.conflicts: list[set[int]] = [set() for _ in layers]
        self.never_overwrites: set[int] = set()
        self.in_memory: set[int] = set()
        self.moved = [0] * len(layers)  # output rows that are moved to the start of their memory
        # for each call of the last layer, the total of rows computed, and of the chain's input rows
        # that are released
        self.written: list[tuple[int, int]] = []
        self.run(self.last, layers[self.last].out_rows)

    def in_place(self, layers: Sequence[RowLayer]) -> bool:
        """Return whether the result may start at the input's address, for these row sizes."""
        sizes = layers[self.last].out_bytes, layers[0].in_bytes
        return all(computed * sizes[0] <= free * sizes[1] for computed, free in self.written)

    def available_rows(self, layer: int) -> int:
        """Return how many input rows, from the first, are available to a layer."""
        source = self.sources[layer].main
        return self.layers[layer].in_rows if source == OUTSIDE else self.computed[source]

    def run(self, layer: int, target: int) -> None:
        """Compute output rows up to ``target``."""
        shape = self.layers[layer]
        while self.computed[layer] < target:
            rows = min(shape.step, shape.out_rows - self.computed[layer])
            if shape.unit:
                self._fill_slots(layer)
            else:
                rows = min(rows, target - self.computed[layer])
            self._request_rows(layer, shape.needed(self.computed[layer], rows))
            for added in self.sources[layer].added:
                self.run(added, self.computed[layer] + rows)
            self._call(layer, rows)

    def _fill_slots(self, layer: int) -> None:
        """Fill all slots of the next step but the last, one by one, to keep few rows in memory."""
        shape = self.layers[layer]
        inside = self.sources[layer].main != OUTSIDE
        for slot in range(1, shape.slots(self.computed[layer]) if inside else 0):
            end = slot * shape.unit - shape.pad
            if self.first[layer] < end < shape.in_rows:
                self._request_rows(layer, end)
                self._call(layer, 0)

    def _request_rows(self, layer: int, rows: int) -> None:
        if self.sources[layer].main != OUTSIDE:
            self.run(self.sources[layer].main, rows)

    def _call(self, layer: int, rows: int) -> None:
        shape, before = self.layers[layer], self.first[layer]
        available, live = self.available_rows(layer), self._live_layers()
        if rows and layer != self.last:
            self._discard_rows(layer, rows)
        read = shape.first_needed_row(self.computed[layer], available) if shape.unit else 0
        self.computed[layer] += rows
        end = read if shape.unit else shape.first_needed_row(self.computed[layer], available)
        if self.computed[layer] == shape.out_rows:
            end = available
        self.first[layer] = max(end, before)
        self.calls.append(LayerCall(layer, rows, self.first[layer] - before))
        self._update_live(layer)
        if rows:
            self._record_write(layer, live, before)
        self._add_conflicts(self._live_layers())

    def _discard_rows(self, layer: int, rows: int) -> None:
        """Discard released rows of a layer's output, and move the remaining rows to the start."""
        first_needed, computed = self._first_needed_row(layer), self.computed[layer]
        if self.base[layer] < first_needed < computed:
            self.moved[layer] += computed - first_needed
        self.base[layer] = first_needed
        self.max_live_rows[layer] = max(self.max_live_rows[layer], computed + rows - first_needed)

    def _first_needed_row(self, layer: int) -> int:
        """Return the first output row of a layer that is still needed."""
        windows, adding = self.readers[layer]
        return min([*(self.first[k] for k in windows), *(self.computed[k] for k in adding)])

    def _record_write(self, layer: int, live: set[int], before: int) -> None:
        """Record conflicts while a call writes; ``before``: the first input row that it reads."""
        if layer == self.last:
            self.written.append((self.computed[layer], self._count_released(before)))
            return
        source = self.sources[layer].main
        over = self.layers[layer].may_overwrite_input and source not in self._live_layers()
        self._add_conflicts(live - {source} | {layer})
        if not over:
            self.never_overwrites.add(layer)
            self._add_conflicts({source, layer} - {OUTSIDE})

    def _count_released(self, before: int) -> int:
        """Return how many rows of the chain's input are released."""
        firsts = [self.first[k] for k, s in enumerate(self.sources) if s.main == OUTSIDE]
        return min([*firsts, *([before] if self.sources[self.last].main == OUTSIDE else [])])

    def _update_live(self, layer: int) -> None:
        """Update which outputs are in memory after a call of this layer."""
        for k in (layer, self.sources[layer].main, *self.sources[layer].added):
            if k in range(self.last) and self.computed[k] > self._first_needed_row(k):
                self.in_memory.add(k)
            else:
                self.in_memory.discard(k)

    def _live_layers(self) -> set[int]:
        """Return the layers with output rows in memory between two calls."""
        return set(self.in_memory)

    def _add_conflicts(self, together: set[int]) -> None:
        for place in together:
            self.conflicts[place] |= together - {place}
