"""Rows of the table that apply to nodes of ONNX networks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tvmrt.compiler.operator_key import (
    FunctionKey,
    domain_of,
    functions_by_key,
    operator_name,
)

from .difference_types import Difference, Judge, NodeView
from .table import TABLE

if TYPE_CHECKING:
    import onnx

Types = Mapping[str, str]  # element types of tensors by name


def intentional_differences(
    node: onnx.NodeProto, opset: int = 0, types: Types | None = None
) -> list[Difference]:
    """Return the rows that apply to a node.

    ``opset``: version of the node's domain, 0 for the newest. ``types``: known element types. A
    condition on an unknown type counts as met if a floating-point type may meet it.
    """
    view = _view_of(node, opset, types or {})
    return [row for row in TABLE if row.applies_to(view)]


def differences_of(model: onnx.ModelProto) -> dict[int, list[Difference]]:
    """Return the rows that apply, by index in ``model.graph.node``, for nodes that have any.

    Nodes of the bodies of a node (Loop, If, Scan) and of functions that it calls count as its own.
    """
    types = types_of(model)
    versions = {domain_of(each.domain): each.version for each in model.opset_import}
    functions = functions_by_key(model)
    differences = {}
    for place, node in enumerate(model.graph.node):
        rows: list[Difference] = []
        for each in _with_inner(node, functions):
            rows += intentional_differences(each, versions.get(domain_of(each.domain), 0), types)
        if rows:
            differences[place] = list(dict.fromkeys(rows))
    return differences


def _with_inner(node: onnx.NodeProto, functions: Mapping) -> Iterator[onnx.NodeProto]:
    """Yield a node, and the nodes of its bodies and of the function that it calls."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        for attribute in each.attribute:
            waiting += attribute.g.node
        called = functions.get(FunctionKey.called_by(each))
        if called is not None:
            waiting += called.node


def types_of(model: onnx.ModelProto) -> dict[str, str]:
    """Return element types of tensors by name, as declared or inferred by onnx."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # if inference fails, use the declared types
        graph = model.graph
    kinds = {
        value.name: value.type.tensor_type.elem_type
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    kinds |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    return {name: _type_name(kind) for name, kind in kinds.items() if kind}


def _type_name(kind: int) -> str:
    import onnx

    text = kind == onnx.TensorProto.STRING
    return "string" if text else onnx.helper.tensor_dtype_to_np_dtype(kind).name


def _view_of(node: onnx.NodeProto, opset: int, types: Types) -> NodeView:
    """Return a node in the form that conditions take."""
    import onnx

    attributes: dict[str, Any] = {}
    for each in node.attribute:
        value = onnx.helper.get_attribute_value(each) if not each.ref_attr_name else None
        attributes[each.name] = value.decode() if isinstance(value, bytes) else value
    results = [types.get(name) for name in node.output]
    if operator_name(node) == "Cast" and results[:1] == [None] and attributes.get("to"):
        results[0] = _type_name(attributes["to"])
    return NodeView(
        node.op_type,
        node.domain,
        opset or 1 << 16,
        attributes,
        tuple(types.get(name) for name in node.input),
        tuple(bool(name) for name in node.input),
        tuple(results),
    )


def nodes_to_evaluate(model: onnx.ModelProto, with_data: bool = False) -> dict[int, str]:
    """Return the names of rows judged by the evaluator, by index in ``model.graph.node``.

    ``with_data``: also rows that apply to some run-time values only, which the evaluator computes
    as the standard says, unlike onnxruntime.
    """
    rows = {
        row
        for row in TABLE
        if (row.judge in (Judge.EXACT, Judge.REFERENCE) and not row.data)
        or (with_data and row.onnxruntime_differs and not row.evaluator_differs)
    }
    judged = {}
    for place, found in differences_of(model).items():
        names = [row.name for row in found if row in rows]
        if names:
            judged[place] = ", ".join(names)
    return judged
