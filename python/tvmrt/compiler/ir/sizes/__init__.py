"""Sizes: expressions of dimensions, and their bounds.

``extent``: the expressions and their arithmetic. ``bounds``: their minimum and maximum. ``forms``:
questions about their form. ``undecided`` and ``assumptions``: questions that bounds leave open.
"""

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
    as_extent,
    data_dependent_symbols,
    error_context,
    expected_size,
    extent_text,
    linear_form,
    lower_bound,
    solve,
    sym_sum,
    symbols_of,
    upper_bound,
    value_at,
)

__all__ = [
    "EXPECTED_SIZE",
    "INT_MAX",
    "MAX_SIZES",
    "MAX_WEIGHT",
    "Atom",
    "Extent",
    "MaxWithZero",
    "Quotient",
    "SymInt",
    "Symbol",
    "all_sizes",
    "allocation_extent",
    "as_extent",
    "bounds",
    "collect_printed_symbols",
    "data_dependent_symbols",
    "error_context",
    "exact_quotient",
    "expected_size",
    "extent_text",
    "is_unbounded",
    "linear_form",
    "lower_bound",
    "solve",
    "sym_max",
    "sym_min",
    "sym_sum",
    "symbols_of",
    "upper_bound",
    "value_at",
]
