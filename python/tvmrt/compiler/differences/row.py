"""One row of the table of intentional differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Judge(Enum):
    """Source of the right result of a node that a row holds for."""

    ONNXRUNTIME = "onnxruntime"  # it agrees: others differ
    REFERENCE = "the ONNX reference evaluator"
    EXACT = "exact arithmetic"  # an operator of `exact.py` in the ONNX reference evaluator
    RULE = "a rule"  # no runtime: tests of tvmrt hold the operator to the rule of the row
    NOBODY = "nobody"  # the result is open: it is not compared


@dataclass(frozen=True)
class NodeView:
    """A node as conditions see it: plain values, whatever kind of file it is from.

    ``types`` are the element types of its operands ("float32", "uint8", ..., None if unknown),
    ``given`` which operands are there, ``results`` the element types of its results, as far as
    known.
    """

    op: str
    domain: str = ""
    opset: int = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: tuple[str | None, ...] = ()
    given: tuple[bool, ...] = ()
    results: tuple[str | None, ...] = ()

    def has(self, index: int) -> bool:
        """Whether an operand is there."""
        return index < len(self.given) and self.given[index]

    def type_of(self, index: int) -> str | None:
        """The element type of an operand, None where it is unknown."""
        return self.types[index] if index < len(self.types) else None

    def is_integer(self, index: int = 0) -> bool:
        """Whether an operand is known to be of an integer type."""
        return (self.type_of(index) or "").startswith(("int", "uint"))

    def may_be_float(self, index: int = 0) -> bool:
        """Whether an operand is of a floating-point type, or its type is unknown."""
        kind = self.type_of(index)
        return kind is None or "float" in kind

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)


def always(node: NodeView) -> bool:
    """The condition of a row that holds for all nodes of its operators."""
    return True


@dataclass(frozen=True)
class Difference:
    """A row: tvmrt gives ``ours`` for nodes of ``operators`` (``domain:Operator`` outside of the
    standard's domain, ``tflite:OPERATOR`` of .tflite files) that meet ``condition``.

    ``applies`` is the condition for programs, ``condition`` for people. ``data``: the condition is
    met by values of a run, so that most runs of such a node show no difference. ``steps``: by how
    many steps of an integer result others may be off.
    """

    name: str
    operators: tuple[str, ...]
    condition: str
    ours: str
    why: str
    agrees: tuple[str, ...]
    differs: tuple[str, ...]
    judge: Judge
    applies: Callable[[NodeView], bool] = always
    data: bool = False
    steps: int = 0

    def holds_for(self, node: NodeView) -> bool:
        """Whether the row is about a node."""
        key = f"{node.domain}:{node.op}" if node.domain not in ("", "ai.onnx") else node.op
        return key in self.operators and self.applies(node)
