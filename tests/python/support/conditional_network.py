"""A small network whose operators run under a condition."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper
from onnx_graph import model


def conditional_network() -> ModelProto:
    """An If on the sum of x, a float32[1, 4]; its branches become guarded operators."""

    def branch(name: str, op: str):
        nodes = [
            helper.make_node("MatMul", ["x", "w"], [f"{name}_product"]),
            helper.make_node(op, [f"{name}_product"], [name]),
        ]
        out = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])
        return helper.make_graph(nodes, name, [], [out])

    nodes = [
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Greater", ["total", "zero"], ["positive"]),
        helper.make_node(
            "If", ["positive"], ["picked"],
            then_branch=branch("yes", "Relu"), else_branch=branch("no", "Sigmoid"),
        ),
        helper.make_node("Softmax", ["picked"], ["y"]),
    ]  # fmt: skip
    weights = {"w": np.arange(16, dtype=np.float32).reshape(4, 4) / 16, "zero": np.float32(0)}
    return model(nodes, {"x": np.zeros((1, 4), np.float32)}, ["y"], weights)
