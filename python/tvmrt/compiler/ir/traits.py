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
    UPDATES = "y is x with other elements at some places"
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
    CORRECTLY_ROUNDED = "floats of y are the nearest ones to the exact numbers"
    BFLOAT16 = "its code can round its operands to bfloat16 before it multiplies them"
    INT8_ACTIVATIONS = "its code can round its first operand to 8 bits before it multiplies it"
    CHANNELS_INNERMOST = "its code reads x [N C *S] and writes y with the channels innermost"
    ANY_LAYOUT = "its code reads x in any order of axes, and writes y in the same order"


class SumOrder(Enum):
    """Order and rounding of the sums of float32 with ``--reproducible``, on every processor.

    A tree adds the second half of the partial sums to the first half until one is left.
    """

    FUSED = (
        "from the bias or 0 on, one product after another, each fused with its addition; the "
        "channels (or K) of a place of the kernel, then those of the next place"
    )
    TRANSPOSED = (
        "as conv; with strides of 1 from the last place of the kernel to the first, else from the "
        "first to the last"
    )
    WINDOW = (
        "each row of the window, one term after another, squares fused with their addition; then "
        "the sums of the rows"
    )
    TERMS = "one term after another"
    FOLD = (
        "one term after another, as they lie in memory; an innermost axis of 64 or more elements "
        "in 32 partial sums, element i of it in sum i modulo 32, joined by a tree"
    )
    SOFTMAX = (
        "of the last axis, or of channels, in four vectors of 16 partial sums, element i in sum i "
        "modulo 64; of the vectors, beginning after the last full one, (first + second) + "
        "(third + fourth), joined by a tree; of other axes one term after another"
    )
    NORM = (
        "of elements in 64 partial sums, of squared deviations in 32, fused, joined by a tree; "
        "then elements after a multiple of 64 or 32, one after another"
    )
    BLOCKS = (
        "16 partial sums of fused products, element i of a block in sum i modulo 16, joined by a "
        "tree after the last block"
    )


class Weights(NamedTuple):
    """Weights of a matmul-like operator.

    Element c of the result along the operator's ``channel_axis`` sums products of elements of x
    with the weights of output channel c, plus element c of the bias. Axes may count from the end.
    The operands after the weights are an optional bias; for an integer form scale, bias and w_zero.
    """

    operand: int  # index of the operand
    output_axis: int  # its axis of output channels (in each group)
    input_axis: int  # its axis of the channels of x that are summed (in each group)
