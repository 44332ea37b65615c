"""Reshape with an extent of the shape that is 0 in some runs: such a 0 copies the input's extent.

With ``allowzero=0`` an element 0 of the shape means the input's extent at that index. This includes
computed elements: ``[-1, N]`` for an input ``[2, 4, N]`` means ``[8, N]`` in a run with N above 0,
and ``[0, 4]`` in a run with N = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from tvmrt.compiler.ir.sizes import (
    Extent,
    SymInt,
    all_sizes,
    bounds,
    exact_quotient,
    lower_bound,
    sym_max,
    symbols_of,
)


def resolve_zero_extents(
    input_extents: Sequence[SymInt], shape: Sequence[SymInt], free: int | None
) -> list[SymInt]:
    """Return the extents of the result; extents that are 0 in a run become the input's.

    ``input_extents``: the extents of the input. ``free``: the index of -1 in the shape, for which
    ``shape`` has the inferred extent. If the standard makes a run invalid, such as ``[8, N]`` with
    N = 0, the shape is kept.
    """
    zero = {
        i: sym_max(1 - n, 0)  # 1 if the extent is 0, else 0
        for i, (n, own) in enumerate(zip(shape, input_extents))
        if i != free and can_be_zero(n) and not _is_zero_with(own, n)
    }
    result = list(shape)
    if not zero:
        return result
    copied = [n + input_extents[i] * zero[i] if i in zero else n for i, n in enumerate(shape)]
    if free is None:
        # only a result without elements has as many elements as the input, which is then empty
        # along another axis than that of the 0, or the copied extent is 0
        empties = {i for i, n in enumerate(input_extents) if can_be_zero(n)}
        zero = {i: is_zero for i, is_zero in zero.items() if empties - {i}}
        if not any(can_be_zero(input_extents[i] if i in zero else n) for i, n in enumerate(shape)):
            return result
        empty = sym_max(1 - prod(copied), 0)
        for i, is_zero in zero.items():
            result[i] = shape[i] + input_extents[i] * is_zero * empty
        return result
    copied[free] = shape[free] * prod(1 - is_zero for is_zero in zero.values())
    return copied


def _is_zero_with(own: SymInt, n: SymInt) -> bool:
    """Return whether an extent is known to be 0 in each run with an ``n`` of 0: its multiple, or a
    fraction of it."""
    return own == 0 or exact_quotient(own, n) is not None or isinstance(exact_quotient(n, own), int)


def can_be_zero(n: SymInt) -> bool:
    """Return whether an extent may be 0 in a run."""
    if not isinstance(n, Extent) or lower_bound(n) > 0:
        return n == 0
    symbols = symbols_of(n)
    sizes = all_sizes(symbols) if len(symbols) == 1 else None
    return bounds(n)[1] >= 0 if sizes is None else bool(np.any(n.at(sizes) == 0))
