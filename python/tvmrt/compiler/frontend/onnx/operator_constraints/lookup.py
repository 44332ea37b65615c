"""Lookup of a node's row of constraints, and the check against it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import onnx
from onnx import helper

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.contract import Contract

from ..operator_schemas import find_schema

# Each module has CONTRACTS: an operator's name, or (name, first opset), to its contract.
_FAMILIES = ("windows", "recurrent", "normalization", "quantize", "linear", "layout", "vision")

# Attributes that are booleans in all operators.
_BOOLEAN_ATTRIBUTES = frozenset(
    (
        "align_corners allowzero antialias center_point_box ceil_mode count_include_pad "
        "detect_negative detect_positive exclude_outside exclusive fmod interleaved input_forget "
        "inverse is_causal keepdims largest layout linear_before_reset noop_with_empty_axes "
        "onesided reverse saturate select_last_index sorted storage_order training_mode transA "
        "transB upper"
    ).split()
)


@cache
def contracts() -> dict[str, dict[int, Contract]]:
    """Return every operator's contracts by the first opset in which they apply."""
    result: dict[str, dict[int, Contract]] = {}
    for family in _FAMILIES:
        for key, contract in import_module(f"{__package__}.{family}").CONTRACTS.items():
            name, since = key if isinstance(key, tuple) else (key, 1)
            result.setdefault(name, {})[since] = contract
    return result


def contract_of(op: str, opset: int) -> Contract | None:
    """Return the contract that applies in an opset."""
    known = [since for since in contracts().get(op, {}) if since <= opset]
    return contracts()[op][max(known)] if known else None


def check_constraints(node: onnx.NodeProto, opset: int, inputs: Sequence[Value | None]) -> None:
    """Raise ValueError with the operand or attribute, the expectation and the actual value."""
    definition = find_schema(node.op_type, opset, node.domain)
    if definition is None:
        return
    given = {a.name: _value(a) for a in node.attribute}
    for name in given.keys() & _BOOLEAN_ATTRIBUTES:
        if given[name] not in (0, 1):
            raise ValueError(f"attribute {name} is {given[name]}, expected 0 or 1")
    contract = contract_of(node.op_type, opset) if node.domain in ("", "ai.onnx") else None
    if contract is None:
        return
    values = {**_defaults(node.op_type, definition.since_version), **given}
    attributes = {name: values[name] for name in contract.attributes if name in values}
    types = [None if value is None else value.type for value in inputs]
    contract.bind(types, attributes, [None if value is None else value.data for value in inputs])


@cache
def _defaults(op: str, version: int) -> dict[str, Any]:
    """Return the default values of an operator's attributes."""
    definition = find_schema(op, version, "")
    rules = definition.attributes.values() if definition else ()
    return {rule.name: _value(rule.default_value) for rule in rules if rule.default_value.name}


def _value(attribute: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return list(value) if attribute.type == onnx.AttributeProto.INTS else value
