"""Importers of ONNX operators that are one operator of the IR, derived from its declaration.

The operands of a node are the IR operator's, in order, without those that are attributes there.
An attribute is named as in ONNX, or as its contract says. The schema gives its default value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from onnx.defs import onnx_opset_version

from tvmrt.compiler.ir import REDUCE, Op, Trait, Value
from tvmrt.compiler.ir.contract import ContractError
from tvmrt.compiler.ir.contract.attributes import Attribute
from tvmrt.compiler.ir.op import ONNX_FORMS, distinct_axes, normalize_axis
from tvmrt.compiler.operator_key import domain_of
from tvmrt.error import UnsupportedError

from .operator_schemas import default_attributes

if TYPE_CHECKING:
    from .context import NodeContext


def importer_of(domain: str, name: str) -> Callable[[NodeContext], Value | list[Value]] | None:
    """Return the importer of an ONNX operator; None if no operator of the IR declares its name."""
    operators = ONNX_FORMS.get((domain, name))
    if operators is None:
        return None
    forms = [_PlainImporter(operator) for operator in operators]
    if not operators[0].onnx.key:
        return forms[0]
    by_value = {operator.onnx.value: form for operator, form in zip(operators, forms)}
    return lambda ctx: _selected(ctx, operators[0].onnx.key, by_value)(ctx)


def _selected(ctx: NodeContext, key: str, by_value: dict[Any, _PlainImporter]) -> _PlainImporter:
    value = next(iter(by_value.values())).attribute(ctx, key)
    if value not in by_value:
        raise ValueError(f"{key} is {value}; {' or '.join(map(str, by_value))} expected")
    return by_value[value]


class _PlainImporter:
    """Importer of nodes as nodes of one operator of the IR."""

    def __init__(self, operator: Op) -> None:
        self.operator = operator
        contract = operator.contract
        self.attributes = list(contract.attributes.values())
        taken = {a.onnx_operand for a in self.attributes}
        places = (i for i in range(len(contract.operands) + len(taken)) if i not in taken)
        self.operands = [(i, o.optional) for i, o in zip(places, contract.operands)]
        self.is_chain = len(self.operands) == 2 and operator.has(Trait.COMMUTATIVE)

    def __call__(self, ctx: NodeContext) -> Value | list[Value]:
        if self.is_chain and (ctx.inputs[2:] or not ctx.inputs[1:]):
            return chain(ctx, self.operator.name)
        operands = [ctx.input(i) if optional else ctx.required(i) for i, optional in self.operands]
        while operands[-1] is None:
            operands.pop()
        attrs = {}
        for attribute in self.attributes:
            attrs[attribute.name] = self._value(ctx, attribute, operands)
        if self.operator.kind == REDUCE and not attrs["axes"]:
            return operands[0]  # each result is made of one element, itself
        try:
            return ctx.emit_many(self.operator.name, operands, **attrs)
        except ContractError:
            self._check_types(operands)
            raise

    def _value(self, ctx: NodeContext, attribute: Attribute, operands: Sequence) -> Any:
        """Return the value of an attribute as the IR has it."""
        if attribute.kind == "axes":
            return tuple(reduce_axes(ctx, operands[0]))
        if attribute.onnx_operand is not None:
            values = ctx.attr_or_input(attribute.onnx_name, attribute.onnx_operand, min_axes=0)
            if len(values) != 1:
                raise ValueError(f"{attribute.onnx_name} is {values}, expected one integer")
            value = values[0]
        else:
            value = self.attribute(ctx, attribute.onnx_name)
        if attribute.kind == "axis":
            names = [o.name for o in self.operator.contract.operands]
            return normalize_axis(value, len(operands[names.index(attribute.of)].shape))
        if attribute.onnx_choices:
            return attribute.onnx_choices.get(value, value)
        return tuple(value) if isinstance(value, list) else value

    def attribute(self, ctx: NodeContext, name: str) -> Any:
        """Return an attribute of a node, or its default by the operator's schema."""
        value = ctx.attr(name)
        if value is not None:
            return value
        domain, op, *_ = self.operator.onnx
        if domain_of(ctx.node.domain) == domain:
            defaults = default_attributes(op, ctx.opset, domain)
            if name in defaults:
                return defaults[name]
        # a vendor's operator of that name, or an attribute of later opsets
        return default_attributes(op, onnx_opset_version(), domain).get(name)

    def _check_types(self, operands: Sequence[Value | None]) -> None:
        """Raise UnsupportedError for an operand whose element type ONNX allows but not the IR."""
        for rule, value in zip(self.operator.contract.operands, operands):
            allowed = rule.elements.allowed
            if value is not None and allowed is not None and value.dtype.name not in allowed:
                types = rule.elements.expected({})
                raise UnsupportedError(f"{value.dtype} elements; only {types} has a kernel")


def reduce_axes(ctx: NodeContext, x: Value) -> list[int]:
    """Return the sorted axes to reduce: without ``axes`` all, or none if the node says so."""
    axes = ctx.attr_or_input("axes", 1)
    rank = len(x.shape)
    if not axes:
        return [] if ctx.attr("noop_with_empty_axes", 0) else list(range(rank))
    resolved = distinct_axes(axes, rank)
    return sorted(resolved)


def chain(ctx: NodeContext, op: str) -> Value:
    """Emit an operator with two operands on all operands of a node, from the first to the last."""
    operands = [ctx.required(i) for i in range(len(ctx.inputs))]
    return reduce(lambda result, operand: ctx.emit(op, [result, operand]), operands)
