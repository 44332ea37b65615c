"""Packing of intervals into one arena; each has a size and a first and last live step.

Optimal packing is NP-hard, but networks are easy in practice: a few placement orders are tried,
followed by a short local search, which stops at the lower bound.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

SEARCH_ITERATIONS = 400
SEARCH_VISITS = 1 << 24  # maximum visits of neighbours in one search, about ten seconds


# Index of an interval that is live at a common step, and the bytes from the first one on: of the
# interval itself, and of the other one.
Conflict = tuple[int, int, int]


@dataclass(frozen=True)
class Interval:
    """``size`` bytes that are live from step ``first`` to step ``last``, inclusive. ``smaller``:
    steps from which on it has fewer bytes, at the same offset, with their number."""

    size: int
    first: int
    last: int
    smaller: tuple[tuple[int, int], ...] = ()

    def size_from(self, step: int) -> int:
        """Return the bytes at a step, which is the maximum of those at later ones."""
        return next((size for begin, size in reversed(self.smaller) if begin <= step), self.size)


def liveness_bound(intervals: Sequence[Interval]) -> int:
    """Return the maximum bytes live at one step, which every plan without copies needs."""
    change: dict[int, int] = {}
    for interval in intervals:
        before = 0
        for step, size in (
            (interval.first, interval.size),
            *interval.smaller,
            (interval.last + 1, 0),
        ):
            change[step] = change.get(step, 0) + size - before
            before = size
    live = peak = 0
    for step in sorted(change):
        live += change[step]
        peak = max(peak, live)
    return peak


def interference_of(intervals: Sequence[Interval]) -> list[list[Conflict]]:
    """Return for each interval the others that are live at a common step."""
    interference: list[list[Conflict]] = [[] for _ in intervals]
    live: list[int] = []
    for i in sorted(range(len(intervals)), key=lambda i: intervals[i].first):
        begin, size = intervals[i].first, intervals[i].size
        live = [j for j in live if intervals[j].last >= begin]
        for j in live:
            other = intervals[j].size_from(begin)
            interference[j].append((i, other, size))
            interference[i].append((j, size, other))
        live.append(i)
    return interference


def assign_offsets(intervals: Sequence[Interval]) -> list[int]:
    """Return an offset for each interval so that intervals live together do not overlap.

    Deterministic: the search uses a fixed random seed.
    """
    bound = liveness_bound(intervals)
    interference = interference_of(intervals)
    indices = range(len(intervals))
    orders = [
        sorted(indices, key=lambda i: (-intervals[i].size, intervals[i].first)),
        sorted(
            indices, key=lambda i: (-intervals[i].size * _length(intervals[i]), intervals[i].first)
        ),
        sorted(indices, key=lambda i: (-_length(intervals[i]), -intervals[i].size)),
        sorted(indices, key=lambda i: (intervals[i].first, -intervals[i].size)),
    ]
    best_offsets: list[int] = []
    best_top, best_order = -1, orders[0]
    for order in orders:
        offsets = fill(interference, order)
        top = top_of(intervals, offsets)
        if best_top < 0 or top < best_top:
            best_offsets, best_top, best_order = offsets, top, order
        if top == bound:
            return offsets
    return _search(intervals, interference, best_order, best_offsets, best_top, bound)


def _search(intervals, interference, order, offsets, top, bound) -> list[int]:
    """Repeatedly move an interval at the top of the arena to the front of the order."""
    generator = random.Random(0)
    best, best_top, order = offsets, top, list(order)
    current = offsets
    iterations = SEARCH_ITERATIONS if len(intervals) <= 400 else SEARCH_ITERATIONS // 8
    for _ in range(min(iterations, max_search_iterations(interference))):
        if best_top == bound:
            break
        highest = [
            i for i in range(len(intervals)) if current[i] + intervals[i].size == best_top
        ] or list(range(len(intervals)))
        trial = list(order)
        pick = generator.choice(highest)
        trial.remove(pick)
        trial.insert(generator.randrange(max(1, len(trial) // 2)), pick)
        if generator.random() < 0.3 and len(trial) > 1:
            a, b = generator.randrange(len(trial)), generator.randrange(len(trial))
            trial[a], trial[b] = trial[b], trial[a]
        candidate = fill(interference, trial)
        candidate_top = top_of(intervals, candidate)
        if candidate_top <= best_top:
            best, best_top, order, current = candidate, candidate_top, trial, candidate
    return best


def max_search_iterations(interference: Sequence[Sequence[Conflict]]) -> int:
    """Return how many orders may be tried, given the intervals that are live together."""
    return SEARCH_VISITS // max(1, sum(map(len, interference)))


def _length(interval: Interval) -> int:
    return interval.last - interval.first + 1


def top_of(intervals: Sequence[Interval], offsets: Sequence[int]) -> int:
    """Return the end of the highest interval."""
    return max((o + i.size for o, i in zip(offsets, intervals)), default=0)


def fill(interference: Sequence[Sequence[Conflict]], order: Sequence[int]) -> list[int]:
    """Place each interval, in ``order``, in the best-fitting gap between its placed neighbours."""
    offsets = [-1] * len(interference)
    for i in order:
        offsets[i] = best_fit(
            [(offsets[j], size, other) for j, size, other in interference[i] if offsets[j] >= 0]
        )
    return offsets


def best_fit(taken: Iterable[tuple[int, int, int]]) -> int:
    """Return an offset among intervals: the smallest gap that fits, else after all of them.

    ``taken``: offset of each interval, the bytes needed below it, and its own.
    """
    ordered = sorted(taken)
    limits = list(accumulate((begin - size for begin, size, _ in reversed(ordered)), min))
    cursor, best, best_gap = 0, None, None
    for (begin, _, nbytes), limit in zip(ordered, reversed(limits)):
        gap = begin - cursor
        if cursor <= limit and (best_gap is None or gap < best_gap):
            best, best_gap = cursor, gap
        cursor = max(cursor, begin + nbytes)
    return cursor if best is None else best
