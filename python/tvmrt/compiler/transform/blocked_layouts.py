"""Custom operators in blocked-channel layouts: the blocks become axes of the graph.

Contract: the graph computes the same. Operands in such a layout get the layout's own shape by a
reshape and a transpose before and after each operator. If the result of one operator is read by
another in the same layout, directly or through pointwise nodes, nothing is converted between.
"""

from __future__ import annotations

from tvmrt.compiler.ir import POINTWISE, Builder, Graph, Node, TensorType, Value, get_op
from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.compiler.ir.layout import Layout, parse_layout

from .dead_code import remove_dead_code
from .rewrite import rewrite


def lower_blocked_layouts(graph: Graph) -> None:
    """Rewrite in place the nodes whose attribute ``layouts`` names blocked layouts."""
    rewriter = _BlockedLayoutRewriter()
    if rewrite(graph, rewriter.rule):
        remove_dead_code(graph)


class _BlockedLayoutRewriter:
    """Rewriter with each value's blocked form, if it has one; both forms have the same elements."""

    def __init__(self) -> None:
        self.forms: dict[tuple[Value, Layout], Value] = {}

    def rule(self, b: Builder, node: Node) -> list[Value] | Value | None:
        if kernel_record(node) and node.attrs.get("layouts"):
            return self._custom(b, node)
        if get_op(node.op).kind == POINTWISE:
            return self._pointwise(b, node)
        return None

    def _custom(self, b: Builder, node: Node) -> list[Value] | None:
        layouts = [_blocks(name) for name in node.attrs["layouts"]]
        count = len(node.inputs)
        copied_inputs = _copy_shared_inputs(b, node)
        if not any(layouts) and copied_inputs == node.inputs:
            return None
        inputs = [
            self._to_blocked(b, v, layout) if layout and v is not None else v
            for v, layout in zip(copied_inputs, layouts)
        ]
        if not any(layouts):
            return b.emit_many("custom", inputs, node.name, **node.attrs)
        input_types = [None if v is None else v.type for v in node.inputs]
        output_types = [v.type for v in node.outputs]
        written = [
            _in_blocks(type, layout) if layout else type
            for type, layout in zip(output_types, layouts[count:])
        ]
        attrs = {**node.attrs, "blocked": written, "logical": (input_types, output_types)}
        values = b.emit_many("custom", inputs, node.name, **attrs)
        return [
            self._from_blocked(b, v, layout, type.shape) if layout else v
            for v, layout, type in zip(values, layouts[count:], output_types)
        ]

    def _pointwise(self, b: Builder, node: Node) -> Value | None:
        """Emit the node on blocked operands, if all operands of its shape have a blocked form."""
        shape = node.output.shape
        full = [v for v in node.inputs if v is not None and v.shape == shape]
        others = [v for v in node.inputs if v is not None and v.shape != shape]
        if not full or any(v.type.size != 1 for v in others):
            return None
        computed = [v for v in full if not v.is_constant]
        for layout in dict.fromkeys(key[1] for key in self.forms):
            if computed and all((v, layout) in self.forms for v in computed):
                inputs = [self._operand(b, v, layout, shape) for v in node.inputs]
                result = b.emit(node.op, inputs, node.name, **node.attrs)
                return self._from_blocked(b, result, layout, shape)
        return None

    def _operand(self, b: Builder, value: Value, layout: Layout, shape) -> Value:
        if value.shape == shape:
            return self._to_blocked(b, value, layout)
        return b.emit("reshape", [value], shape=())

    def _to_blocked(self, b: Builder, value: Value, layout: Layout) -> Value:
        key = (value, layout)
        if key not in self.forms:
            split = b.emit("reshape", [value], value.name, shape=layout.split_shape(value.shape))
            self.forms[key] = b.emit("transpose", [split], value.name, perm=layout.split_order())
        return self.forms[key]

    def _from_blocked(self, b: Builder, value: Value, layout: Layout, shape) -> Value:
        order = layout.split_order()
        back = tuple(order.index(d) for d in range(len(order)))
        split = b.emit("transpose", [value], value.name, perm=back)
        logical = b.emit("reshape", [split], value.name, shape=shape)
        self.forms[logical, layout] = value
        return logical


def _copy_shared_inputs(b: Builder, node: Node) -> list[Value | None]:
    """Return the inputs; an input that is read in two layouts gets a copy for the second."""
    first: dict[Value, str | None] = {}
    shapes = []
    for value, name in zip(node.inputs, node.attrs["layouts"]):
        same = value is None or value.is_constant or first.setdefault(value, name) == name
        shapes.append(value if same else b.emit("identity", [value], node.name))
    return shapes


def _blocks(name: str | None) -> Layout | None:
    layout = parse_layout(name) if name else None
    return layout if layout is not None and layout.block > 1 else None


def _in_blocks(type: TensorType, layout: Layout) -> TensorType:
    return TensorType(layout.blocked_shape(type.shape), type.dtype)
