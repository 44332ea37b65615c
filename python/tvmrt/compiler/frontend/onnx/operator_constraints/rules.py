"""Rules shared by several operators."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmrt.compiler.ir import TensorType
from tvmrt.compiler.ir.contract import Contract, Rule, holds

AXIS = holds(
    "axis names an axis of x",
    lambda axis, x: axis is None or -len(x.shape) <= axis < max(len(x.shape), 1),
)
ALONG_AXIS = Contract("x: any[*]", "axis: int", rules=[AXIS])


def scalar_rule(name: str) -> Rule:
    """Return the rule for a scalar, or a vector of one element as many exporters write it."""

    def test(type: TensorType | None) -> bool:
        return type is None or prod(type.shape) == 1

    return Rule(f"{name} has one element", test, (name,))


def broadcasts_to(small: Sequence[int], large: Sequence[int]) -> bool:
    """Return whether a shape broadcasts to another one without a change of the latter."""
    return len(small) <= len(large) and all(
        n in (1, m) for n, m in zip(reversed(small), reversed(large))
    )


def broadcast_rule(name: str, to: str) -> Rule:
    """Return the rule that ``name`` broadcasts to operand ``to``."""

    def test(small: TensorType | None, large: TensorType) -> bool:
        return small is None or broadcasts_to(small.shape, large.shape)

    return Rule(f"{name} broadcasts to {to}", test, (name, to))
