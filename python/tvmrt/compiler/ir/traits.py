"""Traits: facts about the mathematics of operators; passes and devices select nodes with them.

An operator declares the traits that are true of it, whatever uses them. A pass asks
``node.has(Trait.POOL)``, so a new operator takes part in all passes without a change of theirs.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Trait(Enum):
    """Fact about an operator. x is its first operand, y its first result. Elements of quantised
    tensors are the numbers that their integers stand for."""

    CONVOLUTION = (
        "y [N OC *Y] sums products of a sliding window of x [N C *S] with weights "
        "[OC C/groups *K], the second operand; attributes as of conv"
    )
    MATRIX_PRODUCT = (
        "y [*Y M N] is the matrix product of x [*A M K] and the second operand [*B K N], whose "
        "last axes may be swapped according to `weights`; leading axes broadcast"
    )
    POOL = (
        "an element of y [N C *Y] depends on a sliding window of one channel of x [N C *S]; y is "
        "the only result; attributes as of max_pool"
    )
    RECURRENT = "y holds a state after each step, computed from x of the step and the last state"
    EXTREMUM = "an element of y is the maximum, or is the minimum, of some elements of x"
    MEAN = "an element of y is the mean of some elements of x, and of zeros for counted padding"
    MOVES_ELEMENTS = (
        "an element of y is an element of x; which one does not depend on the elements of x"
    )
    CONCATENATES = "y has the elements of all operands, one operand after another along an axis"
    REARRANGES = "y has each element of x exactly once, and no others"
    CONVERTS = "y has the elements of x in another element type"
    ELEMENTWISE = (
        "an element of y depends only on elements of the operands at the same (broadcast) index; "
        "of small operands without that index, as lookup tables, on all elements"
    )
    COMMUTATIVE = "the two operands may be swapped"
    LOWER_LIMIT = "y is the maximum of x and the second operand, or of x and 0 without one"
    UPPER_LIMIT = "y is the minimum of x and the second operand"
    EXACT = "all implementations agree in every bit of y, ties of a rounding to integers aside"
    BFLOAT16 = "its code can round its operands to bfloat16 before it multiplies them"
    INT8_ACTIVATIONS = "its code can round its first operand to 8 bits before it multiplies it"
    CHANNELS_INNERMOST = "its code reads x [N C *S] and writes y with the channels innermost"
    ANY_LAYOUT = "its code reads x in any order of axes, and writes y in the same order"


class Weights(NamedTuple):
    """Weights of a matmul-like operator.

    Element c of the result along the operator's ``channel_axis`` sums products of elements of x
    with the weights of output channel c, plus element c of the bias. Axes may count from the end.
    The operands after the weights are an optional bias; for an integer form scale, bias and w_zero.
    """

    operand: int  # index of the operand
    output_axis: int  # its axis of output channels (in each group)
    input_axis: int  # its axis of the channels of x that are summed (in each group)
