"""Sizes: expressions of dimensions, and their bounds.

``extent``: the expressions and their arithmetic. ``bounds``: their minimum and maximum. ``forms``:
questions about their form. ``int_range``: which of them C's int can hold. ``undecided`` and
``assumptions``: questions that bounds leave open.
"""

# ruff: noqa: F401 (names for other packages)

from .bounds import MAX_SIZES, all_sizes, bounds
from .extent import (
    INT_MAX,
    MAX_WEIGHT,
    Atom,
    Extent,
    MaxWithZero,
    Quotient,
    Symbol,
    SymInt,
    collect_printed_symbols,
    exact_quotient,
    is_unbounded,
    sym_max,
    sym_min,
)
from .forms import (
    EXPECTED_SIZE,
    allocation_extent,
    allocation_shape,
    as_extent,
    data_dependent_symbols,
    error_context,
    expected_size,
    extent_text,
    linear_form,
    lower_bound,
    solve,
    substitute,
    sym_sum,
    symbols_of,
    upper_bound,
    value_at,
)
