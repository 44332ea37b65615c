"""Models of the onnx package's node cases, moved into another kind of body.

The nodes of a model become the body of a branch, a loop, a scan or a function, which computes the
same outputs. So each case tests that an operator, its attributes and its types work there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DOMAIN = "tvmrt.test.bodies"
CONDITION = "run time condition"  # a bool input that is True
ITERATIONS = 2  # all compute the same; the last one's results count


@dataclass(frozen=True)
class Wrapped:
    """A model with its nodes in a body, and the values of the inputs that it has in addition."""

    model: onnx.ModelProto
    more_inputs: tuple[np.ndarray, ...] = ()


class UnfitError(Exception):
    """A model cannot be moved into a body: its results cannot be stacked."""


def in_branch(model: onnx.ModelProto) -> Wrapped:
    """Move the nodes into both branches of an If, whose condition is an input."""
    branches = {name: _graph(model, name) for name in ("then_branch", "else_branch")}
    node = helper.make_node("If", [CONDITION], _outputs(model), "body", **branches)
    condition = helper.make_tensor_value_info(CONDITION, TensorProto.BOOL, [])
    return Wrapped(_with_nodes(model, [node], [condition]), (np.array(True),))


def in_loop(model: onnx.ModelProto) -> Wrapped:
    """Move the nodes into a Loop, and return the results of its last iteration."""
    body = _graph(model, "loop_body")
    scalars = [("iteration", TensorProto.INT64), ("continues", TensorProto.BOOL)]
    body.input.extend(helper.make_tensor_value_info(*each, []) for each in scalars)
    body.node.insert(0, helper.make_node("Identity", ["continues"], ["continued"]))
    body.output.insert(0, helper.make_tensor_value_info("continued", TensorProto.BOOL, []))
    constants = [_constant("trip count", np.int64(ITERATIONS)), _constant("first", np.bool_(True))]
    node = helper.make_node("Loop", ["trip count", "first"], _stacked(model), "body", body=body)
    return Wrapped(_with_nodes(model, [*constants, node, *_last_of(model)]))


def in_scan(model: onnx.ModelProto) -> Wrapped:
    """Move the nodes into a Scan, and return the results of its last iteration."""
    body = _graph(model, "scan_body")
    body.input.append(helper.make_tensor_value_info("scanned", TensorProto.FLOAT, []))
    steps = _constant("steps", np.zeros(ITERATIONS, np.float32))
    node = helper.make_node(
        "Scan", ["steps"], _stacked(model), "body", body=body, num_scan_inputs=1
    )
    return Wrapped(_with_nodes(model, [steps, node, *_last_of(model)]))


def in_function(model: onnx.ModelProto) -> Wrapped:
    """Move the nodes into a function."""
    inputs, outputs = [each.name for each in model.graph.input], _outputs(model)
    nodes, rename = _renamed(model)
    function = helper.make_function(
        DOMAIN, "Body", [rename(n) for n in inputs], [rename(n) for n in outputs], nodes,
        list(model.opset_import),
    )  # fmt: skip
    call = helper.make_node("Body", inputs, outputs, "body", domain=DOMAIN)
    found = _with_nodes(model, [call])
    found.functions.append(function)
    found.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return Wrapped(found)


def in_function_of_a_branch(model: onnx.ModelProto) -> Wrapped:
    """Move the nodes into a function that the branches of an If call."""
    return in_branch(in_function(model).model)


def in_branch_of_a_function(model: onnx.ModelProto) -> Wrapped:
    """Move the nodes into the branches of an If in a function."""
    branched = in_branch(model)
    return Wrapped(in_function(branched.model).model, branched.more_inputs)


BODIES: dict[str, Callable[[onnx.ModelProto], Wrapped]] = {
    "branch": in_branch, "loop": in_loop, "scan": in_scan, "function": in_function,
    "function of a branch": in_function_of_a_branch,
    "branch of a function": in_branch_of_a_function,
}  # fmt: skip


def _outputs(model: onnx.ModelProto) -> list[str]:
    return [each.name for each in model.graph.output]


def _stacked(model: onnx.ModelProto) -> list[str]:
    """Return names of the stacked results. Raises UnfitError if Gather cannot select from them."""
    version = max(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
    schema = onnx.defs.get_schema("Gather", version)
    (types,) = (
        each.allowed_type_strs for each in schema.type_constraints if "T" == each.type_param_str
    )
    for each in model.graph.output:
        name = TensorProto.DataType.Name(each.type.tensor_type.elem_type).lower()
        if f"tensor({name})" not in types:
            raise UnfitError(f"Gather does not select from {each.name}")
    return [f"{name} of all iterations" for name in _outputs(model)]


def _last_of(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return nodes that select the results of the last iteration."""
    selections = [
        helper.make_node("Gather", [stacked, "last"], [name], axis=0)
        for stacked, name in zip(_stacked(model), _outputs(model))
    ]
    return [_constant("last", np.int64(ITERATIONS - 1)), *selections]


def _constant(name: str, value: Any) -> onnx.NodeProto:
    tensor = numpy_helper.from_array(np.asarray(value))
    return helper.make_node("Constant", [], [name], value=tensor)


def _graph(model: onnx.ModelProto, name: str) -> onnx.GraphProto:
    """Return the graph as a body without inputs, whose own names are not those outside of it."""
    nodes, rename = _renamed(model, keep=[each.name for each in model.graph.input])
    body = onnx.GraphProto(name=name, node=nodes)
    for each in model.graph.output:
        info = body.output.add()
        info.CopyFrom(each)
        info.name = rename(each.name)
    for each in model.graph.initializer:
        body.initializer.add().CopyFrom(each)
    for each in model.graph.sparse_initializer:
        body.sparse_initializer.add().CopyFrom(each)
    return body


def _renamed(
    model: onnx.ModelProto, keep: Sequence[str] = ()
) -> tuple[list[onnx.NodeProto], Callable[[str], str]]:
    """Return copies of the nodes with names of their own, and the function that renames."""
    fixed = {*keep, "", *(each.name for each in model.graph.initializer)}
    fixed |= {each.values.name for each in model.graph.sparse_initializer}

    def rename(name: str) -> str:
        return name if name in fixed else f"inner {name}"

    nodes = []
    for each in model.graph.node:
        node = onnx.NodeProto()
        node.CopyFrom(each)
        _rename_node(node, rename)
        nodes.append(node)
    return nodes, rename


def _rename_node(node: onnx.NodeProto, rename: Callable[[str], str]) -> None:
    node.input[:] = [rename(name) for name in node.input]
    node.output[:] = [rename(name) for name in node.output]
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
            _rename_graph(graph, rename)


def _rename_graph(graph: onnx.GraphProto, rename: Callable[[str], str]) -> None:
    """Rename what a nested graph defines as well as what it reads from outside."""
    for each in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        each.name = rename(each.name)
    for each in graph.sparse_initializer:
        each.values.name = rename(each.values.name)
    for node in graph.node:
        _rename_node(node, rename)


def _with_nodes(
    model: onnx.ModelProto,
    nodes: Sequence[onnx.NodeProto],
    more_inputs: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    """Return the model with other nodes, and without initializers, which are in the body."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    for field in ("node", "initializer", "sparse_initializer", "value_info"):
        found.graph.ClearField(field)
    found.graph.node.extend(nodes)
    found.graph.input.extend(more_inputs)
    return found
