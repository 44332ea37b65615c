"""Contracts: the operands, results and attributes of an operator, for checks and documentation.

A contract is a few lines of text::

    Contract(
        "x: float32[T B 4*H], r: constant float32[4*H H], lengths?: int32[B] -> y: float32[T B H]",
        "reverse: bool, clip: float 0..",
    )

Operands, an arrow, and results, separated by commas. Each has a name, a mark (``?`` optional, ``+``
one or more, ``*`` any number, each optional), ``constant`` if its elements must be known
at compile time, element types, and the extents in brackets.

- element types: names and families joined by ``|``, see ``FAMILIES``; ``E=float`` binds the type
  that is found to the letter E for the rest of the contract; a result may name a dtype attribute;
- ``H``: an extent that is the same at each use of H; ``4*H``, ``C/groups`` (an exact division),
  ``N+1``: formulas of extents and integer attributes; ``1|C``: one of several; ``_``: any extent;
- ``*S``: any number of axes, ``*S{1..3}`` one to three, ``*K{S}`` as many as S; ``*``: any axes
  without a name. At most one such word for each operand. A result may use a list attribute.

Attributes: a name, ``?`` if it may be missing, and one of

- ``int``, ``float``, with a range ``1..``, ``..9`` or ``0..1``; integers fit 32 bits in any case;
- ``int of x``: in the range of the element type of operand x or of the dtype attribute x;
- ``axis of x``, ``axes of x``, ``order of x``: an axis, ascending axes, all axes in some order;
  never counted from the end;
- ``ints[*S] 1..``: one for each axis of S, ``ints[2]``: two, ``ints``: any number;
- ``bool``, ``text``, ``floats``, ``object``; ``linear|cubic``: a choice; ``dtype float``: the name
  of an element type of that family, ``dtype`` of any.

In parentheses after it, where its value is in a node of ONNX if not in an attribute of that name:
``(operand 1)``, which is an attribute in older opsets, ``(NAME)`` of the attribute, and
``(bilinear=linear)``, other names of choices. They are no part of the operator.

``rules`` are further conditions, in order: ``holds(words, test)`` and ``let(name, words, value)``.
The parameters of their functions are names of operands (types, None if left out), attributes,
extents, axes (tuples) and element types. ``NAME_data`` is an operand's array; the rule is skipped
if its elements are not known. A repeated operand is a tuple. A result may use names that ``let``
defines.

``Contract.bind`` checks one application and raises ``ContractError``, a ValueError with one
sentence. ``Contract.result_types`` returns the types of its results.
"""

from .contract import Contract
from .element_types import FAMILIES
from .extent_formula import LIMIT, ContractError
from .rules import Rule, holds, let

__all__ = ["FAMILIES", "LIMIT", "Contract", "ContractError", "Rule", "holds", "let"]
