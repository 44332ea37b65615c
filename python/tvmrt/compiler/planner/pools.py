"""Packing of intervals into several memories, ordered from fastest to slowest.

Each interval lies in the first memory in which it fits; those with the most traffic are placed
first. Each memory is then packed separately. As for a single arena, a few placement orders are
tried, followed by a short search if something does not fit.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from .arena import (
    Interval,
    assign_offsets,
    best_fit,
    interference_of,
    max_search_iterations,
    top_of,
)

SEARCH_ITERATIONS = 200

Placement = tuple[int, int]  # index of the memory, and offset in it


def place_in_pools(
    intervals: Sequence[Interval],
    capacities: Sequence[int | None],
    allowed: Sequence[Sequence[int]],
    traffic: Sequence[int],
) -> list[Placement]:
    """Return a memory and an offset for each interval; intervals live together do not overlap.

    ``capacities`` are in bytes, None for no limit. ``allowed`` lists the memories for each
    interval, the best first. ``traffic`` is the bytes of it that one run reads and writes.
    Intervals that fit nowhere exceed the capacity of the allowed memory with the smallest overflow;
    the caller checks. Deterministic.
    """
    favourites = {pools[0] for pools in allowed}
    if len(favourites) == 1:
        favourite = favourites.pop()
        offsets = assign_offsets(intervals)
        capacity = capacities[favourite]
        alone = all(len(pools) == 1 for pools in allowed)
        if alone or capacity is None or top_of(intervals, offsets) <= capacity:
            return [(favourite, offset) for offset in offsets]
    placements = _Search(intervals, capacities, allowed, traffic).best()
    return _compact(intervals, placements, len(capacities))


class _Search:
    def __init__(self, intervals, capacities, allowed, traffic) -> None:
        self.intervals = intervals
        self.capacities = capacities
        self.allowed = allowed
        self.traffic = traffic
        self.interference = interference_of(intervals)
        self.failed: list[int] = []

    def best(self) -> list[Placement]:
        sizes = [interval.size for interval in self.intervals]
        indices = range(len(sizes))
        density = [t / max(size, 1) for t, size in zip(self.traffic, sizes)]
        orders = [
            sorted(indices, key=lambda i: (-density[i], -sizes[i])),
            sorted(indices, key=lambda i: (-self.traffic[i], -sizes[i])),
            sorted(indices, key=lambda i: (-sizes[i], -density[i])),
            sorted(indices, key=lambda i: (len(self.allowed[i]), -sizes[i])),
        ]
        attempts = [(*self._try(order), order) for order in orders]
        cost, placements, order = min(attempts, key=lambda f: f[0])
        return placements if cost[0] == 0 else self._repair(cost, placements, order)

    def _repair(self, cost, places, order) -> list[Placement]:
        """Repeatedly place an interval that did not fit earlier."""
        generator = random.Random(0)
        for _ in range(min(SEARCH_ITERATIONS, max_search_iterations(self.interference))):
            self._try(order)
            pick = generator.choice(self.failed) if self.failed else generator.choice(order)
            trial = [i for i in order if i != pick]
            trial.insert(generator.randrange(max(1, len(trial) // 2)), pick)
            new_cost, new_places = self._try(trial)
            if new_cost <= cost:
                cost, places, order = new_cost, new_places, trial
            if cost[0] == 0:
                break
        return places

    def _try(self, order: Sequence[int]) -> tuple[tuple[int, int, int], list[Placement]]:
        """Place in this order; return the cost (overflow, slow traffic, size) and the plan."""
        placements: list[Placement | None] = [None] * len(self.intervals)
        self.failed = []
        for i in order:
            placements[i] = self._find_placement(i, placements)
        tops = [0] * len(self.capacities)
        slow = 0
        for i, (pool, offset) in enumerate(placements):
            tops[pool] = max(tops[pool], offset + self.intervals[i].size)
            slow += pool * self.traffic[i]
        over = sum(max(0, t - c) for t, c in zip(tops, self.capacities) if c is not None)
        return (over, slow, sum(tops)), placements

    def _find_placement(self, i: int, placements) -> Placement:
        size = self.intervals[i].size
        offsets = {}
        for pool in self.allowed[i]:
            offsets[pool] = offset = best_fit(
                (placements[j][1], below, other)
                for j, below, other in self.interference[i]
                if placements[j] is not None and placements[j][0] == pool
            )
            capacity = self.capacities[pool]
            if capacity is None or offset + size <= capacity:
                return pool, offset
        self.failed.append(i)
        pool = min(offsets, key=lambda p: offsets[p] + size - self.capacities[p])
        return pool, offsets[pool]


def _compact(intervals, placements: Sequence[Placement], count: int) -> list[Placement]:
    """Pack each memory separately, and keep the result if it is shorter."""
    placements = list(placements)
    for pool in range(count):
        members = [i for i, placement in enumerate(placements) if placement[0] == pool]
        inside = [intervals[i] for i in members]
        offsets = assign_offsets(inside)
        if top_of(inside, offsets) < top_of(inside, [placements[i][1] for i in members]):
            for i, offset in zip(members, offsets):
                placements[i] = (pool, offset)
    return placements
