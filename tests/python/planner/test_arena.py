"""Arena packing: no overlaps, never below the lower bound, close to it in typical cases."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tvmrt.compiler.planner.arena import Interval, assign_offsets, liveness_bound

STEPS = range(40)


def interval(size, first, length, falls):
    """``falls``: for each step after the first, by how much the interval is smaller."""
    sizes = [size]
    for fall in falls[:length]:
        sizes.append(max(1, sizes[-1] - fall))
    smaller = tuple((first + i, 64 * n) for i, n in enumerate(sizes) if i and n < sizes[i - 1])
    return Interval(64 * size, first, first + length, smaller)


intervals = st.lists(
    st.builds(
        interval,
        st.integers(1, 40),
        st.integers(0, 30),
        st.integers(0, 8),
        st.lists(st.integers(0, 20), max_size=4),
    ),
    max_size=30,
)


def live_bytes(row, step):
    """The bytes of an interval at a step, by counting."""
    if not row.first <= step <= row.last:
        return 0
    sizes = [size for begin, size in ((row.first, row.size), *row.smaller) if begin <= step]
    return sizes[-1]


@given(intervals)
def test_live_intervals_do_not_overlap(rows):
    offsets = assign_offsets(rows)
    for i, a in enumerate(rows):
        for j in range(i):
            for step in STEPS:
                a_size, b_size = live_bytes(a, step), live_bytes(rows[j], step)
                if a_size and b_size:
                    assert offsets[i] + a_size <= offsets[j] or offsets[j] + b_size <= offsets[i]


@given(intervals)
def test_top_is_at_least_the_bound_and_at_most_the_sum(rows):
    offsets = assign_offsets(rows)
    top = max((o + r.size for o, r in zip(offsets, rows)), default=0)
    assert liveness_bound(rows) <= top <= sum(r.size for r in rows)


@given(intervals)
def test_bound_is_the_largest_sum_alive_at_one_step(rows):
    sums = [sum(live_bytes(row, step) for row in rows) for step in STEPS]
    assert liveness_bound(rows) == max(sums, default=0)


def test_bytes_of_an_interval_that_becomes_smaller_are_used_again():
    rows = [Interval(640, 0, 9, ((1, 64),)), *(Interval(576, i, i) for i in range(1, 9))]
    offsets = assign_offsets(rows)
    assert max(o + r.size for o, r in zip(offsets, rows)) == 640


@given(intervals)
def test_placement_is_deterministic(rows):
    assert assign_offsets(rows) == assign_offsets(list(rows))


def test_chain_of_layers_reaches_the_bound():
    rows = [Interval(64 * (1 + i % 5), i, i + 1) for i in range(50)]
    offsets = assign_offsets(rows)
    assert max(o + r.size for o, r in zip(offsets, rows)) == liveness_bound(rows)
