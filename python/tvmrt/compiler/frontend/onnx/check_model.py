"""Checks of a complete model: of its names at the beginning of the file gate, and by the onnx
package, for errors between nodes, at its end.

The package finds errors in half-precision types (float32 in the IR), declared types, loop bodies
and functions. It checks a copy without weights. Deviations that only onnxruntime accepts are
repaired in the copy: omitted names and shapes, versions of the file format.

Every name of a network is defined once, and before it is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Union

import onnx
from onnx import TensorProto, checker, helper, shape_inference

from tvmrt.compiler.ir import TensorType
from tvmrt.compiler.operator_key import domain_of, operator_name

from .check_node import clean_error_text
from .operator_schemas import declared, find_schema, onnx_element_type
from .tensors import constant_tensor, graphs, nodes, subgraphs

_UNCHECKED_DOMAIN = "tvmrt.unchecked"  # a domain that the onnx package does not know
_REMOVED_WEIGHTS = "RemovedWeights"  # operator of that domain: has the type of removed weights
_NodeHolder = Union[onnx.GraphProto, onnx.FunctionProto]
_MAX_KEPT_BYTES = 4096  # weights up to this size may be shapes or axes
_MAX_COPY_BYTES = 1 << 30  # maximum size of a copy that can be serialised


def check_complete_model(
    model: onnx.ModelProto,
    types: Mapping[str, TensorType],
    opsets: Mapping[str, int],
    unchecked: Callable[[onnx.NodeProto], bool],
    ignore_input_extents: bool = False,
) -> None:
    """Raise ValueError with the error of the onnx package's checker or its strict inference.

    ``types``: the types of the inputs. ``unchecked``: whether a node's operator is not ONNX's.
    ``ignore_input_extents``: the network has branches that are invalid at the inputs' extents.
    """
    copy = _checkable_copy(model, types, opsets, unchecked)
    if ignore_input_extents:
        _clear_input_extents(copy, types)
    if copy.ByteSize() > _MAX_COPY_BYTES:
        return  # other attributes of nodes are not removed
    untyped = _declare_missing_types(copy)
    try:
        checker.check_model(copy)
        if len(untyped) > sum(info in untyped for info in copy.graph.output):
            return  # outputs of a nested graph have no type to compare with
        for info in untyped:
            info.ClearField("type")
        _drop_declared_shapes(copy)
        # without data_prop, which needs memory for each element of a large vector
        shape_inference.infer_shapes(copy, check_type=True, strict_mode=True)
    except (checker.ValidationError, shape_inference.InferenceError) as problem:
        raise ValueError(_error_text(str(problem), copy)) from problem


def _checkable_copy(model, types, opsets, unchecked) -> onnx.ModelProto:
    copy = onnx.ModelProto(ir_version=onnx.IR_VERSION)
    versions = {**opsets, _UNCHECKED_DOMAIN: 1}
    for node in nodes(model):
        versions.setdefault(domain_of(node.domain), 1)
    copy.opset_import.extend(helper.make_opsetid(d, v) for d, v in versions.items())
    _copy_graph(model.graph, types, copy.graph)
    for function in model.functions:
        made = copy.functions.add()
        made.CopyFrom(function)
        del made.node[:]
        _copy_nodes(function, made)
        declared = {o.domain for o in function.opset_import}
        made.opset_import.extend(
            helper.make_opsetid(d, v) for d, v in versions.items() if d not in declared
        )
    for node in nodes(copy):
        if unchecked(node) or _is_wrongly_rejected(node, opsets):
            node.domain = _UNCHECKED_DOMAIN
    return copy


def _clear_input_extents(model: onnx.ModelProto, names: Container[str]) -> None:
    """Remove the extents of these inputs; their ranks stay."""
    for info in model.graph.input:
        if info.name in names:
            for dim in info.type.tensor_type.shape.dim:
                dim.Clear()


def _declare_missing_types(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Declare omitted types and shapes; return the values that had no type."""
    untyped = []
    for graph in graphs(model):
        for info in (*graph.input, *graph.output):
            if not info.type.WhichOneof("value") or (
                info.type.HasField("tensor_type") and not info.type.tensor_type.elem_type
            ):
                info.type.tensor_type.elem_type = TensorProto.FLOAT
                untyped.append(info)
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.shape.SetInParent()
    return untyped


