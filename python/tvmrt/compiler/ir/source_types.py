"""Propagation of the element types of the network's file through the operators of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from .contract import FAMILIES, Contract
from .tensor_type import TensorType

_UNCOMPUTED = frozenset(FAMILIES["half"])


@lru_cache(maxsize=512)
def moved_operands(contract: Contract) -> tuple[int, ...]:
    """Return the indices of the operands whose elements the first result has.

    An operator that returns the type that it takes can only move elements if it takes types that
    no operator computes in, such as half precision, or if its first operand is a condition. A
    repeated operand stands for all operands from its index on.
    """
    types = [o.elements for o in contract.operands]
    selects = bool(types) and types[0].allowed == {"bool"}
    letters = {e.letter for e in types if e.allowed and (selects or _UNCOMPUTED <= e.allowed)}
    letter = contract.results[0].elements.letter if contract.results else None
    if letter is None or letter not in letters:
        return ()
    return tuple(i for i, o in enumerate(contract.operands) if o.elements.letter == letter)


def propagate_sources(
    contract: Contract, operands: Sequence[TensorType | None], results: list[TensorType]
) -> list[TensorType]:
    """Return the result types of an operator that moves elements with their type in the file."""
    if not any(type is not None and type.source is not None for type in operands):
        return results
    moved = moved_operands(contract)
    if not moved:
        return results
    last = len(operands) if contract.operands[moved[-1]].repeated else moved[-1] + 1
    types = [operands[i] for i in (*moved[:-1], *range(moved[-1], last)) if i < len(operands)]
    sources = [type.source for type in types if type is not None]
    found = next((source for source in sources if source is not None), None)
    if found is None or (found.labels is not None and any(s != found for s in sources)):
        return results  # indices into different lists
    return [results[0].with_source(found), *results[1:]]
