"""Largest numbers of iterations of loops that depend on the input.

They are facts about algorithms that work digit by digit, on all numbers of their type. A function
that is not listed has no limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tvmrt.plugins.cycles.control_flow import Block, Graph

# Functions of C libraries whose branches depend on sizes and addresses only.
COPIES = re.compile(r"(__aeabi_)?mem(cpy|set|move|clr)[48]?$")
_CONSTANT = re.compile(r"(?:movs?(?:\.w)?\tr2, #|li\ta2,)(\d+)$")
_CLONE = re.compile(r"\.(constprop|isra|part)\b.*")


@dataclass(frozen=True)
class _Digits:
    """Digits that the loops of a function handle, at least one in each iteration. ``each``: an
    instruction that is executed once for each digit, where an iteration handles several."""

    count: int
    each: str = r"$."


# libgcc, config/arm: ieee754-sf.S normalises significands of 23 digits, and divides into 24 digits,
# 4 in an iteration; ieee754-df.S has 52 digits for both, since it computes the first digit of a
# quotient before its loop. soft-fp/divsf3.c, for Armv6-M and RISC-V, divides into 27. lib1funcs.S
# divides 32-bit integers, for Armv6-M in iterations with one ADCS a digit. __udivmoddi4 of
# libgcc2.c, which is inlined into the other 64-bit divisions, has an iteration for each digit by
# which the divisor has more leading zeros than the dividend: up to 64 if the divisor is 0.
_FLOAT_PRODUCT = _Digits(23)
_FLOAT_QUOTIENT = _Digits(27, r"orrcs")
_QUOTIENT = _Digits(32, r"adcs\t(\w+), \1$")
_LONG_QUOTIENT = _Digits(64)
_DOUBLE_PRODUCT, _DOUBLE_QUOTIENT = _Digits(52), _Digits(52, r"orrcs")
_LIMITS = {
    "__aeabi_fmul": _FLOAT_PRODUCT, "__mulsf3": _FLOAT_PRODUCT,
    "__aeabi_fdiv": _FLOAT_QUOTIENT, "__divsf3": _FLOAT_QUOTIENT,
    "__aeabi_dmul": _DOUBLE_PRODUCT, "__muldf3": _DOUBLE_PRODUCT,
    "__aeabi_ddiv": _DOUBLE_QUOTIENT, "__divdf3": _DOUBLE_QUOTIENT,
    "__aeabi_idiv": _QUOTIENT, "__divsi3": _QUOTIENT,
    "__aeabi_uidiv": _QUOTIENT, "__udivsi3": _QUOTIENT,
    **dict.fromkeys(("__divdi3", "__moddi3", "__divmoddi4"), _LONG_QUOTIENT),
    **dict.fromkeys(("__udivdi3", "__umoddi3", "__udivmoddi4"), _LONG_QUOTIENT),
    # picolibc and newlib, sf_sqrt.c: a root of 25 digits, of a significand normalised by 23 at most
    "sqrtf": _Digits(25), "__ieee754_sqrtf": _Digits(25),
    # kernels/scalar/soft_float.h: normalisation of 32 and 23 digits; four bytes of a quotient
    "tvmrt_soft_float_pack": _Digits(31), "tvmrt_soft_float_unpack": _Digits(23),
    "tvmrt_div_f32": _Digits(4),
    # kernels/board/common_i8.h: 32 digits are halved five times
    "tvmrt_micro_round_twice": _Digits(5),
}  # fmt: skip


def most_rounds(name: str, graph: Graph, blocks: set[int]) -> int | None:
    """Return the largest number of iterations of a loop of a function, or None if unknown."""
    digits = _LIMITS.get(_CLONE.sub("", name))
    if digits is None:
        return None
    code = [each.text for block in blocks for each in graph.blocks[block].code]
    in_each = sum(re.match(digits.each, text) is not None for text in code)
    return -(-digits.count // max(1, in_each))


def most_rounds_of_call(block: Block, name: str) -> int:
    """Return the largest number of iterations of each loop of a called function that copies
    constantly many bytes, where ``block`` ends with the call; 0 for other functions."""
    if not COPIES.match(name):
        return 0
    for each in reversed(block.code):
        match = _CONSTANT.match(each.text)
        if match:
            return int(match[1]) + 1
        if each.result in ("r2", "a2"):
            break
    return 0
