"""Pointwise operators with operands or results of different types: casts, integer powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .contract import Contract, holds, let
from .dtype import DTYPES, DType, to_integers
from .graph import Node
from .op import POINTWISE, Expression, Op, broadcast, define
from .pointwise import HALF, INT, INVERSE, MATH, wrapped_pow
from .traits import Trait


def _converts_via_float32(E: DType, to: str) -> bool:
    return (not E.is_half or to == "float32") and (not DTYPES[to].is_half or E.name == "float32")


class Cast(Op):
    """Convert to the element type named by ``to``.

    Floating-point to integer conversion truncates and saturates; NaN becomes 0. Half precision is
    converted from and to float32 only.
    """

    name = "cast"
    kind = POINTWISE
    traits = frozenset({Trait.CONVERTS, Trait.EXACT})
    monotonic = "+"

    contract = Contract(
        "x: E=computed|half[*S] -> y: to[*S]",
        "to: dtype computed|half",
        rules=[holds("half precision is cast from and to float32 only", _converts_via_float32)],
        example={"to": "int8"},
    )

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        (x,), source, to = args, node.inputs[0].dtype, node.output.dtype
        if source == to:
            return Expression(x)
        if source.is_half:
            return Expression(f"tvmrt_{source}_to_f32({x})", HALF)
        if to.is_half:
            return Expression(f"tvmrt_f32_to_{to}({x})", HALF)
        if to.name == "bool":
            return Expression(f"({x} != 0)")
        if source.is_float and to.is_int:
            return Expression(f"tvmrt_f{source.bits}_to_{to.name}({x})", INT)
        if source.name == "bool" and to.name == "float32":
            return Expression(f"({x} ? 1.0f : 0.0f)")  # a vector mask, without widening bytes
        return Expression(f"({to.c}){x}")

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        x, to = arrays[0], DTYPES[attrs["to"]]
        if to.is_int and np.issubdtype(x.dtype, np.floating):
            return [to_integers(x, to.numpy)]
        with np.errstate(over="ignore"):
            return [x.astype(to.numpy)]


class BitCast(Op):
    """Reinterpret the bits as the element type named by ``to``, which has the same size."""

    name = "bit_cast"
    kind = POINTWISE
    traits = frozenset({Trait.EXACT})

    contract = Contract(
        "x: E=any[*S] -> y: to[*S]",
        "to: dtype",
        rules=[
            holds(
                "elements of both types have the same size",
                lambda E, to: E.itemsize == DTYPES[to].itemsize,
            )
        ],
    )

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        source, to = node.inputs[0].dtype, node.output.dtype
        if to.name == "bool":
            return Expression(f"({args[0]} != 0)")
        if source == to:
            return Expression(args[0])
        # half precision and smaller floating-point types are stored in integers
        if not source.is_float and not to.is_float:
            return Expression(f"({to.c}){args[0]}")
        return Expression(f"tvmrt_{source.name}_bits_as_{to.name}({args[0]})", INT)

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        to = DTYPES[attrs["to"]].numpy
        return [np.ascontiguousarray(arrays[0]).view(to).reshape(arrays[0].shape)]


class PowInteger(Op):
    """Power with an integer exponent. The result has the type of x.

    The exponent is used exactly, however large it is, also for the sign of the result.
    """

    name = "pow_whole"
    kind = POINTWISE

    contract = Contract(
        "x: E=float|signed[*X], exponent: integer[*N] -> y: E[*Y]",
        rules=[let("*Y", "the operands' extents, broadcast", broadcast, "X N")],
    )

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        x, n = args
        dtype, exponent = (v.dtype for v in node.inputs)
        if dtype.is_float:
            text = f"tvmrt_pow_integer_f{dtype.bits}({x}, (double){n}, (int)({n} & 1))"
            return Expression(text, MATH if dtype.bits == 32 else INVERSE)
        negative = f"{n} < 0" if exponent.is_signed else "0"
        power = f"tvmrt_pow_int64((uint64_t){x}, (uint64_t){n}, {negative})"
        return Expression(f"({dtype.c}){power}", INT)

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        x, n = arrays
        if not np.issubdtype(x.dtype, np.floating):
            return [wrapped_pow(x, n)]
        size = np.power(np.abs(x).astype(np.float64), n.astype(np.float64))
        return [np.where(n & n.dtype.type(1), np.copysign(size, x), size).astype(x.dtype)]


define(Cast())
define(BitCast())
define(PowInteger())
