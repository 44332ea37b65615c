"""Time int8 networks as .tflite, the same integers as ONNX, and LiteRT with XNNPACK.

    TVM_NUM_THREADS=1 python tests/bench/bench_tflite.py [FILE.tflite ...] [--rounds N]

Without files: networks of the shapes of MLPerf Tiny with random weights, in both forms. Files are
compared with LiteRT alone. The runs take turns; each time is the minimum over the rounds.

- form: time of the .tflite form relative to the ONNX form;
- LiteRT: time of LiteRT on one thread relative to the .tflite form, both with the copies of inputs
  and outputs;
- equal: results that equal those of LiteRT's reference kernels.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tvmrt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "support"))
from tflite_case import Net

BATCH_SECONDS = 0.003
# (operator, output channels, kernel, stride, has ReLU); "add" adds the tensor of an earlier layer
Layer = tuple
DEPTHWISE, CONV, DENSE, ADD, POOL = "depthwise", "conv", "dense", "add", "pool"


def separable(channels: int, stride: int = 1) -> list[Layer]:
    return [(DEPTHWISE, 0, (3, 3), stride, True), (CONV, channels, (1, 1), 1, True)]


def residual(channels: int, stride: int) -> list[Layer]:
    shortcut = [(CONV, channels, (1, 1), stride, False, -3)] if stride > 1 else []
    return [
        (CONV, channels, (3, 3), stride, True),
        (CONV, channels, (3, 3), 1, False),
        *shortcut,
        (ADD, -2 if shortcut else -3),
    ]


MOBILENET = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2),
             (256, 1)]  # fmt: skip
NETWORKS = {
    "keywords": ((49, 10, 1), [(CONV, 64, (10, 4), 2, True), *separable(64) * 4, (POOL,),
                               (DENSE, 12, False)]),
    "image classes": ((32, 32, 3), [(CONV, 16, (3, 3), 1, True), *residual(16, 1),
                                    *residual(32, 2), *residual(64, 2), (POOL,),
                                    (DENSE, 10, False)]),
    "wake words": ((96, 96, 3), [(CONV, 8, (3, 3), 2, True),
                                 *[layer for each in MOBILENET for layer in separable(*each)],
                                 (POOL,), (DENSE, 2, False)]),
    "anomalies": ((1, 1, 640), [*[(DENSE, 128, True)] * 4, (DENSE, 8, True),
                                *[(DENSE, 128, True)] * 4, (DENSE, 640, False)]),
    "streaming": ((30, 1, 40), [(DEPTHWISE, 0, (3, 1), 1, False), (CONV, 128, (1, 1), 1, True),
                                (DEPTHWISE, 0, (5, 1), 1, False), (CONV, 128, (1, 1), 1, True),
                                (DEPTHWISE, 0, (9, 1), 1, False), (CONV, 32, (1, 1), 1, True),
                                (POOL,), (DENSE, 3, False)]),
}  # fmt: skip


class BothForms:
    """A network in both forms, written layer by layer; tensors are [1, height, width, channels]."""

    def __init__(self, shape: tuple[int, ...], layers: list[Layer]) -> None:
        self.rng, self.net = np.random.default_rng(1), Net()
        self.nodes: list = []
        self.constants: list = []
        # of each tensor: its index, its name, its shape, scale and zero point
        first = self.net.input((1, *shape), "int8", scale=0.05, zero=-1)
        self.tensors = [(first, "x", shape, 0.05, -1)]
        for i, layer in enumerate(layers):
            source = layer[5] if len(layer) > 5 else -1
            getattr(self, layer[0])(self.tensors[source], f"t{i}", *layer[1:5])
        self.net.graph.outputs.append(self.tensors[-1][0])

    def onnx(self) -> onnx.ModelProto:
        (h, w, c), (_, last, out, *_) = self.tensors[0][2], self.tensors[-1]
        graph = helper.make_graph(
            self.nodes, "both",
            [helper.make_tensor_value_info("x", TensorProto.INT8, [1, c, h, w])],
            [helper.make_tensor_value_info(last, TensorProto.INT8, [1, out[-1]])],
            self.constants,
        )  # fmt: skip
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)

    def constant(self, name: str, data) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(data), name))
        return name

    def convert(self, operator: str, of: str, name: str, scale, zero, axis: dict) -> str:
        given = [of, self.constant(name + "_s", np.float32(scale))]
        given.append(self.constant(name + "_z", zero))
        self.nodes.append(helper.make_node(operator, given, [name], **axis))
        return name

    def real(self, tensor, name: str) -> str:
        _, of, _, scale, zero = tensor
        return self.convert("DequantizeLinear", of, name, scale, np.int8(zero), {})

    def weights(self, data, scale, name: str) -> str:
        of, zero = self.constant(name + "_q", data), np.zeros(len(scale), data.dtype)
        return self.convert("DequantizeLinear", of, name, scale, zero, {"axis": 0})

    def result(self, operator: str, given: list, name: str, shape, scale, zero, **attrs) -> int:
        """Write the ONNX nodes; return the index of the .tflite tensor."""
        if operator:
            self.nodes.append(helper.make_node(operator, given, [name + "_r"], **attrs))
        self.convert("QuantizeLinear", name + "_r", name, scale, np.int8(zero), {})
        dims = (1, *shape) if len(shape) == 3 else (1, shape[-1])
        index = self.net.tensor(dims, "int8", scale=scale, zero=zero)
        self.tensors.append((index, name, shape, scale, zero))
        return index

    def product(self, shape: tuple[int, ...], x) -> tuple:
        """Return random weights, their scales, biases, and the scale of results."""
        w = self.rng.integers(-127, 128, shape).astype(np.int8)
        w_scale = self.rng.uniform(0.5, 1.5, len(w)).astype(np.float32) * np.float32(0.01)
        bias = self.rng.integers(-2000, 2000, len(w)).astype(np.int32)
        spread = 60.0 * 73.0 * np.sqrt(w[0].size) * x[3] * 0.01
        return w, w_scale, bias, float(np.float32(spread / 50))

    def depthwise(self, x, name: str, _, kernel, stride: int, relu: bool) -> None:
        self.conv(x, name, x[2][-1], kernel, stride, relu, depthwise=True)

    def conv(self, x, name, channels, kernel, stride, relu, depthwise: bool = False) -> None:
        index, _, (*size, inputs), x_scale, _ = x
        w, w_scale, bias, scale = self.product((channels, *kernel, 1 if depthwise else inputs), x)
        out = [-(-extent // stride) for extent in size]
        pads = [max((o - 1) * stride + k - e, 0) for o, k, e in zip(out, kernel, size)]
        begin = [pad // 2 for pad in pads]
        stored = w.transpose(3, 1, 2, 0) if depthwise else w
        given = [
            index,
            self.net.const(stored, scale=w_scale, axis=3 if depthwise else 0),
            self.net.const(bias, scale=w_scale * np.float32(x_scale)),
        ]
        planes = w.transpose(0, 3, 1, 2)
        names = [self.real(x, name + "_x"), self.weights(planes, w_scale, name + "_w"),
                 self.weights(bias, w_scale * np.float32(x_scale), name + "_b")]  # fmt: skip
        operator = helper.make_node(
            "Conv", names, [name + ("_c" if relu else "_r")], strides=[stride] * 2,
            pads=[*begin, *(p - b for p, b in zip(pads, begin))], kernel_shape=kernel,
            group=inputs if depthwise else 1,
        )  # fmt: skip
        self.nodes.append(operator)
        y = self.result("Relu" if relu else "", [name + "_c"], name, (*out, channels), scale,
                        -128 if relu else 3)  # fmt: skip
        fields = {"padding": 0, "strideH": stride, "strideW": stride,
                  "fusedActivationFunction": int(relu)}  # fmt: skip
        if depthwise:
            fields["depthMultiplier"] = 1
        kind = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
        options = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
        self.net.op(kind, given, [y], 3, options, **fields)

    def dense(self, x, name: str, channels: int, relu: bool) -> None:
        w, w_scale, bias, scale = self.product((channels, x[2][-1]), x)
        w_scale = w_scale[:1]
        real, scales = self.real(x, name + "_x"), w_scale * np.float32(x[3])
        if len(x[2]) == 3:
            self.nodes.append(helper.make_node("Flatten", [real], [name + "_f"]))
            real = name + "_f"
        per_tensor = [np.repeat(each, channels) for each in (w_scale, scales)]
        names = [real, self.weights(w, per_tensor[0], name + "_w"),
                 self.weights(bias, per_tensor[1], name + "_b")]  # fmt: skip
        end = [name + ("_c" if relu else "_r")]
        self.nodes.append(helper.make_node("Gemm", names, end, transB=1))
        y = self.result("Relu" if relu else "", [name + "_c"], name, (channels,), scale,
                        -128 if relu else 3)  # fmt: skip
        given = [x[0], self.net.const(w, scale=w_scale), self.net.const(bias, scale=scales)]
        self.net.op("FULLY_CONNECTED", given, [y], 4, "FullyConnectedOptions",
                    fusedActivationFunction=int(relu))  # fmt: skip

    def add(self, x, name: str, source: int) -> None:
        other = self.tensors[source]
        names = [self.real(x, name + "_x"), self.real(other, name + "_o")]
        self.nodes.append(helper.make_node("Add", names, [name + "_c"]))
        y = self.result("Relu", [name + "_c"], name, x[2], x[3] * 1.2, -128)
        self.net.op("ADD", [x[0], other[0]], [y], 2, "AddOptions", fusedActivationFunction=1)

    def pool(self, x, name: str) -> None:
        index, _, (h, w, channels), scale, zero = x
        y = self.result("GlobalAveragePool", [self.real(x, name + "_x")], name, (1, 1, channels),
                        scale, zero)  # fmt: skip
        self.net.op("AVERAGE_POOL_2D", [index], [y], 2, "Pool2DOptions", padding=1, strideH=h,
                    strideW=w, filterHeight=h, filterWidth=w)  # fmt: skip


def litert(data: bytes, reference: bool = False):
    """Return a LiteRT interpreter on one thread."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    made = Interpreter(model_content=data, num_threads=1, experimental_op_resolver_type=kind)
    made.allocate_tensors()
    return made


