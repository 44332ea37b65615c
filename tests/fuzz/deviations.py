"""Nodes for which the ONNX reference evaluator judges, since onnxruntime differs from the standard."""

from __future__ import annotations

import onnx


def is_left_to_the_standard(node: onnx.NodeProto) -> bool:
    """Whether onnxruntime's result of a node is known to differ from the standard's."""
    attrs = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type == "Resize":
        # onnxruntime rounds the ratio of sizes before it takes the floor or the ceiling
        return attrs.get("mode") == b"nearest" and len(node.input) > 3
    return False
