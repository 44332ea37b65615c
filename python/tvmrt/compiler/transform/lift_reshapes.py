"""Let a matmul write its rows in the shape of the residual add after it.

Exporters flatten the rows of an attention before the following matmul, and restore the batch axis
before the residual add. With that shape from the start, the add can be fused into the matmul.
Contract: bit-equal; only axes of extent 1 are added or removed.
"""

from __future__ import annotations

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value
from tvmrt.compiler.ir.value_users import ValueUsers

from .channel_constants import is_float_matmul
from .rewrite import rewrite


def lift_reshapes(graph: Graph) -> None:
    readers = ValueUsers(graph)
    reshapes: dict[Node, Node] = {}  # the reshape of each matmul
    for node in graph.nodes:
        matmul = node.inputs[0].producer if node.op == "reshape" else None
        if matmul is None or not is_float_matmul(matmul):
            continue
        if readers.only(matmul.output) is None:
            continue
        users = readers.of(node.output)
        if _is_liftable(matmul, node) and any(_is_fusable(n, node.output) for n in users):
            reshapes[matmul] = node
    if reshapes:
        removed = set(reshapes.values())
        rewrite(graph, lambda b, node: _rewrite_node(b, node, reshapes, removed))


def _is_liftable(matmul: Node, reshape: Node) -> bool:
    if matmul.guard is not None or reshape.guard is not None:
        return False
    weights = matmul.inputs[1]
    if not weights.is_constant or weights.type.rank != 2:
        return False
    if any(v is not None and v.type.rank > 1 for v in matmul.inputs[2:]):
        return False
    before, after = matmul.output.shape, reshape.output.shape
    if len(after) < 2 or after[-1] != before[-1]:
        return False
    return [n for n in before[:-1] if n != 1] == [n for n in after[:-1] if n != 1]


def _is_fusable(node: Node, value: Value) -> bool:
    """Return whether the node can be fused into the matmul, once that has the value's shape."""
    return node.has(Trait.ELEMENTWISE) and node.output.shape == value.shape


def _rewrite_node(
    b: Builder, node: Node, reshapes: dict[Node, Node], removed: set[Node]
) -> Value | None:
    if node in removed:
        return node.inputs[0]
    if node not in reshapes:
        return None
    x = node.inputs[0]
    shape = (*reshapes[node].attrs["shape"][:-1], x.shape[-1])
    rows = b.emit("reshape", [x], reshapes[node].name, shape=shape)
    return b.emit(node.op, [rows, *node.inputs[1:]], node.name, **node.attrs)
