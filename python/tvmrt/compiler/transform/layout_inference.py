"""Layout inference: choose a layout for each custom operator with as few conversions as possible.

Contract: each ``custom`` node whose declaration leaves a choice gets the attribute ``layouts``; the
graph computes the same. Operands in blocked layouts then have the blocks as axes of their own, and
so do pointwise nodes between two such operators. Non-goal: layouts of built-in operators, which
code generation chooses by rules that are modelled here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Union

from tvmrt.compiler.ir import POINTWISE, REDUCE, VIEW, Graph, Node, Strided, Trait, Value, dense
from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.compiler.ir.layout import Layout, parse_layout
from tvmrt.compiler.ir.program import channels_last_order

from .blocked_layouts import lower_blocked_layouts

# Limit of nodes visited to evaluate every combination of layouts; above it, the layout of one node
# is changed at a time.
MAX_VISITS = 100_000

Names = tuple  # a layout's name or None for each operand of the node
ValueLayout = Union[Strided, Layout]  # strides of the logical axes, or a blocked layout


def infer_layouts(graph: Graph) -> None:
    """Choose in place. Raise ValueError for a node that no declared layout fits."""
    options = {n: _with_functions(n, graph) for n in graph.nodes if kernel_record(n)}
    if not any(len(rows) > 1 or any(rows[0]) for rows in options.values()):
        return
    users = graph.consumers()
    for component in _components(graph, options):
        chosen = _choose(_LayoutCost(graph, component, users), component, options)
        for node, names in chosen.items():
            node.attrs["layouts"] = names
    lower_blocked_layouts(graph)


def _with_functions(node: Node, graph: Graph) -> list[Names]:
    """Return the combinations that have a C function; all combinations if none has."""
    fitting = _alternatives(node, graph)
    return [names for names in fitting if _has_function(node, names)] or fitting


def _alternatives(node: Node, graph: Graph) -> list[Names]:
    """Return the combinations of layouts that the node supports, in order of declaration."""
    record = node.attrs["operator"]
    declared = [*record.inputs[: len(node.inputs)], *record.outputs]
    values = [*node.inputs, *node.outputs]
    if record.any_layout:
        return _any_alternatives(node, graph, [d.layouts == "any" for d in declared])
    layouts = [d.parsed_layouts() for d in declared]
    count = max(map(len, layouts), default=0) or 1
    fitting, problems = [], []
    for i in range(count):
        row = [names[min(i, len(names) - 1)] if names else None for names in layouts]
        problem = _mismatch(declared, row, values)
        if problem is None:
            fitting.append(tuple(None if layout is None else layout.name for layout in row))
        else:
            problems.append(problem)
    if not fitting:
        raise ValueError(
            f"node {', '.join(node.sources)} ({record.name}): graph {graph.name}: no declared "
            f"layout matches: {'; '.join(dict.fromkeys(problems))}"
        )
    return fitting


def _has_function(node: Node, names: Names) -> bool:
    """Return whether the operator has a C function for the node in these layouts."""
    record = node.attrs["operator"]
    types = [None if v is None else v.type for v in node.inputs]
    results = [v.type for v in node.outputs]
    call = record.call_for(types, results, node.attrs["scalars"], names[0] if names else None)
    return record.c_refusal(call) is None


def _mismatch(declared, row: Sequence[Layout | None], values) -> str | None:
    for operand, layout, value in zip(declared, row, values):
        reason = None
        if layout is not None and value is not None:
            reason = layout.mismatch(value.shape)
        if reason is not None:
            return f"operand {operand.name}: {reason}"
    return None


def _any_alternatives(node: Node, graph: Graph, free: Sequence[bool]) -> list[Names]:
    """Return row-major, channels innermost, and every blocked layout in the graph."""
    values = [*node.inputs, *node.outputs]
    shapes = {v.shape for v, is_free in zip(values, free) if is_free and v is not None}
    row_major = tuple(None for _ in values)
    if len(shapes) != 1:
        return [row_major]
    shape = shapes.pop()
    names = {3: ["NWC"], 4: ["NHWC"], 5: ["NDHWC"]}.get(len(shape), [])
    names += [n for n in _block_names(graph) if parse_layout(n).mismatch(shape) is None]
    return [row_major, *(tuple(name if f else None for f in free) for name in names)]


def _block_names(graph: Graph) -> list[str]:
    alternatives = {
        layout.name
        for record in map(kernel_record, graph.nodes)
        if record is not None
        for operand in (*record.inputs, *record.outputs)
        for layout in operand.parsed_layouts()
        if layout.block > 1
    }
    return sorted(alternatives)


def _components(graph: Graph, options: dict[Node, list[Names]]) -> list[list[Node]]:
    """Return groups of nodes with dependent layouts: custom nodes with a choice, and nodes that
    pass a layout on between them."""
    parent: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node in graph.nodes:
        if node in options or _propagates_layout(node):
            parent[node] = node
            for value in node.inputs:
                if value is not None and value.producer in parent:
                    parent[find(value.producer)] = node
    groups: dict[Node, list[Node]] = {}
    for node in parent:
        groups.setdefault(find(node), []).append(node)
    return [group for group in groups.values() if any(node in options for node in group)]


def _propagates_layout(node: Node) -> bool:
    return node.operator.kind in (POINTWISE, VIEW) or node.op == "concat"


def _choose(
    trial: _LayoutCost, component: Sequence[Node], options: dict[Node, list[Names]]
) -> dict[Node, Names]:
    """Return the combination with minimum cost; of equal ones the first declared."""
    free = [node for node in component if node in options]
    if prod(len(options[node]) for node in free) * len(component) <= MAX_VISITS:
        rows = (dict(zip(free, row)) for row in product(*(options[node] for node in free)))
        return min(rows, key=trial.cost)
    return _descend(trial, free, options)


def _descend(trial: _LayoutCost, free: Sequence[Node], options) -> dict[Node, Names]:
    """Coordinate descent: from the best start, give each node its best layout until none changes.
    A start prefers one layout everywhere: no single change leads from one to another."""
    names = dict.fromkeys(name for node in free for row in options[node] for name in row)
    starts = [
        {node: max(options[node], key=lambda row: row.count(name)) for node in free}
        for name in names
    ]
    chosen = min(starts, key=trial.cost)
    best = trial.cost(chosen)
    changed = True
    while changed:
        changed = False
        for node in free:
            for row in options[node]:
                cost = trial.cost({**chosen, node: row})
                if cost < best:
                    chosen, best, changed = {**chosen, node: row}, cost, True
    return chosen


class _LayoutCost:
    """Cost model for a choice of layouts: number and bytes of converted tensors."""

    def __init__(
        self, graph: Graph, component: Sequence[Node], users: dict[Value, list[Node]]
    ) -> None:
        self.component = component
        inside = set(component)
        self.outer: dict[Value, list[ValueLayout]] = {}  # layouts that other nodes need
        for value in (v for node in component for v in node.outputs):
            others = [node for node in users.get(value, ()) if node not in inside]
            required = [_required_layout(node, value) for node in others]
            ends = [dense(value.shape)] if value in graph.outputs else []
            self.outer[value] = [w for w in required if w is not None] + ends

    def cost(self, chosen: dict[Node, Names]) -> tuple[int, int]:
        layouts_of: dict[Value, ValueLayout] = {}
        required = {value: list(layouts) for value, layouts in self.outer.items()}
        for node in self.component:
            self._visit(node, chosen, layouts_of, required)
        copies = size = 0
        for value, layouts in required.items():
            layout = self._at(value, layouts_of)
            different = [w for i, w in enumerate(layouts) if w not in layouts[:i]]
            conversions = [w for w in different if not _satisfies(layout, w)]
            copies += len(conversions)
            size += len(conversions) * value.type.nbytes
        return copies, size

    def _visit(self, node: Node, chosen, layouts_of, required) -> None:
        kind = node.operator.kind
        if node in chosen:
            values = [*node.inputs, *node.outputs]
            for i, (value, name) in enumerate(zip(values, chosen[node])):
                if value is None or value.is_constant:
                    continue
                layout = _layout_named(name, value.shape)
                if i < len(node.inputs):
                    required.setdefault(value, []).append(layout)
                else:
                    layouts_of[value] = layout
        elif kind == VIEW:
            layouts_of[node.output] = _through_view(
                node, self._at(node.inputs[0], layouts_of), required
            )
        else:
            layouts_of[node.output] = self._pointwise(node, layouts_of, required)

    def _at(self, value: Value, layouts_of: dict[Value, ValueLayout]) -> ValueLayout:
        return layouts_of.get(value) or _external_layout(value)

    def _pointwise(self, node: Node, layouts_of, required) -> ValueLayout:
        """Return the layout of the largest operand; blocks are kept if all operands have them."""
        shape = node.output.shape
        full = [v for v in node.inputs if v is not None and not v.is_constant and v.shape == shape]
        others = [v for v in node.inputs if v is not None and v not in full and v.type.size != 1]
        layouts = [self._at(v, layouts_of) for v in full]
        if not layouts or node.op == "concat":
            return dense(shape)
        blocks = [layout for layout in layouts if isinstance(layout, Layout)]
        if blocks and len(set(blocks)) == 1 and len(blocks) == len(layouts) and not others:
            return blocks[0]
        for value, layout in zip(full, layouts):
            if isinstance(layout, Layout):
                required.setdefault(value, []).append(dense(shape))
        largest = max(zip(full, layouts), key=lambda row: row[0].type.nbytes)[1]
        return dense(shape) if isinstance(largest, Layout) else dense(shape, largest.order())


def _layout_named(name: str | None, shape: tuple[int, ...]) -> ValueLayout:
    if name is None:
        return dense(shape)
    layout = parse_layout(name)
    return layout if layout.block > 1 else dense(shape, layout.order)


def _satisfies(layout: ValueLayout, required: ValueLayout) -> bool:
    if isinstance(layout, Layout) or isinstance(required, Layout):
        return layout == required
    return all(n == 1 or a == b for n, a, b in zip(layout.shape, layout.strides, required.strides))


def _external_layout(value: Value) -> ValueLayout:
    """Return the layout of a value that the component only reads."""
    node = value.producer
    if node is not None and node.has(Trait.CHANNELS_INNERMOST) and value.type.rank > 2:
        return dense(value.shape, channels_last_order(value.type.rank))
    return dense(value.shape)


def _required_layout(node: Node, value: Value) -> ValueLayout | None:
    """Return the layout that a built-in operator needs for an operand; None for any."""
    if node.has(Trait.CHANNELS_INNERMOST) and value.type.rank > 2:
        if value is not node.inputs[0]:
            return None
        return dense(value.shape, channels_last_order(value.type.rank))
    if node.operator.kind == REDUCE or node.has(Trait.ANY_LAYOUT):
        return None
    return dense(value.shape)


def _through_view(node: Node, layout: ValueLayout, required) -> ValueLayout:
    """Return the layout after a view; views that strides cannot express need row-major."""
    value, rule = node.inputs[0], node.operator
    at = None if isinstance(layout, Layout) else rule.access(layout, node.attrs)
    if at is None:
        required.setdefault(value, []).append(dense(value.shape))
        at = rule.access(dense(value.shape), node.attrs)
    return at
