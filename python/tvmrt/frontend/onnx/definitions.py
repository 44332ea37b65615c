"""Nodes against the definitions of their operators."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import onnx

from tvmrt.ir import DTYPES, Value

# ONNX's names of element types; half precision is float32 inside.
_ONNX_NAMES = {
    **{name: (f"tensor({name})",) for name in DTYPES},
    "float64": ("tensor(double)",),
    "float32": ("tensor(float)", "tensor(float16)", "tensor(bfloat16)"),
}


@lru_cache(maxsize=512)
def _definition(op: str, opset: int, domain: str) -> onnx.defs.OpSchema | None:
    """The definition that holds in an opset; None for operators that the onnx package lacks."""
    try:
        return onnx.defs.get_schema(op, opset, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return None


def check_attributes(node: onnx.NodeProto, opset: int) -> None:
    """Raise ValueError if a required attribute is missing or one has another type than defined.

    Operators that the onnx package does not define, and attributes that a definition does not
    list, are left to whoever imports them.
    """
    definition = _definition(node.op_type, opset, node.domain)
    if definition is None:
        return
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, rule in definition.attributes.items():
        attribute = given.get(name)
        if attribute is None:
            if rule.required:
                raise ValueError(f"the attribute {name} is missing")
        elif attribute.type != int(rule.type.value):
            raise ValueError(f"the attribute {name} is no {rule.type.name.lower()}")


def check_inputs(node: onnx.NodeProto, opset: int, inputs: Sequence[Value | None]) -> None:
    """Raise ValueError if an input has an element type that the operator is not defined for.

    Kernels rely on it. Operators that the onnx package does not define are left to whoever
    imports them.
    """
    definition = _definition(node.op_type, opset, node.domain)
    if definition is None or not definition.inputs:
        return
    for i, value in enumerate(inputs):
        rule = definition.inputs[min(i, len(definition.inputs) - 1)]  # the last may be repeated
        if value is not None and not rule.types.intersection(_ONNX_NAMES[value.dtype.name]):
            known = sorted(t.removeprefix("tensor(").removesuffix(")") for t in rule.types)
            raise ValueError(
                f"input {i} ({rule.name}) is {value.dtype}; opset {opset} knows {', '.join(known)}"
            )
