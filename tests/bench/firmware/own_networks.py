"""Built-in networks of the firmware benchmark: microcontroller shapes, random weights.

Shapes are those of the common tiny benchmarks: keyword spotting (a depthwise-separable CNN),
image classification (ResNet-8), visual wake words (MobileNet v1 0.25 of 96 x 96), anomaly
detection (an autoencoder), and a regression of a sine. ``int8`` ones come from onnxruntime's
static quantiser in its QLinear form.

    python tests/bench/firmware/own_networks.py NAME FILE.onnx [--integers]

writes one; with ``--integers`` it takes and returns int8, images channels last, as networks of
microcontrollers do.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class _Network:
    """Nodes in a chain, each with the previous node's result as input."""

    def __init__(self, shape: tuple[int, ...], seed: int) -> None:
        self.shape = shape
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.last, self.channels = "x", shape[1]

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, [self.last, *inputs], [name], name, **attributes))
        self.last = name
        return name

    def _weight(self, *shape: int) -> str:
        """Return random weights for which results have a variance of about 1; a vector is a
        bias."""
        fan = max(1, int(np.prod(shape[1:])))
        values = self.rng.standard_normal(shape) * (0.1 if len(shape) == 1 else (2 / fan) ** 0.5)
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def conv(self, out: int, kernel, stride: int = 1, depthwise=False, relu=True, pad="SAME_UPPER"):
        groups = self.channels if depthwise else 1
        weight = self._weight(out, self.channels // groups, *kernel)
        self.add("Conv", weight, self._weight(out), kernel_shape=kernel, group=groups,
                 strides=[stride, stride], auto_pad=pad)  # fmt: skip
        self.channels = out
        if relu:
            self.add("Relu")

    def dense(self, out: int, relu: bool = True) -> None:
        weight = self._weight(out, self.channels)
        self.add("Gemm", weight, self._weight(out), transB=1)
        self.channels = out
        if relu:
            self.add("Relu")

    def head(self, classes: int) -> None:
        self.add("GlobalAveragePool")
        self.add("Flatten")
        self.dense(classes, relu=False)
        self.add("Softmax", axis=-1)

    def model(self) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_tensor_value_info(self.last, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "own", [x], [y], self.weights)
        opset = [helper.make_opsetid("", 13)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opset, ir_version=8)
        )


def sine() -> onnx.ModelProto:
    net = _Network((1, 1), 1)
    net.dense(16)
    net.dense(16)
    net.dense(1, relu=False)
    return net.model()


def kws() -> onnx.ModelProto:
    net = _Network((1, 1, 49, 10), 2)
    net.conv(64, (10, 4), 2)
    for _ in range(4):
        net.conv(64, (3, 3), depthwise=True)
        net.conv(64, (1, 1))
    net.head(12)
    return net.model()


def ic() -> onnx.ModelProto:
    net = _Network((1, 3, 32, 32), 3)
    net.conv(16, (3, 3))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        before, wide = net.last, net.channels
        net.conv(channels, (3, 3), stride)
        net.conv(channels, (3, 3), relu=False)
        body = net.last
        if stride != 1:
            net.last, net.channels = before, wide
            net.conv(channels, (1, 1), stride, relu=False)
            before = net.last
        net.last = body
        net.add("Add", before)
        net.add("Relu")
    net.head(10)
    return net.model()


def vww() -> onnx.ModelProto:
    net = _Network((1, 3, 96, 96), 4)
    net.conv(8, (3, 3), 2)
    for channels, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2),
                             *[(128, 1)] * 5, (256, 2), (256, 1)):  # fmt: skip
        net.conv(net.channels, (3, 3), stride, depthwise=True)
        net.conv(channels, (1, 1))
    net.head(2)
    return net.model()


def ad() -> onnx.ModelProto:
    net = _Network((1, 640), 5)
    for width in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        net.dense(width)
    net.dense(640, relu=False)
    return net.model()


FLOAT = {"sine": sine, "kws": kws, "ic": ic, "vww": vww, "ad": ad}
NAMES = [f"{name}_{kind}" for name in FLOAT for kind in ("f32", "int8")]


def example(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray]:
    """Return a random input."""
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    values = np.random.default_rng(seed).standard_normal(shape)
    return {"x": values.astype(np.float32)}


def build(name: str) -> onnx.ModelProto:
    """Build the network with this name, one of ``NAMES``. int8 networks need onnxruntime."""
    base, kind = name.rsplit("_", 1)
    model = FLOAT[base]()
    return model if kind == "f32" else _quantised(model)


def _quantised(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime import quantization as q

    logging.getLogger().setLevel(logging.ERROR)  # onnxruntime recommends other formats

    class Examples(q.CalibrationDataReader):
        def __init__(self) -> None:
            self.seeds = iter(range(4))

        def get_next(self) -> dict[str, np.ndarray] | None:
            seed = next(self.seeds, None)
            return None if seed is None else example(model, seed)

    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, before)
        q.quantize_static(
            str(before), str(after), Examples(), quant_format=q.QuantFormat.QOperator,
            activation_type=q.QuantType.QInt8, weight_type=q.QuantType.QInt8,
        )  # fmt: skip
        return onnx.load(after)


def with_integer_ends(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return an int8 network without its first and last node, which convert from and to floats."""
    graph = model.graph
    first, *inner, last = graph.node
    assert (first.op_type, last.op_type) == ("QuantizeLinear", "DequantizeLinear")
    shape = [d.dim_value for d in graph.input[0].type.tensor_type.shape.dim]
    nodes = list(inner)
    if len(shape) == 4:
        order = [0, 3, 1, 2]
        nodes.insert(0, helper.make_node("Transpose", ["x"], [first.output[0]], perm=order))
        shape = [shape[0], *shape[2:], shape[1]]
    else:
        nodes.insert(0, helper.make_node("Identity", ["x"], [first.output[0]]))
    ends = [
        helper.make_tensor_value_info("x", TensorProto.INT8, shape),
        helper.make_tensor_value_info(last.input[0], TensorProto.INT8, None),
    ]
    changed = helper.make_graph(nodes, graph.name, ends[:1], ends[1:], graph.initializer)
    opsets = model.opset_import
    return helper.make_model(changed, opset_imports=opsets, ir_version=model.ir_version)


def golden(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs)))


def main() -> int:
    parser = argparse.ArgumentParser(description="Write one of the built-in networks")
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("file", type=Path)
    parser.add_argument("--integers", action="store_true", help="int8 input and output")
    arguments = parser.parse_args()
    model = build(arguments.name)
    onnx.save(with_integer_ends(model) if arguments.integers else model, arguments.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
