"""A small network with many kinds of layers, for tests of the compiler's stages."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def small_network() -> onnx.ModelProto:
    """Return a convolution, residual, activation, average pooling, dense layer and softmax."""
    rng = np.random.default_rng(7)

    def weight(name, *shape):
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], "stem/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"], "stem/relu"),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], "block/depthwise", group=8, pads=[1] * 4),
        helper.make_node("Add", ["c2", "r1"], ["a"], "block/add"),
        helper.make_node("Sigmoid", ["a"], ["s"], "block/gate"),
        helper.make_node("Mul", ["a", "s"], ["m"], "block/silu"),
        helper.make_node("ReduceMean", ["m"], ["g"], "head/pool", axes=[2, 3], keepdims=0),
        helper.make_node("Gemm", ["g", "w3", "b3"], ["logits"], "head/dense", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 11])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 5])],
        [
            weight("w1", 8, 3, 3, 3),
            weight("b1", 8),
            weight("w2", 8, 1, 3, 3),
            weight("w3", 5, 8),
            weight("b3", 5),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
