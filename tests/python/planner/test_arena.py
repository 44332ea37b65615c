"""Arena packing: no overlaps, never below the lower bound, close to it in typical cases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvmrt.compiler.planner.arena import Interval, assign_offsets, liveness_bound

intervals = st.lists(
    st.builds(
        lambda size, first, length: Interval(size * 64, first, first + length),
        st.integers(1, 40),
        st.integers(0, 30),
        st.integers(0, 8),
    ),
    max_size=30,
)


@given(intervals)
def test_live_intervals_do_not_overlap(rows):
    offsets = assign_offsets(rows)
    for i, a in enumerate(rows):
        for j in range(i):
            b = rows[j]
            if a.overlaps(b):
                assert offsets[i] + a.size <= offsets[j] or offsets[j] + b.size <= offsets[i]


@given(intervals)
def test_top_is_at_least_the_bound_and_at_most_the_sum(rows):
    offsets = assign_offsets(rows)
    top = max((o + r.size for o, r in zip(offsets, rows)), default=0)
    assert liveness_bound(rows) <= top <= sum(r.size for r in rows)


@given(intervals)
def test_bound_is_the_largest_sum_alive_at_one_step(rows):
    steps = range(0, 40)
    sums = [sum(r.size for r in rows if r.first <= s <= r.last) for s in steps]
    assert liveness_bound(rows) == max(sums, default=0)


@given(intervals)
def test_placement_is_deterministic(rows):
    assert assign_offsets(rows) == assign_offsets(list(rows))


def test_chain_of_layers_reaches_the_bound():
    rows = [Interval(64 * (1 + i % 5), i, i + 1) for i in range(50)]
    offsets = assign_offsets(rows)
    assert max(o + r.size for o, r in zip(offsets, rows)) == liveness_bound(rows)
