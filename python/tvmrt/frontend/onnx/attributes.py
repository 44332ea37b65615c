"""Attributes of nodes against the definitions of their operators."""

from __future__ import annotations

import onnx


def check_attributes(node: onnx.NodeProto, opset: int) -> None:
    """Raise ValueError if a required attribute is missing or one has another type than defined.

    Operators that the onnx package does not define, and attributes that a definition does not
    list, are left to whoever imports them.
    """
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, domain)
    except onnx.defs.SchemaError:
        return
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, rule in schema.attributes.items():
        attribute = given.get(name)
        if attribute is None:
            if rule.required:
                raise ValueError(f"the attribute {name} is missing")
        elif attribute.type != int(rule.type.value):
            raise ValueError(f"the attribute {name} is no {rule.type.name.lower()}")