def _drop_declared_shapes(model: onnx.ModelProto) -> None:
    """Drop declared shapes of computed tensors: onnxruntime only warns about wrong ones.

    An initialiser keeps its shape. If it were declared without one, the package would take axes
    stored in it for missing.
    """
    for graph in graphs(model):
        infos = [*graph.output, *graph.value_info]
        weight_dims = {tensor.name: tensor.dims for tensor in graph.initializer}
        removed = {n.output[0] for n in graph.node if n.op_type == _REMOVED_WEIGHTS}
        # in nested graphs, also those of inputs
        for info in infos if graph is model.graph else [*infos, *graph.input]:
            type = info.type.tensor_type
            if info.type.HasField("tensor_type") and info.name not in removed:
                type.ClearField("shape")
                if info.name in weight_dims:
                    info.CopyFrom(_info(info.name, type.elem_type, weight_dims[info.name]))


def _is_wrongly_rejected(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    """Return whether onnx's check of an operator is wrong: it ignores defaults in inference through
    function bodies, and rejects deprecated operators that onnxruntime supports."""
    definition = find_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
    if definition is None:
        return node.domain == ""
    inferred = definition.has_type_and_shape_inference_function
    return definition.deprecated or (definition.has_function and not inferred)


def _copy_graph(graph: onnx.GraphProto, types: Mapping, copy: onnx.GraphProto) -> None:
    copy.name = graph.name or "graph"
    for name, type in types.items():
        element = onnx_element_type(type.dtype)
        copy.input.append(helper.make_tensor_value_info(name, element, declared(type.shape)))
    copy.output.extend(graph.output)
    copy.value_info.extend(graph.value_info)
    _copy_contents(graph, copy)


def _copy_contents(graph: onnx.GraphProto, copy: onnx.GraphProto) -> None:
    """Copy weights, nodes and graphs nested in them; of large tensors only the types."""
    for tensor in graph.initializer:
        if tensor.ByteSize() <= _MAX_KEPT_BYTES and not tensor.external_data:
            copy.initializer.append(tensor)
        else:
            _declare(copy, tensor.name, tensor)
    _copy_nodes(graph, copy)


def _copy_nodes(holder: _NodeHolder, copy: _NodeHolder) -> None:
    for node in holder.node:
        value = _large_constant(node)
        if value is None:
            _copy_node(node, copy.node.add())
        else:
            _declare(copy, node.output[0], value)


def _copy_node(node: onnx.NodeProto, copy: onnx.NodeProto) -> None:
    if not any(subgraphs(node)):
        copy.CopyFrom(node)
        return
    copy.MergeFrom(
        onnx.NodeProto(
            op_type=node.op_type, domain=node.domain, overload=node.overload, name=node.name,
            input=node.input, output=node.output,
        )
    )  # fmt: skip
    for attribute in node.attribute:
        made = copy.attribute.add()
        if not attribute.HasField("g"):
            made.CopyFrom(attribute)
            continue
        made.name, made.type, inner = attribute.name, attribute.type, attribute.g
        made.g.name = inner.name
        made.g.input.extend(inner.input)
        made.g.output.extend(inner.output)
        made.g.value_info.extend(inner.value_info)
        _copy_contents(inner, made.g)


def _large_constant(node: onnx.NodeProto) -> TensorProto | None:
    if operator_name(node) != "Constant" or not node.output:
        return None
    tensor = constant_tensor(node) if node.ByteSize() > _MAX_KEPT_BYTES else None
    return tensor if tensor is not None and tensor.ByteSize() > _MAX_KEPT_BYTES else None


def _declare(holder: _NodeHolder, name: str, tensor: TensorProto) -> None:
    """Declare a tensor by its type: the result of a node that the onnx package does not know."""
    node = helper.make_node(_REMOVED_WEIGHTS, [], [name], domain=_UNCHECKED_DOMAIN)
    holder.node.append(node)
    holder.value_info.append(_info(name, tensor.data_type, tensor.dims))


def _info(name: str, element: int, dims: Iterable[int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, list(dims))


def _error_text(text: str, model: onnx.ModelProto) -> str:
    """Return the first error with the node that it is about."""
    context = re.search(r"Bad node spec for node\. Name: (.*?) OpType: (\w+)", text)
    tag = re.search(r"\(op_type:(\w+)(?:, node name: (.*?))?\)", text)
    if context is not None:
        op, name = context[2], context[1]
    elif tag is not None:
        op, name = tag[1], tag[2] or ""
        text = re.split(r"\n(?=\(op_type)", text)[0]
    else:
        return f"the model is not valid: {clean_error_text(text)}; export it again"
    matches = [n for n in nodes(model) if n.op_type == op and n.name == name]
    where = label(matches[0]) if len(matches) == 1 else f"node {name or 'without a name'} ({op})"
    return f"{where}: {clean_error_text(text)}"


def check_ssa_form(model: onnx.ModelProto) -> None:
    """Raise ValueError for a name that is defined twice, never, or in a cycle of nodes.

    ``sanitize_model`` has sorted the nodes and renamed repeated outputs.

    In ONNX, a nested graph must not redefine a name of an enclosing graph.
    """
    _check_graph(model.graph, set())
    for function in model.functions:
        where = f"function {function.name}"
        _require_unique(function.input, f"inputs of {where}")
        seen = set(function.input)
        _check_nodes(function.node, seen, {name: f"an input of {where}" for name in seen})
        _check_outputs(function.output, seen, where)


def label(node: onnx.NodeProto) -> str:
    """Return a node's description for errors; a node without a name gets one from its output."""
    return f"node {name_of(node)} ({node.op_type})"


def name_of(node: onnx.NodeProto) -> str:
    """Return a node's name, or one made of its operator and first output."""
    return node.name or f"{node.op_type}_{next((o for o in node.output if o), 'of_nothing')}"


def _check_graph(graph: onnx.GraphProto, outer: set[str]) -> None:
    where = f"graph {graph.name or 'without a name'}"
    weights = [tensor.name for tensor in graph.initializer]
    inputs = [info.name for info in graph.input]
    _require_unique(inputs, f"inputs of {where}")
    _require_unique(weights, f"weights of {where}")
    origins = dict.fromkeys(inputs, f"an input of {where}")
    origins.update(dict.fromkeys(weights, f"weights of {where}"))
    seen = outer | origins.keys()
    _check_nodes(graph.node, seen, origins)
    _check_outputs([info.name for info in graph.output], seen, where)


def _require_unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"two {what} are named {name}; give each a name of its own")
        seen.add(name)


def _check_outputs(outputs: Iterable[str], seen: set[str], where: str) -> None:
    for name in outputs:
        if name not in seen:
            raise ValueError(
                f"output {name} of {where} is not produced by any node; export the model again"
            )


def _check_nodes(nodes: Sequence[onnx.NodeProto], seen: set[str], origins: dict[str, str]) -> None:
    """Check nodes. ``seen``: all visible names; ``origins``: origins of this graph's names."""
    for node in nodes:
        for key in node.input:
            if key and key not in seen:
                raise ValueError(_undefined_name_text(node, key, nodes))
        for inner in subgraphs(node):
            _check_graph(inner, seen)
        for key in filter(None, node.output):
            if key in seen:
                origin = origins.get(key, "a tensor of the enclosing graph")
                raise ValueError(
                    f"{label(node)} produces {key}, which is already {origin}; tensor names must "
                    "be unique"
                )
            seen.add(key)
            origins[key] = f"produced by {label(node)}"


def _undefined_name_text(node: onnx.NodeProto, key: str, nodes: Sequence[onnx.NodeProto]) -> str:
    """Return the error text for a node that reads a name not defined before it.

    ``sanitize_model`` has sorted the nodes, so a producer further down means a cycle.
    """
    producer = next((other for other in nodes if key in other.output), None)
    if producer is None:
        return f"{label(node)} reads {key}, which no earlier node produces; export the model again"
    return (
        f"{label(node)} reads {key}, which {label(producer)} produces: the nodes form a cycle; "
        "export the model again"
    )
