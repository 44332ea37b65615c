"""Operator schemas of the onnx package, and ONNX's element types for types of the IR."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import onnx
from onnx import defs, helper

from tvmrt.compiler.ir import HANDLE, DType
from tvmrt.compiler.ir.sizes import Extent, SymInt, extent_text
from tvmrt.compiler.operator_key import domain_of


def onnx_element_type(dtype: DType) -> int:
    """Return ONNX's code of an element type; the address type stands for strings."""
    if dtype == HANDLE:
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(dtype.numpy)


@lru_cache(maxsize=512)
def find_schema(op: str, opset: int, domain: str) -> defs.OpSchema | None:
    """Return the schema of an operator in an opset; None if the onnx package lacks it."""
    try:
        return defs.get_schema(op, opset, domain_of(domain))
    except defs.SchemaError:
        return None


@lru_cache(maxsize=512)
def default_attributes(op: str, opset: int, domain: str) -> dict[str, Any]:
    """Return the default values of an operator's attributes; empty if there is no schema."""
    schema = find_schema(op, opset, domain)
    rules = schema.attributes.values() if schema else ()
    return {r.name: attribute_value(r.default_value) for r in rules if r.default_value.name}


def attribute_value(attribute: onnx.AttributeProto) -> Any:
    """Return the value of an attribute, text as str, several values as a list."""
    if attribute.ref_attr_name:
        raise ValueError(
            f"the attribute {attribute.name} refers to {attribute.ref_attr_name} of a function, "
            "and the node is in none; export the model again"
        )
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [text.decode("utf-8", "replace") for text in value]
    is_list = attribute.type in (onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS)
    return list(value) if is_list else value


def formal_parameter(rules: Sequence, index: int) -> defs.OpSchema.FormalParameter | None:
    """Return the schema of an operand by index; the last one may be variadic. None for an operator
    without operands, whose import then fails if it has some."""
    return rules[min(index, len(rules) - 1)] if rules else None


def formal_type(rules: Sequence, index: int) -> str | None:
    """Return the type of an operand by index, as the schema names it."""
    rule = formal_parameter(rules, index)
    return None if rule is None else rule.type_str


@lru_cache(maxsize=1)
def first_opsets() -> dict[tuple[str, str], int]:
    """Return the first opset of each operator of each domain."""
    result: dict[tuple[str, str], int] = {}
    for schema in defs.get_all_schemas_with_history():
        key = (schema.domain, schema.name)
        result[key] = min(result.get(key, schema.since_version), schema.since_version)
    return result


def declared(shape: Sequence[SymInt]) -> list[int | str]:
    """Return a shape as ONNX declares it, with dynamic extents as text."""
    return [extent_text(n) if isinstance(n, Extent) else n for n in shape]
