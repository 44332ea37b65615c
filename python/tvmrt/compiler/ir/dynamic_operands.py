"""Operators for operands that are known only at run time: indices along axes, and integers that
are compared with the values for which the network was compiled."""

from __future__ import annotations

from math import prod

import numpy as np

from .contract import Contract, holds, let
from .op import Op, register


@register("take_at")
class TakeAt(Op):
    """Select elements by indices for each axis of x; index -1 gives ``value``, if that is present.

    An index outside its axis stops the run with an error.
    """

    contract = Contract(
        "x: E=any[*S], value?: E[], places+: int64[_] -> y: E[*Y]",
        rules=[
            holds("there are places for each axis of x", lambda S, places: len(S) == len(places)),
            let("*Y", "how many places each axis has", lambda places: [p.size for p in places]),
        ],
    )

    def evaluate(self, arrays, attrs):
        x, value, *places = arrays
        least = 0 if value is None else -1
        if any(((p < least) | (p >= n)).any() for p, n in zip(places, x.shape)):
            return None
        if 0 in x.shape:
            return [np.full([p.size for p in places], 0 if value is None else value, x.dtype)]
        selected = x[np.ix_(*places)]
        outside = np.zeros(selected.shape, bool)
        for grid in np.meshgrid(*(p < 0 for p in places), indexing="ij"):
            outside |= grid
        return [np.where(outside, x.dtype.type(0) if value is None else value, selected)]


SIZES_AT_WHICH = "sizes at which "  # ``require`` with this text checks the sizes of the inputs


@register("require")
class Require(Op):
    """Stop the run with an error unless ``found`` is ``expected``.

    The error shows the run-time operand ``given``, and ``text``: what the network was compiled
    for; the error is a SizeConditionError if that starts with ``SIZES_AT_WHICH``, else a
    ValueError. ``where`` is the operand's name. The node is never removed, although its result is
    unused.
    """

    has_side_effects = True
    contract = Contract(
        "found: int64[*], given: int64[*] -> y: bool[]",
        "expected: ints, where: text, text: text",
        rules=[
            holds(
                "expected has as many elements as found",
                lambda found, expected: prod(found.shape) == len(expected),
            )
        ],
        example={"expected": (2,), "found": (1,)},
    )
