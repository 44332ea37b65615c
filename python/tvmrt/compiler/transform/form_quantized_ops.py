"""Quantised networks: from conversions around floating-point operators to integer kernels.

Importers represent them as dequantised operands, a float operator and a quantised result, whatever
the format of the file. ``form_quantized_ops`` moves conversions together and forms integer kernels
where possible; later passes treat the remaining dequantised constants like any float constant.
``separate_dequantize`` runs last: each reader dequantises for itself, in its own loop.
"""

from __future__ import annotations

from tvmrt.compiler.ir import Graph, Node, Value
from tvmrt.compiler.ir.quantized import unlink_integer_sources
from tvmrt.compiler.ir.value_users import ValueUsers

from .conv_transpose_to_conv import conv_transpose_to_conv
from .dead_code import remove_dead_code
from .move_quantize import move_conversions
from .quantize_elementwise import form_quantized_elementwise
from .quantize_matmuls import form_quantized_matmuls


def form_quantized_ops(graph: Graph) -> None:
    if any(node.op in ("quantize", "dequantize") for node in graph.nodes):
        conv_transpose_to_conv(graph)
        move_conversions(graph)
        form_quantized_matmuls(graph)
        form_quantized_elementwise(graph)
        remove_dead_code(graph)
    unlink_integer_sources(graph.constants())


def separate_dequantize(graph: Graph) -> None:
    """Give each reader of a dequantize node its own copy."""
    readers = ValueUsers(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes.append(node)
        if node.op != "dequantize":
            continue
        value = node.output
        others = readers.of(value) if readers.is_graph_output(value) else readers.of(value)[1:]
        for reader in others:
            copy = Node(node.op, node.inputs, node.attrs, node.name, node.sources, node.guard)
            copy.outputs = [Value(value.name, value.type, copy)]
            reader.inputs = [copy.output if v is value else v for v in reader.inputs]
            nodes.append(copy)
    graph.nodes = nodes
