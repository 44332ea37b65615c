"""The C function that computes an operator, as part of the operator's declaration."""

from __future__ import annotations

from typing import NamedTuple


class Kernel(NamedTuple):
    """C function that computes an operator with dense operands and results by one call.

    ``header`` is in ``kernels/``. ``function`` may have names in braces: the element type of an
    operand, or the value of an attribute. ``arguments`` are separated by spaces, after ``*y= `` if
    the function returns the only element of y:

    - an operand or a result: the pointer to it; ``*x``: its only element; ``x.size``: the number of
      its elements;
    - an attribute: its value; an extent of the contract, or a formula such as ``C-1``;
    - ``!words``: the function may fail, and gets the text that locates the error: the node, and
      these words, which may have attributes in braces.
    """

    header: str
    function: str
    arguments: str
