"""Functions that a model defines itself: expansion of a call."""

from __future__ import annotations

import onnx


def expand_call(function: onnx.FunctionProto, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Return a function's nodes, prefixed by the calling node's name, with its attributes."""
    attributes = {a.name: a for a in function.attribute_proto}
    attributes.update({a.name: a for a in node.attribute})
    return [
        _bind_attributes(inner, node.name or node.op_type, attributes) for inner in function.node
    ]


def _bind_attributes(inner: onnx.NodeProto, caller: str, attributes: dict) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(inner)
    copy.name = f"{caller}/{inner.name or inner.op_type}"
    del copy.attribute[:]
    for attribute in inner.attribute:
        if not attribute.ref_attr_name:
            copy.attribute.add().CopyFrom(attribute)
        elif attribute.ref_attr_name in attributes:
            bound = copy.attribute.add()
            bound.CopyFrom(attributes[attribute.ref_attr_name])
            bound.name = attribute.name
    return copy


def foreign_versions(function: onnx.FunctionProto) -> dict[str, int]:
    """Return the versions of other domains than ONNX's own that a function imports; a model has one
    version per domain."""
    return {o.domain: o.version for o in function.opset_import if o.domain not in ("", "ai.onnx")}
