"""Quantised networks: from conversions around float operators to integer kernels.

Networks arrive as dequantised operands, a float operator and a quantised result, whatever their
file wrote. ``form_quantized`` moves the conversions together, makes integer products of what it
can and folds what is left of dequantised constants, so that the later passes see floats as ever.
``separate_dequantize`` runs last: each reader dequantises for itself, in its own loop.
"""

from __future__ import annotations

from tvmrt.ir import POINTWISE, VIEW, Builder, Graph, Node, Value, constant, get_op
from tvmrt.ir.quantized import dequantize_array

from .dead_code import remove_dead_code
from .quant_moves import move_conversions
from .quant_products import form_products
from .rewrite import rewrite


def form_quantized(graph: Graph) -> None:
    if not any(node.op in ("quantize", "dequantize") for node in graph.nodes):
        return
    move_conversions(graph)
    form_products(graph)
    rewrite(graph, _fold)
    remove_dead_code(graph)


def _fold(b: Builder, node: Node) -> Value | None:
    """Dequantised constants, and what moves them, as constants."""
    if any(v is None or v.data is None for v in node.inputs) or not node.inputs:
        return None
    if node.op == "dequantize":
        data = dequantize_array(*(v.data for v in node.inputs))
        return constant(data.reshape(node.output.shape), node.name)
    if get_op(node.op).kind in (POINTWISE, VIEW) and len(node.outputs) == 1:
        return b.emit(node.op, node.inputs, node.name, **node.attrs)
    return None


def separate_dequantize(graph: Graph) -> None:
    """A copy of every dequantize node for each of its readers."""
    users = graph.consumers()
    outputs = set(graph.outputs)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(node)
        if node.op != "dequantize":
            continue
        value = node.output
        readers = users.get(value, [])
        for reader in readers if value in outputs else readers[1:]:
            copy = Node(node.op, node.inputs, node.attrs, node.name, node.sources, node.guard)
            copy.outputs = [Value(value.name, value.type, copy)]
            reader.inputs = [copy.output if v is value else v for v in reader.inputs]
            nodes.append(copy)
    graph.nodes = nodes
