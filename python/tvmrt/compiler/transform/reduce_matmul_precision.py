"""Mixed precision: convolutions and matmuls that are computed in reduced precision.

In bfloat16, both operands are rounded; in int8, the activations of matmuls with block-quantised
weights. Results stay float32. Depthwise layers, which are limited by memory and not by
multiplication, and recurrent cells are not changed; the products of recurrent layers with all
steps of their input at once are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tvmrt.compiler.ir import Graph, Node, Trait
from tvmrt.compiler.ir.quantized import PANEL_ROWS, has_int8_weights
from tvmrt.compiler.ir.reduced_precision import BFLOAT16, INT8, PRECISION, ReducedPrecision
from tvmrt.compiler.ir.sizes import upper_bound

# Below these limits, rounding the input of a layer costs more than it saves.
MIN_CHANNELS = 2  # of the input, per group
MIN_USES = 16  # of an element of the input, by windows and channels
MIN_DEPTH, MIN_COLUMNS = 8, 8  # of a matmul
FEW_ROWS = 4  # up to which a computed matrix is read in place (TVMRT_MATMUL_FEW_ROWS)

Measure = Callable[[Graph, Sequence[Node]], "list[float]"]


def reduce_matmul_precision(
    graph: Graph,
    precision: str = BFLOAT16,
    measure: Measure | None = None,
    max_error: float | None = None,
) -> list[ReducedPrecision]:
    """Mark the matmul-like nodes of a graph that are computed in reduced precision.

    Parameters
    ----------
    graph
        Its nodes get an attribute.
    precision
        ``BFLOAT16`` or ``INT8``.
    measure
        Returns the error of each given node in this precision; None: nothing is measured.
    max_error
        Maximum error; nodes above it stay in float32. None: no limit.

    Returns
    -------
    A row for each node that could be computed in this precision, in order.
    """
    nodes = [node for node in graph.nodes if _is_profitable(node, precision)]
    errors = [None] * len(nodes) if measure is None else measure(graph, nodes)
    rows = []
    for node, error in zip(nodes, errors):
        exceeds_error = max_error is not None and error is not None and not error <= max_error
        if not exceeds_error:
            node.attrs[PRECISION] = precision
        dtype = "float32" if exceeds_error else precision
        rows.append(ReducedPrecision(_name(node), node.sources, dtype, error))
    return rows


def _name(node: Node) -> str:
    return node.inputs[1].name if node.inputs[1].is_constant else node.name


def _is_profitable(node: Node, precision: str) -> bool:
    trait = Trait.INT8_ACTIVATIONS if precision == INT8 else Trait.BFLOAT16
    if not node.has(trait) or node.inputs[1].keeps_layout:
        return False  # weights that are stored in the library in a device's format
    if node.has(Trait.MATRIX_PRODUCT):
        return _matmul_is_profitable(node)
    if node.operator.weights is None:  # block-quantised weights: kernels for many rows round x
        return upper_bound(node.output.shape[0]) >= PANEL_ROWS and has_int8_weights(node)
    return _conv_is_profitable(node)


def _conv_is_profitable(node: Node) -> bool:
    weights, (_, output_axis, input_axis) = node.inputs[1], node.operator.weights
    extents = [weights.shape[0] // node.attrs["groups"], weights.shape[1]]
    outs, ins = extents[output_axis], extents[input_axis]
    return ins >= MIN_CHANNELS and outs * prod(weights.shape[2:]) >= MIN_USES


def _matmul_is_profitable(node: Node) -> bool:
    a, b = node.inputs[:2]
    rows, depth = upper_bound(prod(a.shape[:-1])), upper_bound(a.shape[-1])
    if a.dtype.name != "float32" or depth < MIN_DEPTH or upper_bound(b.shape[-1]) < MIN_COLUMNS:
        return False
    return not a.is_constant and (b.is_constant or min(rows, upper_bound(a.shape[-2])) > FEW_ROWS)
