"""Names of nodes, as the compiler reports them, and the tensors that these nodes compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tvmrt.cli import tolerance

if TYPE_CHECKING:
    import onnx

    from tvmrt.compiler.operator_key import FunctionKey

# Each step uses the state of the step before, and so amplifies errors of the products with inputs.
RECURRENT = ("GRU", "LSTM", "RNN")

Functions = dict["FunctionKey", "onnx.FunctionProto"]


def rounded_tensors(model: onnx.ModelProto, reduced: frozenset[str]) -> Mapping[str, float]:
    """Return the allowed errors of tensors, relative to their maximum, if nodes with the names
    ``reduced`` round their operands: by name of the tensor, for results of the model's own nodes.

    A node with a nested graph, a call of a function or a recurrent node is a network of layers.
    """
    from tvmrt.compiler.frontend.onnx.check_ssa import name_of
    from tvmrt.compiler.operator_key import functions_by_key, operator_name

    functions = functions_by_key(model)
    allowed: dict[str, float] = {}
    for node in model.graph.node:
        is_layer = name_of(node) in reduced
        if is_layer and operator_name(node) not in RECURRENT:
            allowed.update(dict.fromkeys(node.output, tolerance.ROUNDED_LAYER))
        elif is_layer or not reduced.isdisjoint(_inner_names(node, functions)):
            allowed.update(dict.fromkeys(node.output, tolerance.ROUNDED_NETWORK))
    return allowed


def _inner_names(node: onnx.NodeProto, functions: Functions) -> Iterator[str]:
    """Yield the compiler's names of nodes in a node's nested graphs, or in the function it calls.

    The compiler has refused functions that call themselves.
    """
    from tvmrt.compiler.frontend.onnx.check_ssa import name_of
    from tvmrt.compiler.frontend.onnx.model_functions import expand_call
    from tvmrt.compiler.frontend.onnx.tensors import subgraphs
    from tvmrt.compiler.operator_key import FunctionKey

    inside = [inner for graph in subgraphs(node) for inner in graph.node]
    function = functions.get(FunctionKey.called_by(node))
    if function is not None:
        inside += expand_call(function, node)
    for inner in inside:
        yield name_of(inner)
        yield from _inner_names(inner, functions)
