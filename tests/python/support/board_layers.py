"""Two small networks that together call every layer kernel of boards.

Both map an 8 x 8 image to ten numbers. Weights are random, scaled so that activations keep their
range.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper
from onnx_graph import model

IMAGE = (1, 1, 8, 8)
CLASSES = 10


class _Layers:
    """Nodes in sequence; quantised ones between int8 conversions."""

    def __init__(self, quantised: bool) -> None:
        self.rng = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, np.ndarray] = {}
        self.quantised, self.last, self.channels = quantised, "image", 1
        if quantised:
            self.weights |= {"middle": np.int8(-7), "step": np.float32(0.03)}
            self._rounded()

    def _add(self, op: str, *inputs: str, **attributes: object) -> str:
        self.last = f"{op}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [self.last], **attributes))
        return self.last

    def _rounded(self) -> None:
        if self.quantised:
            self._add("QuantizeLinear", self.last, "step", "middle")
            self._add("DequantizeLinear", self.last, "step", "middle")

    def _weight(self, *shape: int) -> str:
        """Quantise weights with a separate scale for every output channel."""
        name = f"w{len(self.weights)}"
        size = (2 / max(1, int(np.prod(shape[1:])))) ** 0.5
        if not self.quantised:
            values = self.rng.standard_normal(shape) * size
            self.weights[name] = values.astype(np.float32)
            return name
        scales = size * self.rng.uniform(0.8, 1.2, shape[0]) / 70
        self.weights[f"{name}_scale"] = scales.astype(np.float32)
        self.weights[f"{name}_zero"] = np.zeros(shape[0], np.int8)
        self.weights[name] = self.rng.integers(-127, 128, shape).astype(np.int8)
        return self._add("DequantizeLinear", name, f"{name}_scale", f"{name}_zero", axis=0)

    def conv(self, out: int, kernel: int, stride: int = 1, depthwise: bool = False) -> None:
        groups = self.channels if depthwise else 1
        before = self.last
        weight = self._weight(out, self.channels // groups, kernel, kernel)
        self._add("Conv", before, weight, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                  pads=[kernel // 2] * 4, group=groups)  # fmt: skip
        self.channels = out
        self._add("Relu", self.last)
        self._rounded()

    def plus(self, other: str) -> None:
        self._add("Add", self.last, other)
        self._rounded()

    def head(self) -> None:
        for op in ("GlobalAveragePool", "Flatten"):
            self._add(op, self.last)
            self._rounded()
        before = self.last
        self._add("Gemm", before, self._weight(CLASSES, self.channels), transB=1)
        self._rounded()

    def model(self) -> onnx.ModelProto:
        image = np.zeros(IMAGE, np.float32)
        return model(self.nodes, {"image": image}, [self.last], self.weights)


def layers(quantised: bool) -> onnx.ModelProto:
    """Add dense, pointwise and depthwise convolutions of every window, a residual add, a mean, a
    matmul."""
    net = _Layers(quantised)
    net.conv(6, 3)
    net.conv(6, 3, depthwise=True)
    net.conv(16, 1)
    before = net.last
    net.conv(16, 5, depthwise=True)
    net.conv(16, 1)
    net.plus(before)
    net.conv(16, 3, 2, depthwise=True)
    net.conv(13, 3)
    net.head()
    return net.model()
