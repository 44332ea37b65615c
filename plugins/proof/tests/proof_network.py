"""A small quantised network with the layers of the networks that boards run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class _Network:
    def __init__(self) -> None:
        self.random = np.random.default_rng(7)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.last = "image"

    def add(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def scale(self, value: float, zero: int) -> list[str]:
        return [self.constant(np.float32(value)), self.constant(np.int8(zero))]

    def requantise(self, value: float, zero: int) -> None:
        terms = self.scale(value, zero)
        self.last = self.add("QuantizeLinear", [self.last, *terms])
        self.last = self.add("DequantizeLinear", [self.last, *terms])

    def weights(self, *shape: int) -> list[str]:
        data = self.random.integers(-127, 128, shape).astype(np.int8)
        bias = self.random.integers(-99, 100, shape[0]).astype(np.int32)
        weights = self.add("DequantizeLinear", [self.constant(data), *self.scale(0.01, 0)])
        zero = self.constant(np.int32(0))
        terms = [self.constant(np.float32(0.0002)), zero]
        return [weights, self.add("DequantizeLinear", [self.constant(bias), *terms])]

    def conv(self, *shape: int, **attributes: Any) -> None:
        pads = [shape[2] // 2] * 4
        terms = self.weights(*shape)
        self.last = self.add("Conv", [self.last, *terms], pads=pads, **attributes)
        self.last = self.add("Relu", [self.last])
        self.requantise(0.02, -128)


def write(path: Path) -> None:
    """Write the network as ONNX."""
    net = _Network()
    net.requantise(0.02, -128)
    net.conv(4, 1, 3, 3)
    net.conv(4, 1, 3, 3, group=4)
    net.conv(8, 4, 1, 1)
    net.last = net.add("MaxPool", [net.last], kernel_shape=[2, 2], strides=[2, 2])
    net.last = net.add("Flatten", [net.last])
    net.last = net.add("Gemm", [net.last, *net.weights(5, 32)], transB=1)
    net.requantise(0.05, 3)
    net.last = net.add("Softmax", [net.last])
    graph = helper.make_graph(
        net.nodes, "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info(net.last, TensorProto.FLOAT, [1, 5])], net.constants,
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