def minima(runs: list[Callable], rounds: int) -> list[float]:
    """Return the minimum seconds of runs that take turns."""
    calls = []
    for run in runs:
        run()
        start = time.perf_counter()
        run()
        calls.append(max(1, int(BATCH_SECONDS / (time.perf_counter() - start))))
    best = [float("inf")] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            for _ in range(calls[i]):
                run()
            best[i] = min(best[i], (time.perf_counter() - start) / calls[i])
    return best


def measure(name: str, data: bytes, other: onnx.ModelProto | None, options) -> None:
    """Print the times of a network, and the ratios."""
    reference, rival = litert(data, True), litert(data)
    details = reference.get_input_details()[0]
    index, result = details["index"], reference.get_output_details()[0]["index"]
    x = np.random.default_rng(2).integers(-128, 128, details["shape"]).astype(np.int8)

    def run_litert(interpreter) -> np.ndarray:
        interpreter.set_tensor(index, x)
        interpreter.invoke()
        return interpreter.get_tensor(result)

    load = {"target": options.target} if options.target else {}
    ours = tvmrt.load(data, **load)
    equal = np.mean(np.asarray(ours(x)) == run_litert(reference))
    runs = [lambda: ours(x), lambda: run_litert(rival)]
    if other is not None:
        theirs = tvmrt.load(other, **load)
        first = x.reshape(1, 1, 1, -1) if x.ndim == 2 else x
        transposed = np.ascontiguousarray(first.transpose(0, 3, 1, 2))
        runs.append(lambda: theirs(transposed))
    times = minima(runs, options.rounds)
    form = f"{times[2] * 1e6:9.1f} {times[0] / times[2]:6.2f}" if other is not None else " " * 16
    micros = f"{times[0] * 1e6:9.1f} {times[1] * 1e6:9.1f}"
    print(f"{name:16} {micros} {form} {times[1] / times[0]:6.2f} {100 * equal:6.1f} %", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--target")
    options = parser.parse_args()
    print(
        f"{'network':16} {'us':>9} {'LiteRT us':>9} {'ONNX us':>9} {'form':>6} {'LiteRT':>6} equal"
    )
    for path in options.files:
        measure(path.stem, path.read_bytes(), None, options)
    for name, (shape, layers) in ({} if options.files else NETWORKS).items():
        both = BothForms(shape, layers)
        measure(name, both.net.data(), both.onnx(), options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
