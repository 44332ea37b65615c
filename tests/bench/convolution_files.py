"""Well-known convolutional networks with random weights, as ONNX: shapes decide their speed."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper


class Maker:
    """A chain of nodes; every method takes and returns the name of a tensor."""

    def __init__(self, channels: int, size: int) -> None:
        self.nodes, self.held, self.channels = [], [], {"x": channels}
        self.size = size
        self._rng = np.random.default_rng(0)

    def node(self, op: str, inputs: list[str], channels: int, **attributes) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        self.channels[name] = channels
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.held)}"
        self.held.append(numpy_helper.from_array(array, name))
        return name

    def conv(self, x: str, outs: int, kernel: int = 3, stride: int = 1) -> str:
        shape = (outs, self.channels[x], kernel, kernel)
        w = self._rng.standard_normal(shape, np.float32)
        w *= np.float32(np.sqrt(1.5 / np.prod(shape[1:])))
        bias = self.constant(np.zeros(outs, np.float32))
        window = {"pads": [kernel // 2] * 4, "strides": [stride] * 2}
        return self.node("Conv", [x, self.constant(w), bias], outs, **window)

    def relu(self, x: str) -> str:
        return self.node("Relu", [x], self.channels[x])

    def silu(self, x: str) -> str:
        return self.node("Mul", [x, self.node("Sigmoid", [x], 0)], self.channels[x])

    def add(self, a: str, b: str) -> str:
        return self.node("Add", [a, b], self.channels[a])

    def join(self, *parts: str) -> str:
        return self.node("Concat", list(parts), sum(self.channels[p] for p in parts), axis=1)

    def pool(self, x: str, kernel: int, stride: int) -> str:
        pad = (kernel - 1) // 2
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        return self.node("MaxPool", [x], self.channels[x], **window)

    def larger(self, x: str) -> str:
        scales = self.constant(np.array([1, 1, 2, 2], np.float32))
        return self.node("Resize", [x, "", scales], self.channels[x], mode="nearest")

    def model(self, *outputs: str) -> ModelProto:
        shape = [1, self.channels["x"], self.size, self.size]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        ys = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in outputs]
        graph = helper.make_graph(self.nodes, "net", [x], ys, self.held)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def resnet50() -> ModelProto:
    """224 x 224, bottlenecks with the stride at the 3x3."""
    m = Maker(3, 224)
    x = m.pool(m.relu(m.conv("x", 64, 7, 2)), 3, 2)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = m.relu(m.conv(x, width, 1))
            y = m.conv(m.relu(m.conv(y, width, 3, stride)), 4 * width, 1)
            x = m.relu(m.add(y, x if block else m.conv(x, 4 * width, 1, stride)))
    return m.model(m.node("GlobalAveragePool", [x], 2048))


def unet(width: int = 32) -> ModelProto:
    """256 x 256, four steps down and up, two convolutions at each."""
    m = Maker(3, 256)

    def twice(x: str, outs: int) -> str:
        return m.relu(m.conv(m.relu(m.conv(x, outs)), outs))

    x, kept = twice("x", width), []
    for step in range(1, 5):
        kept.append(x)
        x = twice(m.pool(x, 2, 2), width << step)
    for step in range(3, -1, -1):
        x = twice(m.join(m.conv(m.larger(x), width << step, 1), kept[step]), width << step)
    return m.model(m.conv(x, 2, 1))


def yolov8n() -> ModelProto:
    """640 x 640, backbone, neck and heads, without the decoding of boxes."""
    m = Maker(3, 640)

    def conv(x: str, outs: int, kernel: int = 3, stride: int = 1) -> str:
        return m.silu(m.conv(x, outs, kernel, stride))

    def c2f(x: str, outs: int, blocks: int, shortcut: bool) -> str:
        # the two halves of one 1x1 convolution, as two convolutions
        parts = [conv(x, outs // 2, 1), conv(x, outs // 2, 1)]
        for _ in range(blocks):
            y = conv(conv(parts[-1], outs // 2), outs // 2)
            parts.append(m.add(y, parts[-1]) if shortcut else y)
        return conv(m.join(*parts), outs, 1)

    x = conv(conv("x", 16, 3, 2), 32, 3, 2)
    p3 = c2f(conv(c2f(x, 32, 1, True), 64, 3, 2), 64, 2, True)
    p4 = c2f(conv(p3, 128, 3, 2), 128, 2, True)
    x = conv(c2f(conv(p4, 256, 3, 2), 256, 1, True), 128, 1)
    pools = [x]
    for _ in range(3):
        pools.append(m.pool(pools[-1], 5, 1))
    p5 = conv(m.join(*pools), 256, 1)
    n4 = c2f(m.join(m.larger(p5), p4), 128, 1, False)
    n3 = c2f(m.join(m.larger(n4), p3), 64, 1, False)
    n4 = c2f(m.join(conv(n3, 64, 3, 2), n4), 128, 1, False)
    n5 = c2f(m.join(conv(n4, 128, 3, 2), p5), 256, 1, False)
    heads = [
        m.conv(conv(conv(x, outs), outs), last, 1)
        for x in (n3, n4, n5)
        for outs, last in ((64, 64), (80, 80))
    ]
    return m.model(*heads)


BUILDERS = {"resnet50": resnet50, "unet": unet, "yolov8n": yolov8n}
