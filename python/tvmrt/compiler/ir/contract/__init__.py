"""Contracts: what an operator takes and gives, said once, checked and printed from there.

A contract is a few lines of text::

    Contract(
        "x: float32[T B 4*H], r: constant float32[4*H H], lengths?: int32[B] -> y: float32[T B H]",
        "reverse: bool, clip: float 0..",
    )

Operands, and behind an arrow results, with commas between them: a name, ``?`` where it may be left
out, ``+`` for one or more, ``*`` for any number of which each may be left out, ``constant`` where
its elements must be known when compiling, element types, and the extents in brackets.

- element types: names and families joined by ``|``, see ``FAMILIES``; ``E=float`` lets the letter
  E stand for the type that is found, in all that follows; a result may name a dtype attribute;
- ``H``: an extent that is the same wherever H stands; ``4*H``, ``C/groups`` (which divides),
  ``N+1``: formulas of extents and integer attributes; ``1|C``: one of several; ``_``: any;
- ``*S``: any number of axes, ``*S{1..3}`` one to three, ``*K{S}`` as many as S; ``*``: any axes,
  not compared with others. One such word for each operand. A result's may be a list attribute.

Attributes: a name, ``?`` where it may be missing, and one of

- ``int``, ``float``, with a range ``1..``, ``..9`` or ``0..1``; integers fit 32 bits in any case;
- ``int of x``: what the element type of operand x, or the dtype attribute x, can hold;
- ``axis of x``, ``axes of x``, ``order of x``: an axis, ascending axes, all axes in some order;
  none counted from the end;
- ``ints[*S] 1..``: one for each axis of S, ``ints[2]``: two, ``ints``: any number;
- ``bool``, ``text``, ``floats``, ``object``; ``linear|cubic``: a choice; ``dtype float``: the name
  of an element type of that family, ``dtype`` of any.

What else must hold is said by ``rules``, in order: ``holds(words, test)`` and ``let(name, words,
value)``. The parameters of their functions are names of operands (types, None if left out),
attributes, extents, axes (tuples) and element types; ``NAME_data`` is an operand's array, and the
rule is left out where the elements are not known. A repeated operand is a tuple. A result may use
what ``let`` has named.

``Contract.bind`` checks one application and raises ``Misfit``, a ValueError with one sentence;
``Contract.result_types`` gives the types of its results.
"""

from .contract import Contract
from .elements import FAMILIES
from .extents import LIMIT, Misfit
from .rules import Rule, holds, let

__all__ = ["FAMILIES", "LIMIT", "Contract", "Misfit", "Rule", "holds", "let"]
