"""A small network whose report is known exactly, and one with thousands of nodes."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(7)


def _weight(name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)


def _model(nodes, shape, output, weights) -> onnx.ModelProto:
    def tensor(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(nodes, "net", [tensor("x")], [tensor(output)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branched(name: str = "first") -> onnx.ModelProto:
    """Return Conv and Relu, then a pool and a convolution, added after a no-op reshape."""
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["a0"], name=name),
        helper.make_node("Relu", ["a0"], ["a1"], name="rectifier"),
        helper.make_node(
            "MaxPool", ["a1"], ["p"], name="pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]
        ),
        helper.make_node("Conv", ["a1", "b"], ["c"], name="second"),
        helper.make_node("Softmax", ["c"], ["s"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["s", "p"], ["y"], name="product"),
    ]
    return _model(nodes, [1, 4, 8, 8], "y", [_weight("a", 4, 4, 1, 1), _weight("b", 4, 4, 1, 1)])


def long(blocks: int) -> onnx.ModelProto:
    """Return blocks of four nodes, each block a fork and a join."""
    nodes, last = [], "x"
    for i in range(blocks):
        nodes += [
            helper.make_node("Conv", [last, "a"], [f"c{i}"], name=f"block{i}/conv"),
            helper.make_node(
                "MaxPool", [f"c{i}"], [f"p{i}"], name=f"block{i}/pool", kernel_shape=[3, 3],
                pads=[1, 1, 1, 1],
            ),
            helper.make_node("Softmax", [f"c{i}"], [f"s{i}"], name=f"block{i}/softmax", axis=1),
            helper.make_node("Add", [f"s{i}", f"p{i}"], [f"y{i}"], name=f"block{i}/sum"),
        ]  # fmt: skip
        last = f"y{i}"
    return _model(nodes, [1, 8, 4, 4], last, [_weight("a", 8, 8, 1, 1)])
