"""Write recurrent text networks and a quantised U-Net for bench_runtimes.py.

    python tests/bench/weak_networks.py FOLDER
    TVM_NUM_THREADS=2 python tests/bench/bench_runtimes.py FOLDER/*.onnx --threads 2 \\
        --kinds f32 ort ov_f32

Weights are random. onnxruntime's quantiser makes the U-Net's activations uint8 and its weights
int8, per channel (QDQ).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

RNG = np.random.default_rng(0)
# name: operator, hidden units, steps, directions
RECURRENT = {
    "bilstm_128": ("LSTM", 128, 100, 2),
    "bilstm_256": ("LSTM", 256, 64, 2),
    "lstm_256": ("LSTM", 256, 100, 1),
    "bigru_64": ("GRU", 64, 200, 2),
    "gru_256": ("GRU", 256, 100, 1),
}
IMAGE = (1, 3, 128, 128)


class Network:
    """Nodes and weights of a network that is being written."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        array = RNG.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attrs) -> str:
        names = [f"{op}{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names[0]

    def save(self, path: Path, x: onnx.ValueInfoProto, y: str) -> None:
        out = helper.make_tensor_value_info(y, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, path.stem, [x], [out], self.weights)
        opsets = [helper.make_opsetid("", 17)]
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def write_recurrent(path: Path, op: str, hidden: int, steps: int, directions: int) -> None:
    net = Network()
    x = helper.make_tensor_value_info("words", TensorProto.INT64, [steps, 1])
    rows = {"LSTM": 4, "GRU": 3}[op] * hidden
    weights = [net.weight(directions, rows, n) for n in (128, hidden)]
    attrs = {"linear_before_reset": 1} if op == "GRU" else {}
    attrs["direction"] = "bidirectional" if directions == 2 else "forward"
    y = net.node("Gather", net.weight(2000, 128), "words")
    bias = net.weight(directions, 2 * rows)
    y = net.node(op, y, *weights, bias, hidden_size=hidden, **attrs)
    y = net.node("ReduceMean", y, axes=[0, 2], keepdims=0)
    net.save(path, x, net.node("MatMul", y, net.weight(hidden, 4)))


def write_unet(path: Path) -> None:
    net = Network()

    def convs(y: str, before: int, after: int) -> str:
        for channels in (before, after):
            w = net.weight(after, channels, 3, 3)
            y = net.node("Relu", net.node("Conv", y, w, net.weight(after), pads=[1] * 4))
        return y

    widths, skips = (32, 64, 128, 256), []
    y = convs("image", 3, widths[0])
    for before, after in zip(widths, widths[1:]):
        skips.append(y)
        y = convs(net.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]), before, after)
    for before, after in zip(widths[::-1], widths[-2::-1]):
        w, bias = net.weight(before, after, 2, 2), net.weight(after)
        y = net.node("ConvTranspose", y, w, bias, strides=[2, 2])
        y = convs(net.node("Concat", y, skips.pop(), axis=1), 2 * after, after)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)
    net.save(path, image, net.node("Conv", y, net.weight(4, widths[0], 1, 1)))


class Images(CalibrationDataReader):
    """Random images for the quantiser."""

    def __init__(self) -> None:
        self.left = 4

    def get_next(self) -> dict[str, np.ndarray] | None:
        self.left -= 1
        return {"image": RNG.normal(0, 1, IMAGE).astype(np.float32)} if self.left >= 0 else None


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, sizes in RECURRENT.items():
        write_recurrent(folder / f"{name}.onnx", *sizes)
    path = folder / "unet.onnx"
    write_unet(path)
    kinds = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    quantize_static(
        path, folder / "unet_int8.onnx", Images(),
        quant_format=QuantFormat.QDQ, per_channel=True, **kinds,
    )  # fmt: skip


if __name__ == "__main__":
    main()
