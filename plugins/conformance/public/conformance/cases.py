"""Networks that are offered to a device, drawn by a seed from the cards of the operators."""

from __future__ import annotations

from functools import cache

import numpy as np

from . import elementwise_cases, float_cases, quantized_cases
from .case import Case
from .draw import Draw
from .reference import reference

CARDS = float_cases.CARDS | elementwise_cases.CARDS | quantized_cases.CARDS
SEED = 1  # of the command; a process of a check may have another
FIRST = 2  # cases of a card that choose the card
MAXIMA = {"n": 13, "h": 21}  # extents of dynamic dimensions


@cache
def drawn(card: str, further: bool = False) -> tuple[Case, ...]:
    """Return the first two cases of a card, which show what a device takes, or the
    others."""
    function, count = CARDS[card]
    found = []
    for turn in range(FIRST, count) if further else range(FIRST):
        with np.errstate(all="ignore"):
            case = function(Draw(SEED, card, turn))
        case.name, case.card = f"{case.name} {turn}", card
        if _has_reference(case):
            found.append(case)
    return tuple(found)


def _has_reference(case: Case) -> bool:
    """Return whether the reference computes the case: it lacks some element types."""
    try:
        case.golden = reference(case)
    except Exception as problem:
        if "NOT_IMPLEMENTED" in str(problem) or isinstance(problem, NotImplementedError):
            return False
        raise
    return True


def dynamic_cases(cases: list[Case]) -> list[Case]:
    """Return the cases that may have a dynamic axis, with inputs of the maximum extent."""
    small = [case for case in cases if max(a.size for a in case.feeds.values()) <= 4000]
    small = [case for case in small if not case.quantized_inside]
    return [_dynamic_case(case, axis) for case in small for axis in case.opens]


def _dynamic_case(case: Case, axis: int) -> Case:
    name = "n" if axis == 0 else "h"
    feeds = {}
    for feed, array in case.feeds.items():
        times = -(-MAXIMA[name] // array.shape[axis])
        longer = np.concatenate([array] * times, axis)
        feeds[feed] = longer.take(range(MAXIMA[name]), axis)
    dynamic = {feed: {axis: name} for feed in feeds}
    how = f"{case.name}, open {'rows' if axis == 0 else 'pixels'}"
    return Case(how, case.nodes, feeds, case.weights, case.outputs, case.exact, dynamic)
