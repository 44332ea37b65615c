"""Layout inference: choose a layout for each custom operator.

Contract: each ``custom`` node whose declaration leaves a choice gets the attribute ``layouts``; the
graph computes the same. In the order of the graph, each node gets the declared combination that
converts the fewest bytes of its inputs, the first one of equals. Non-goal: layouts of built-in
operators, which code generation chooses by rules that are modelled here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import POINTWISE, VIEW, Builder, Graph, Node, Trait, Value, dense
from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.compiler.ir.program import channels_last_order
from tvmrt.compiler.ir.strided import parse_layout

from .rewrite import at, rewrite

CHANNELS_LAST = {3: "NWC", 4: "NHWC", 5: "NDHWC"}  # names by rank

Names = tuple  # a layout's name or None for each operand of the node
Order = tuple  # axes from the outermost in memory


def infer_layouts(graph: Graph) -> None:
    """Choose in place, unless a node has the attribute already. Raise ValueError for a node that no
    declared layout fits."""
    if not any(kernel_record(node) for node in graph.nodes):
        return
    orders: dict[Value, Order] = {}
    for node in graph.nodes:
        if kernel_record(node):
            _choose(node, graph, orders)
        else:
            orders.update((value, _written_order(node, value, orders)) for value in node.outputs)
    rewrite(graph, _copy_inputs_of_two_layouts)


def layout_choices(node: Node, graph: Graph) -> list[Names]:
    """Return the combinations that fit the operands and have a C function, in order of
    declaration; all that fit if none has a function."""
    record = node.attrs["operator"]
    values = [*node.inputs, *node.outputs]
    declared = [*record.inputs[: len(node.inputs)], *record.outputs]
    if any(operand.layouts == "any" for operand in declared):
        fitting = _orders_of_elementwise(values, [d.layouts == "any" for d in declared])
    else:
        fitting = _declared_choices(node, graph, declared, values)
    return [names for names in fitting if _has_function(node, names)] or fitting


def _declared_choices(node: Node, graph: Graph, declared, values) -> list[Names]:
    layouts = [operand.parsed_layouts() for operand in declared]
    fitting, problems = [], []
    for i in range(max(map(len, layouts), default=0) or 1):
        row = [names[min(i, len(names) - 1)] if names else None for names in layouts]
        reasons = [
            f"operand {operand.name}: {reason}"
            for operand, layout, value in zip(declared, row, values)
            if layout is not None and value is not None
            for reason in [layout.mismatch(value.shape)]
            if reason is not None
        ]
        problems += reasons
        if not reasons:
            fitting.append(tuple(None if layout is None else layout.name for layout in row))
    if not fitting:
        raise ValueError(
            f"node {', '.join(node.sources)} ({node.attrs['operator'].name}): graph {graph.name}: "
            f"no declared layout matches: {'; '.join(dict.fromkeys(problems))}"
        )
    return fitting


def _orders_of_elementwise(values: Sequence[Value | None], free: Sequence[bool]) -> list[Names]:
    """Return row-major and channels innermost, if all operands with ``any`` have one shape."""
    shapes = {v.shape for v, is_free in zip(values, free) if is_free and v is not None}
    row_major = tuple(None for _ in values)
    name = CHANNELS_LAST.get(len(shapes.pop())) if len(shapes) == 1 else None
    return [row_major, tuple(name if f else None for f in free)] if name else [row_major]


def _has_function(node: Node, names: Names) -> bool:
    """Return whether the operator has a C function for the node in these layouts."""
    record = node.attrs["operator"]
    types = [None if v is None else v.type for v in node.inputs]
    results = [v.type for v in node.outputs]
    call = record.call_for(types, results, node.attrs["scalars"], names[0] if names else None)
    return record.c_refusal(call) is None


def _choose(node: Node, graph: Graph, orders: dict[Value, Order]) -> None:
    """Set the layouts of a custom node, and the orders of its outputs."""

    def converted_bytes(names: Names) -> int:
        return sum(
            value.type.nbytes
            for value, name in zip(node.inputs, names)
            if value is not None
            and not value.is_constant
            and _order_of(value, orders) != _named_order(name, value)
        )

    names = node.attrs.get("layouts") or min(layout_choices(node, graph), key=converted_bytes)
    if any(names):
        node.attrs["layouts"] = names
    for value, name in zip(node.outputs, names[len(node.inputs) :]):
        orders[value] = _named_order(name, value)


def _named_order(name: str | None, value: Value) -> Order:
    return parse_layout(name).order if name else tuple(range(value.type.rank))


def _order_of(value: Value, orders: dict[Value, Order]) -> Order:
    return orders.get(value, tuple(range(value.type.rank)))


def _written_order(node: Node, value: Value, orders: dict[Value, Order]) -> Order:
    """Return the order in which a built-in operator writes an output."""
    rank = value.type.rank
    if node.has(Trait.CHANNELS_INNERMOST) and rank > 2:
        return channels_last_order(rank)
    first = node.inputs[0] if node.inputs else None
    if first is not None and node.operator.kind == VIEW:
        read = dense(first.shape, _order_of(first, orders))
        access = node.operator.access(read, node.attrs)
        return tuple(range(rank)) if access is None else access.order()
    if node.operator.kind == POINTWISE or node.has(Trait.ANY_LAYOUT):
        for operand in node.inputs:
            if operand is None or operand.is_constant:
                continue
            if operand.shape == value.shape:
                return _order_of(operand, orders)
    return tuple(range(rank))


@at("custom")
def _copy_inputs_of_two_layouts(b: Builder, node: Node) -> list[Value] | None:
    """Give an input that is read in two layouts a copy for the second one."""
    first: dict[Value, str | None] = {}
    inputs = []
    for value, name in zip(node.inputs, node.attrs.get("layouts") or ()):
        same = value is None or value.is_constant or first.setdefault(value, name) == name
        inputs.append(value if same else b.emit("identity", [value], node.name))
    if inputs in ([], node.inputs):
        return None
    return b.emit_many("custom", inputs, node.name, **node.attrs)
