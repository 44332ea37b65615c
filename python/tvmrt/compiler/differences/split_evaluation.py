"""Run a network in parts: nodes that a runtime computes differently run in the ONNX evaluator.

A node runs there if the table names the evaluator, with or without exact arithmetic, as the judge
of every run of it. The runtime runs all others, in as few parts as their order allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .difference_types import Difference, Judge, NodeView
from .exact_reference import evaluators
from .lookup import differences_of
from .table import TABLE

if TYPE_CHECKING:
    import onnx

Values = dict[str, Any]
Runtime = Callable[["onnx.ModelProto", Mapping[str, Any]], Values]


def nodes_to_evaluate(model: onnx.ModelProto) -> dict[int, list[str]]:
    """Return the names of rows judged by the evaluator, by index in ``model.graph.node``."""
    graphs = [*model.functions, model.graph]
    if not any(_operators(graph.node) & _EVALUATED for graph in graphs):
        return {}  # without type inference of a large network
    judged = {}
    for place, rows in differences_of(model).items():
        names = [row.name for row in rows if _is_evaluated(row)]
        if names:
            judged[place] = names
    return judged


def _is_evaluated(row: Difference) -> bool:
    return row.judge is Judge.EXACT or (row.judge is Judge.REFERENCE and not row.data)


_EVALUATED = {op for row in TABLE if _is_evaluated(row) for op in row.operators}


def _operators(nodes: Any) -> set[str]:
    """Return the operators of nodes and of their bodies, as rows of the table name them."""
    operators: set[str] = set()
    for node in nodes:
        operators.add(NodeView(node.op_type, node.domain).operator)
        for attribute in node.attribute:
            operators |= _operators(attribute.g.node)
    return operators


def run_with_reference(
    model: onnx.ModelProto, inputs: Mapping[str, Any], runtime: Runtime
) -> Values:
    """Return every output by name, computed by ``runtime`` and the evaluator.

    ``runtime(model, inputs)`` returns the outputs of a model by name. Raises ValueError if the
    network cannot be split, for example because a sequence of unknown type connects two parts.
    """
    import onnx
    from onnx import numpy_helper

    chosen = nodes_to_evaluate(model)
    if not chosen:
        return runtime(model, inputs)
    graph = onnx.shape_inference.infer_shapes(model).graph
    constants = {each.name: each for each in model.graph.initializer}
    values: Values = dict(inputs)
    waiting = list(range(len(model.graph.node)))
    outputs = {each.name for each in model.graph.output}
    by_evaluator, idle = False, 0
    while waiting and idle < 2:
        taken, waiting = _ready(model, waiting, chosen, by_evaluator, {*values, *constants})
        idle = 0 if taken else idle + 1
        if taken:
            required = outputs | _read(model.graph.node[i] for i in waiting)
            part = _part(model, graph, taken, values, required)
            feeds = {each.name: values[each.name] for each in part.graph.input}
            values.update((_evaluate if by_evaluator else runtime)(part, feeds))
        by_evaluator = not by_evaluator
    if waiting:
        raise ValueError("the nodes of the network are not in topological order")
    return {
        each.name: values[each.name]
        if each.name in values
        else numpy_helper.to_array(constants[each.name])
        for each in model.graph.output
    }


def _ready(
    model: onnx.ModelProto,
    waiting: Sequence[int],
    chosen: Mapping[int, Any],
    by_evaluator: bool,
    known: set[str],
) -> tuple[list[int], list[int]]:
    """Return the nodes that may run next in one part, and the others."""
    waiting_outputs = {name for place in waiting for name in model.graph.node[place].output}
    missing = waiting_outputs - known
    taken, left = [], []
    for place in waiting:
        node = model.graph.node[place]
        if (place in chosen) == by_evaluator and missing.isdisjoint(_read([node])):
            taken.append(place)
            missing.difference_update(node.output)
        else:
            left.append(place)
    return taken, left


def _read(nodes: Any) -> set[str]:
    """Return the names that nodes read, including those of their bodies."""
    names: set[str] = set()
    for node in nodes:
        names.update(filter(None, node.input))
        for attribute in node.attribute:
            names |= _read(attribute.g.node)
            names.update(each.name for each in attribute.g.output)
    return names


def _part(
    model: onnx.ModelProto,
    inferred: onnx.GraphProto,
    places: Sequence[int],
    values: Values,
    required: set[str],
) -> onnx.ModelProto:
    """Return some nodes of a model as a model whose inputs are known values."""
    import onnx
    from onnx import helper

    part = onnx.ModelProto()
    part.CopyFrom(model)
    graph = part.graph
    del graph.node[:], graph.input[:], graph.output[:], graph.value_info[:]
    graph.node.extend(model.graph.node[place] for place in places)
    read = _read(graph.node)
    for kind in (graph.initializer, graph.sparse_initializer):
        needed = [each for each in kind if (_name(each) in read and _name(each) not in values)]
        del kind[:]
        kind.extend(needed)
    types = {each.name: each for each in (*inferred.input, *inferred.value_info)}
    for name in sorted(read & values.keys()):
        graph.input.append(_input(name, values[name], types))
    computed = {name for node in graph.node for name in node.output if name}
    for name in sorted(computed & required):
        graph.output.append(helper.make_empty_tensor_value_info(name))
    return part


def _name(tensor: Any) -> str:
    return tensor.values.name if hasattr(tensor, "values") else tensor.name


def _input(name: str, value: Any, types: Mapping[str, Any]) -> onnx.ValueInfoProto:
    from onnx import helper

    if hasattr(value, "dtype"):
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        return helper.make_tensor_value_info(name, kind, value.shape)
    if name not in types:
        raise ValueError(f"the type of {name} is unknown")
    return types[name]


def _evaluate(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> Values:
    """Run a model in the ONNX reference evaluator with exact operators; return outputs by name.

    Raises ValueError if it cannot run the network.
    """
    from onnx.inliner import inline_local_functions
    from onnx.reference import ReferenceEvaluator

    if model.functions:  # functions may not use additional operators in it
        model = inline_local_functions(model)
    try:
        outputs = ReferenceEvaluator(model, new_ops=evaluators()).run(None, dict(inputs))
    except Exception as error:  # its operators raise exceptions of any type
        reason = " ".join(str(error).split())
        raise ValueError(f"the ONNX reference evaluator failed: {reason}") from None
    return dict(zip((each.name for each in model.graph.output), outputs))
