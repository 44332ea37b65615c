"""Check of a complete model's structure by the onnx package, before its nodes are imported.

The package checks that every name is defined once, and before it is read, and that each node has
the attributes and the numbers of operands of its operator. It checks a copy without large weights.
Deviations that only onnxruntime accepts are repaired in the copy: omitted names, types and shapes,
versions of the file format. Element types and shapes are checked with each node, see
``check_node``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Union

import onnx
from onnx import TensorProto, checker, helper

from tvmrt.compiler.operator_key import domain_of, operator_name

from .check_node import clean_error_text
from .operator_schemas import find_schema
from .tensors import nodes, subgraphs

_UNCHECKED_DOMAIN = "tvmrt.unchecked"  # a domain that the onnx package does not know
_REMOVED_WEIGHTS = "RemovedWeights"  # operator of that domain that defines the name of weights
_NodeHolder = Union[onnx.GraphProto, onnx.FunctionProto]
_MAX_KEPT_BYTES = 4096  # of weights and constants in the copy
_MAX_COPY_BYTES = 1 << 30  # maximum size of a copy that can be serialised


def check_structure(
    model: onnx.ModelProto,
    opsets: Mapping[str, int],
    operators: Any = None,
) -> None:
    """Raise ValueError with the error of the onnx package's checker.

    ``sanitize_model`` has sorted the nodes and renamed repeated outputs. ``operators``: those of
    the user, which are not checked, by ``find(domain, name, version)``.
    """
    copy = _checkable_copy(model, opsets)
    for node in nodes(copy):
        version = opsets.get(domain_of(node.domain), 1)
        is_custom = operators is not None and operators.find(node.domain, node.op_type, version)
        if is_custom or _is_wrongly_rejected(node, version):
            node.domain = _UNCHECKED_DOMAIN
    if copy.ByteSize() > _MAX_COPY_BYTES:
        return  # other attributes of nodes are not removed
    try:
        checker.check_model(copy)
    except checker.ValidationError as problem:
        raise ValueError(_error_text(str(problem), copy)) from problem


def _checkable_copy(model: onnx.ModelProto, opsets: Mapping[str, int]) -> onnx.ModelProto:
    copy = onnx.ModelProto(ir_version=onnx.IR_VERSION)
    versions = {**opsets, _UNCHECKED_DOMAIN: 1}
    for node in nodes(model):
        versions.setdefault(domain_of(node.domain), 1)
    copy.opset_import.extend(helper.make_opsetid(d, v) for d, v in versions.items())
    _copy_graph(model.graph, copy.graph)
    for function in model.functions:
        made = copy.functions.add()
        made.CopyFrom(function)
        del made.node[:]
        _copy_nodes(function, made)
        declared = {o.domain for o in function.opset_import}
        made.opset_import.extend(
            helper.make_opsetid(d, v) for d, v in versions.items() if d not in declared
        )
    return copy


def _is_wrongly_rejected(node: onnx.NodeProto, version: int) -> bool:
    """Return whether the checker rejects an operator that the import reports, if it does not
    support it: an unknown one, or a deprecated one, which onnxruntime supports."""
    schema = find_schema(node.op_type, version, node.domain)
    return node.domain == "" if schema is None else schema.deprecated


def _copy_graph(graph: onnx.GraphProto, copy: onnx.GraphProto) -> None:
    """Copy a graph and those nested in it, with definitions in place of large weights. An input
    with a default value is defined by that."""
    copy.name = graph.name or "graph"
    defaults = {tensor.name for tensor in graph.initializer}
    copy.input.extend(info for info in graph.input if info.name not in defaults)
    copy.output.extend(graph.output)
    for info in (*copy.input, *copy.output):
        kind = info.type.WhichOneof("value") or "tensor_type"
        if kind == "tensor_type":
            info.type.tensor_type.elem_type = info.type.tensor_type.elem_type or TensorProto.FLOAT
            info.type.tensor_type.shape.SetInParent()
    for tensor in graph.initializer:
        if tensor.ByteSize() <= _MAX_KEPT_BYTES and not tensor.external_data:
            copy.initializer.append(tensor)
        else:
            copy.node.append(_definition(tensor.name))
    _copy_nodes(graph, copy)


def _copy_nodes(holder: _NodeHolder, copy: _NodeHolder) -> None:
    for node in holder.node:
        if not any(subgraphs(node)):
            is_large = operator_name(node) == "Constant" and node.ByteSize() > _MAX_KEPT_BYTES
            copy.node.append(_definition(node.output[0]) if is_large and node.output else node)
            continue
        made = copy.node.add(
            op_type=node.op_type, domain=node.domain, overload=node.overload, name=node.name,
            input=node.input, output=node.output,
        )  # fmt: skip
        for attribute in node.attribute:
            if attribute.HasField("g"):
                inner = made.attribute.add(name=attribute.name, type=attribute.type)
                _copy_graph(attribute.g, inner.g)
            else:
                made.attribute.append(attribute)


def _definition(name: str) -> onnx.NodeProto:
    """Return a node that the onnx package does not know, and that defines a tensor."""
    return helper.make_node(_REMOVED_WEIGHTS, [], [name], domain=_UNCHECKED_DOMAIN)


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


def label(node: onnx.NodeProto) -> str:
    """Return a node's description for errors; a node without a name gets one from its output."""
    return f"node {name_of(node)} ({node.op_type})"


def name_of(node: onnx.NodeProto) -> str:
    """Return a node's name, or one made of its operator and first output."""
    return node.name or f"{node.op_type}_{next((o for o in node.output if o), 'of_nothing')}"
