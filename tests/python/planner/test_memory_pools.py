"""Packing into several memory pools: no overlaps, pool sizes respected where possible, most
accessed tensors in the first pool."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvmrt.compiler.planner.arena import Interval, liveness_bound
from tvmrt.compiler.planner.pools import place_in_pools

UNIT = 16
rows = st.lists(
    st.tuples(
        st.builds(
            lambda size, first, length: Interval(size * UNIT, first, first + length),
            st.integers(1, 40),
            st.integers(0, 20),
            st.integers(0, 8),
        ),
        st.sampled_from([(0, 1), (0,), (1,), (1, 0)]),
        st.integers(0, 5000),
    ),
    max_size=20,
)


def tops(intervals, places, count):
    return [
        max((o + i.size for i, (q, o) in zip(intervals, places) if q == p), default=0)
        for p in range(count)
    ]


@given(rows, st.integers(0, 60), st.integers(0, 200))
def test_live_tensors_do_not_overlap_and_stay_in_their_pools(drawn, small, large):
    intervals = [row[0] for row in drawn]
    allowed = [row[1] for row in drawn]
    places = place_in_pools(
        intervals, [small * UNIT, large * UNIT], allowed, [row[2] for row in drawn]
    )
    assert all(pool in may for (pool, _), may in zip(places, allowed))
    for i, (a, (pool, at)) in enumerate(zip(intervals, places)):
        for b, (other, begin) in zip(intervals[:i], places):
            if pool == other and a.first <= b.last and b.first <= a.last:
                assert at + a.size <= begin or begin + b.size <= at


@given(rows)
def test_pool_sizes_are_never_exceeded(drawn):
    intervals = [row[0] for row in drawn]
    total = sum(i.size for i in intervals)
    places = place_in_pools(
        intervals, [total, total], [row[1] for row in drawn], [row[2] for row in drawn]
    )
    assert max(tops(intervals, places, 2)) <= total


def chain(sizes):
    return [Interval(size, i, i + 1) for i, size in enumerate(sizes)]


@pytest.mark.parametrize(
    "capacities",
    [
        pytest.param([192, 96], id="fast-is-large"),
        pytest.param([96, 192], id="fast-is-small"),
        pytest.param([32, 192, 96], id="three"),
        pytest.param([256], id="one"),
    ],
)
def test_tight_fit_uses_every_pool(capacities):
    intervals = chain([96, 160, 96, 64, 128, 32])
    count = len(capacities)
    places = place_in_pools(intervals, capacities, [range(count)] * 6, [1] * 6)
    assert all(t <= c for t, c in zip(tops(intervals, places, count), capacities))


def test_the_most_touched_lies_in_the_first_memory():
    intervals = [Interval(64, 0, 3), Interval(64, 0, 3), Interval(64, 0, 3)]
    places = place_in_pools(intervals, [64, 1024], [(0, 1)] * 3, [64, 640, 128])
    assert [pool for pool, _ in places] == [1, 0, 1]


def test_everything_in_the_first_pool_if_it_fits():
    intervals = chain([64 * (1 + i % 5) for i in range(30)])
    bound = liveness_bound(intervals)
    places = place_in_pools(intervals, [bound, None], [(0, 1)] * 30, [1] * 30)
    assert {pool for pool, _ in places} == {0}


def test_oversized_tensor_exceeds_the_largest_pool():
    places = place_in_pools([Interval(100, 0, 0)], [10, 90], [(0, 1)], [1])
    assert places == [(1, 0)]


def test_one_tensor_of_one_pool_does_not_end_the_search():
    """Both are live at a time; the second one has to leave the pool that both prefer."""
    intervals = [Interval(100, 0, 1), Interval(100, 0, 1)]
    places = place_in_pools(intervals, [100, 1000], [[0], [0, 1]], [1, 1])
    assert places == [(0, 0), (1, 0)]
