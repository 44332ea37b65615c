"""Quantised networks: from conversions around float operators to integer kernels.

Networks arrive as dequantised operands, a float operator and a quantised result, whatever their
file wrote. ``form_quantized`` moves the conversions together and makes integer products of what
it can; what is left of dequantised constants are floats like any others to the later passes.
``separate_dequantize`` runs last: each reader dequantises for itself, in its own loop.
"""

from __future__ import annotations

from tvmrt.compiler.ir import Graph, Node, Value
from tvmrt.compiler.ir.quantized import forget_integers
from tvmrt.compiler.ir.readers import Readers

from .dead_code import remove_dead_code
from .quant_elements import form_elements
from .quant_moves import move_conversions
from .quant_products import form_products


def form_quantized(graph: Graph) -> None:
    if any(node.op in ("quantize", "dequantize") for node in graph.nodes):
        move_conversions(graph)
        form_products(graph)
        form_elements(graph)
        remove_dead_code(graph)
    forget_integers(graph.constants())


def separate_dequantize(graph: Graph) -> None:
    """A copy of every dequantize node for each of its readers."""
    readers = Readers(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(node)
        if node.op != "dequantize":
            continue
        value = node.output
        others = readers.of(value) if readers.by_caller(value) else readers.of(value)[1:]
        for reader in others:
            copy = Node(node.op, node.inputs, node.attrs, node.name, node.sources, node.guard)
            copy.outputs = [Value(value.name, value.type, copy)]
            reader.inputs = [copy.output if v is value else v for v in reader.inputs]
            nodes.append(copy)
    graph.nodes = nodes
