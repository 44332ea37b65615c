"""Strided accesses compared with numpy's views."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tvmrt.compiler.ir.strided import Strided, dense

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def gather(at: Strided, size: int) -> np.ndarray:
    """Return the element indices that an access visits in a buffer of ``size``."""
    index = np.full(at.shape, at.offset)
    for axis, (n, stride) in enumerate(zip(at.shape, at.strides)):
        index = index + (np.arange(n) * stride).reshape(
            [-1 if d == axis else 1 for d in range(len(at.shape))]
        )
    assert index.size == 0 or (index.min() >= 0 and index.max() < size)
    return index


@st.composite
def permuted(draw):
    shape = draw(shapes)
    return shape, draw(st.permutations(range(len(shape))))


def factors(draw, total: int) -> tuple[int, ...]:
    parts = []
    while total > 1:
        divisors = [d for d in range(2, total + 1) if total % d == 0]
        part = draw(st.sampled_from(divisors))
        parts.append(part)
        total //= part
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), 1)
    return tuple(parts)


@given(permuted())
def test_dense_in_any_order_visits_every_element_once(case):
    shape, order = case
    index = gather(dense(shape, order), prod(shape))
    assert sorted(index.reshape(-1)) == list(range(prod(shape)))
    assert dense(shape, order).is_dense(order)


@given(permuted(), st.data())
def test_reshape_of_a_transposed_view_is_right_or_none(case, data):
    shape, order = case
    view = dense(shape).transpose(order)
    wanted = factors(data.draw, prod(shape))
    result = view.reshape(wanted)
    expected = gather(view, prod(shape)).reshape(wanted)
    if result is None:
        # numpy cannot express it by strides either
        array = np.arange(prod(shape)).reshape(shape).transpose(order)
        assert not np.shares_memory(array, array.reshape(wanted))
    else:
        np.testing.assert_array_equal(gather(result, prod(shape)), expected)


@given(permuted())
def test_order_of_a_dense_access_makes_it_dense(case):
    shape, order = case
    at = dense(shape, order)
    assert at.is_dense(at.order())
    assert sorted(at.order()) == list(range(len(shape)))


def test_slice_with_negative_step_reads_backwards():
    at = dense((5,)).slice([4], [-2], [3])
    assert gather(at, 5).tolist() == [4, 2, 0]


def test_expand_repeats_by_stride_zero():
    at = dense((3, 1)).expand((2, 3, 4))
    assert at.strides == (0, 1, 0)
    assert gather(at, 3).shape == (2, 3, 4)
