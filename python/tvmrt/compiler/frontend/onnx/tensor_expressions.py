"""Tensor expressions: formulas on small run-time tensors, written like formulas on numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import symbols_of

if TYPE_CHECKING:
    from tvmrt.compiler.frontend.context import OperatorContext

Operand = Union["TensorExpr", int, float, Sequence, np.ndarray]


def _binary(op: str, swapped: bool = False) -> Callable[[TensorExpr, Operand], TensorExpr]:
    """Return a method for a binary operator whose second operand may be a constant."""

    def method(self: TensorExpr, other: Operand) -> TensorExpr:
        pair = [self.value, self._operand(other)]
        return TensorExpr(self.ctx, self.ctx.emit(op, pair[::-1] if swapped else pair))

    return method


class TensorExpr:
    """A tensor in formulas. Constants in a formula get its element type.

    Integers are int64 and wrap around. Quotients are rounded towards zero; x / 0 is 0.
    """

    def __init__(self, ctx: OperatorContext, value: Value) -> None:
        self.ctx = ctx
        self.value = value

    @classmethod
    def from_integer(cls, ctx: OperatorContext, value: Value) -> TensorExpr:
        """Make an expression of an operand of any integer type."""
        return cls(ctx, ctx.cast(value, "int64"))

    @property
    def shape(self) -> tuple:
        return self.value.shape

    def _operand(self, other: Operand) -> Value:
        if isinstance(other, TensorExpr):
            return other.value
        array = np.asarray(other, object)
        if symbols_of(*array.reshape(-1).tolist()):
            return self.ctx.cast(self.ctx.integer_tensor(array), self.value.dtype.name)
        return self.ctx.const(other, self.value.dtype.numpy)

    def like(self, other: Operand) -> TensorExpr:
        """Convert an operand to an expression of this element type."""
        return TensorExpr(self.ctx, self._operand(other))

    def apply(self, op: str, *others: Operand, **attrs: Any) -> TensorExpr:
        """Apply an operator to this tensor and further operands."""
        operands = [self.value, *map(self._operand, others)]
        return TensorExpr(self.ctx, self.ctx.emit(op, operands, **attrs))

    __add__ = _binary("add")
    __radd__ = _binary("add", swapped=True)
    __sub__ = _binary("sub")
    __rsub__ = _binary("sub", swapped=True)
    __mul__ = _binary("mul")
    __rmul__ = _binary("mul", swapped=True)
    __truediv__ = _binary("div")
    __rtruediv__ = _binary("div", swapped=True)
    __mod__ = _binary("floor_mod")
    __and__ = _binary("bit_and")
    __xor__ = _binary("bit_xor")
    __lshift__ = _binary("shift_left")
    __rshift__ = _binary("shift_right")
    __lt__ = _binary("less")
    __le__ = _binary("less_equal")
    __gt__ = _binary("greater")
    __ge__ = _binary("greater_equal")
    equals = _binary("equal")
    minimum = _binary("min")  # the minimum of two
    maximum = _binary("max")
    logical_and = _binary("logical_and")
    logical_or = _binary("logical_or")

    def __neg__(self) -> TensorExpr:
        return self.apply("neg")

    def __abs__(self) -> TensorExpr:
        return self.apply("abs")

    def clamp(self, low: float | None, high: float | None) -> TensorExpr:
        """Clamp between two numbers of its type; None means no bound."""
        return TensorExpr(self.ctx, self.ctx.clamp(self.value, low, high))

    def where(self, yes: Operand, no: Operand) -> TensorExpr:
        """Select ``yes`` where this condition holds, else ``no``; one of them must be
        TensorExpr."""
        kind = yes if isinstance(yes, TensorExpr) else no
        pair = [kind._operand(yes), kind._operand(no)]
        return TensorExpr(self.ctx, self.ctx.emit("where", [self.value, *pair]))

    def cast(self, to: str) -> TensorExpr:
        return TensorExpr(self.ctx, self.ctx.cast(self.value, to))

    def reshape(self, *shape: int) -> TensorExpr:
        return TensorExpr(self.ctx, self.ctx.reshape(self.value, shape))

    def at(self, index: int) -> TensorExpr:
        """Return the element of a vector at an index, as a scalar."""
        return TensorExpr(self.ctx, self.ctx.element(self.value, 0, index))

    def reduce(self, op: str) -> TensorExpr:
        """Reduce along the first axis by reduce_sum, reduce_max, ... and drop that axis."""
        return TensorExpr(self.ctx, self.ctx.emit(op, [self.value], axes=(0,), keepdims=0))

    def normalize_negative(self, extent: Operand) -> TensorExpr:
        """Convert negative indices, which count from the end, to non-negative ones."""
        return (self < 0).where(self + extent, self)


def require(actual: TensorExpr, expected: Sequence, given: Value, operand: str, text: str) -> Value:
    """End runs in which the integers ``found`` are not ``expected``; return True for others.

    ``given`` is the node's operand for the error text, ``text`` the compiled-in expectation.
    """
    ctx = actual.ctx
    name = ctx.name if len(ctx.name) <= 60 else f"{ctx.name[:57]}..."
    shown = ctx.cast(given, "int64")
    flat = ctx.reshape(shown, (given.type.size,))
    return ctx.emit(
        "require",
        [ctx.cast(actual.value, "int64"), flat],
        expected=tuple(expected),
        where=f"{ctx.op} '{name}', {operand}",
        text=text,
    )
