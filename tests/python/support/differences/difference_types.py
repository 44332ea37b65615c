"""Row of the table of intentional differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Judge(Enum):
    """Source of the correct result of a node that a row applies to."""

    ONNXRUNTIME = "onnxruntime"  # it agrees: others differ
    REFERENCE = "the reference evaluator"
    # an operator of `exact_reference.py` in the ONNX reference evaluator
    EXACT = "exact arithmetic"
    RULE = "this rule"  # no runtime: tests of tvmrt check the operator against the rule of the row
    UNDEFINED = "not compared"  # the result is undefined


@dataclass(frozen=True)
class NodeView:
    """Node in the form that conditions take: plain values, independent of the file format.

    ``types``: element types of its operands ("float32", "uint8", ..., None if unknown). ``given``:
    which operands are present. ``results``: element types of its results, as far as known.
    """

    op: str
    domain: str = ""
    opset: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: tuple[str | None, ...] = ()
    given: tuple[bool, ...] = ()
    results: tuple[str | None, ...] = ()

    @property
    def operator(self) -> str:
        """Name of its operator, with its domain unless that is ONNX's own."""
        return self.op if self.domain in ("", "ai.onnx") else f"{self.domain}:{self.op}"

    def has(self, index: int) -> bool:
        """Return whether an operand is present."""
        return index < len(self.given) and self.given[index]

    def type_of(self, index: int) -> str | None:
        """Return the element type of an operand, None if it is unknown."""
        return self.types[index] if index < len(self.types) else None

    def is_integer(self, index: int = 0) -> bool:
        """Return whether an operand is known to have an integer type."""
        return (self.type_of(index) or "").startswith(("int", "uint"))

    def may_be_float(self, index: int = 0) -> bool:
        """Return whether an operand has a floating-point type, or an unknown type."""
        kind = self.type_of(index)
        return kind is None or "float" in kind

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)


@dataclass(frozen=True)
class Difference:
    """Row: results of nodes of ``operators`` for which ``applies`` differ in some runtimes.

    Operators are ``domain:Operator`` outside of the standard's domain. ``differs``: "onnxruntime",
    "evaluator" (the ONNX reference evaluator). ``data``: it depends on run-time values, so most
    runs of such a node show no difference.
    """

    name: str
    operators: tuple[str, ...]
    judge: Judge
    differs: frozenset[str]
    applies: Callable[[NodeView], bool]
    data: bool

    @property
    def onnxruntime_differs(self) -> bool:
        """Return whether onnxruntime differs, and the standard or a rule of the row decides."""
        decided = self.judge in (Judge.EXACT, Judge.REFERENCE, Judge.RULE)
        return decided and "onnxruntime" in self.differs

    @property
    def evaluator_differs(self) -> bool:
        """Return whether the ONNX reference evaluator with exact operators differs."""
        return "evaluator" in self.differs and self.judge is not Judge.EXACT

    def applies_to(self, node: NodeView) -> bool:
        """Return whether the row applies to a node."""
        return node.operator in self.operators and self.applies(node)
