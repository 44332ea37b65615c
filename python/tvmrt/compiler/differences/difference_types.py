"""Row of the table of intentional differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

ORT, REFERENCE, TEXT = "onnxruntime", "the ONNX reference evaluator", "the standard's text"


class Judge(Enum):
    """Source of the correct result of a node that a row applies to."""

    ONNXRUNTIME = "onnxruntime"  # it agrees: others differ
    REFERENCE = REFERENCE
    EXACT = (
        "exact arithmetic"  # an operator of `exact_reference.py` in the ONNX reference evaluator
    )
    RULE = "a rule"  # no runtime: tests of tvmrt check the operator against the rule of the row
    UNDEFINED = "nobody"  # the result is undefined and is not compared


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


def always(node: NodeView) -> bool:
    """Condition of a row that applies to all nodes of its operators."""
    return True


@dataclass(frozen=True)
class Difference:
    """Row: tvmrt returns ``ours`` for nodes of ``operators`` that meet ``condition``. Operators
    are ``domain:Operator`` outside of the standard's domain, ``tflite:OPERATOR`` in .tflite files.

    ``applies`` is the condition as a function, ``condition`` as text. ``data``: the condition
    depends on run-time values, so most runs of such a node show no difference. ``steps``: maximum
    difference of others in steps of an integer result.
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

    @property
    def onnxruntime_differs(self) -> bool:
        """Return whether onnxruntime differs, and the standard or a rule of the row decides."""
        differs = any(text.startswith(ORT) for text in self.differs)
        return differs and self.judge in (Judge.EXACT, Judge.REFERENCE, Judge.RULE)

    @property
    def evaluator_differs(self) -> bool:
        """Return whether the ONNX reference evaluator with exact operators differs."""
        differs = any(text.startswith(REFERENCE) for text in self.differs)
        return differs and self.judge is not Judge.EXACT

    def applies_to(self, node: NodeView) -> bool:
        """Return whether the row applies to a node."""
        return node.operator in self.operators and self.applies(node)
