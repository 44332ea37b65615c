"""Small quantised networks in one model, compared with unmodified onnxruntime.

onnxruntime runs without graph optimisation, so that each operator follows its definition.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from nn_case import IR_VERSION
from onnx import helper, numpy_helper

from tvmrt.compiler import processor

# Operators that onnxruntime computes by int8 GEMM.
BYTE_PRODUCTS = (
    "ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QGemm",
    "QLinearConv", "QLinearMatMul",
)  # fmt: skip

# Convolutions: shapes of input and weights, attributes.
LAYERS = {
    "1x1": ((1, 16, 6, 7), (24, 16, 1, 1), {}),
    "3x3": ((1, 8, 9, 8), (20, 8, 3, 3), {"pads": [1, 1, 1, 1]}),
    "3x3-stride-2": ((1, 3, 11, 10), (16, 3, 3, 3), {"pads": [0, 0, 1, 1], "strides": [2, 2]}),
    "depthwise": ((1, 24, 9, 9), (24, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 24}),
    "depthwise-stride-2": (
        (1, 40, 9, 9),
        (40, 1, 3, 3),
        {"pads": [1, 1, 1, 1], "group": 40, "strides": [2, 2]},
    ),
    "grouped": ((1, 12, 7, 7), (18, 4, 3, 3), {"pads": [1, 1, 1, 1], "group": 3}),
    "dilated": ((1, 8, 12, 12), (8, 8, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2]}),
    "one-channel": ((1, 1, 12, 9), (16, 1, 10, 4), {"pads": [4, 1, 5, 1], "strides": [2, 2]}),
    "1-d": ((1, 6, 40), (10, 6, 5), {"pads": [2, 2]}),
    "batch-2": ((2, 5, 6, 6), (7, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
}
# Input and weights: type, zero point.
TYPES = {
    "s8-s8": ("int8", -7, "int8", 0),
    "u8-s8": ("uint8", 121, "int8", 0),
    "u8-u8": ("uint8", 3, "uint8", 131),
}


def scalar(number: float) -> np.ndarray:
    return np.asarray(number, np.float32)


def zero(kind: str, number: int = 0) -> np.ndarray:
    return np.asarray(number, kind)


class Net:
    """A model under construction; methods return names of tensors.

    ``outputs`` are compared: floats within ``float_steps`` of their spread, integers within
    ``steps``, almost all of them exactly.
    """

    def __init__(self, seed: int = 0, opset: int = 21) -> None:
        self.rng = np.random.default_rng(seed)
        self.opset = opset
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.outputs: list[str] = []
        self.labels: dict[str, str] = {}
        self.feeds: dict[str, np.ndarray] = {}

    def _name(self, kind: str) -> str:
        return f"{kind}{len(self.nodes) + len(self.weights) + len(self.inputs)}"

    def input(self, array: np.ndarray) -> str:
        name = self._name("x")
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feeds[name] = array
        return name

    def const(self, array: np.ndarray) -> str:
        name = self._name("w")
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op: str, *inputs: str | np.ndarray | None, domain: str = "", count=1, **attrs):
        """Add a node; arrays among the inputs become constants. Return its output name or names."""
        names = []
        for each in inputs:
            constant = each is not None and not isinstance(each, str)
            names.append(self.const(each) if constant else each or "")
        outputs = [f"{self._name('t')}_{i}" for i in range(count)]
        label = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, names, outputs, label, domain=domain, **attrs))
        return outputs[0] if count == 1 else outputs

    def numbers(self, *shape: int, spread: float = 3.0) -> np.ndarray:
        return self.rng.normal(0, spread, shape).astype(np.float32)

    def bytes(self, kind: str, *shape: int) -> np.ndarray:
        low = -128 if kind == "int8" else 0
        return self.rng.integers(low, low + 256, shape).astype(kind)

    def quantize(self, x: str, scale, zero, **attrs) -> str:
        return self.node("QuantizeLinear", x, scale, zero, **attrs)

    def dequantize(self, x, scale, zero=None, **attrs) -> str:
        return self.node("DequantizeLinear", x, scale, zero, **attrs)

    def output(self, name: str, label: str = "") -> None:
        self.outputs.append(name)
        self.labels[name] = label or name

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "quantised",
            self.inputs,
            [helper.make_empty_tensor_value_info(n) for n in self.outputs],
            self.weights,
        )
        domains = [("", self.opset)]
        domains += [(d, 1) for d in sorted({n.domain for n in self.nodes} - {""})]
        opsets = [helper.make_opsetid(*d) for d in domains]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = IR_VERSION
        return model

    def reference(self) -> list[np.ndarray]:
        import onnxruntime

        if bytes_overflow() and any(node.op_type in BYTE_PRODUCTS for node in self.nodes):
            return self._evaluated()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(self.model().SerializeToString(), options)
        return session.run(None, self.feeds)

    def _evaluated(self) -> list[np.ndarray]:
        """Evaluate with ONNX's reference evaluator, which supports standard operators only."""
        from onnx.reference import ReferenceEvaluator

        if any(node.domain for node in self.nodes):
            pytest.skip("onnxruntime's products of bytes overflow on this processor")
        return ReferenceEvaluator(self.model()).run(None, self.feeds)

    def check(
        self, folder: Path, steps: int = 1, share: float = 0.01, target: str = "native", **options
    ) -> None:
        """Compile and compare. ``share``: maximum fraction of integers that may differ;
        ``options``: further compiler options."""
        wanted = self.reference()
        found = run_for(target, self.model(), self.feeds, folder, **options)
        problems = []
        for name, expected in zip(self.outputs, wanted):
            problem = _difference(found[name], np.asarray(expected), steps, share)
            if problem:
                problems.append(f"{self.labels[name]}: {problem}")
        assert not problems, "\n".join(problems)


def bytes_overflow() -> bool:
    """Whether onnxruntime's uint8 x int8 pair sums saturate on this machine."""
    vnni = {"avx512_vnni", "avx_vnni"}
    return processor.machine() == "x86_64" and not processor.flags() & vnni


def run_for(target: str, model: onnx.ModelProto, feeds: dict, folder: Path, **options) -> dict:
    """Return outputs by name of the network compiled for a target that this machine can run."""
    from tvmrt import runtime
    from tvmrt.compiler import pipeline

    library = pipeline.compile(model, executor="aot", target=target, **options)
    path = str(Path(folder) / "quantised.so")
    library.export_library(path)
    executor = runtime.executor.AotModule(runtime.load_module(path)["default"](runtime.cpu(0)))
    for name, array in feeds.items():
        executor.set_input(name, array)
    executor.run()
    outputs = library.summary.outputs
    return {output.name: executor.get_output(i).numpy() for i, output in enumerate(outputs)}


def _difference(got: np.ndarray, expected: np.ndarray, steps: int, share: float) -> str:
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype}{got.shape} instead of {expected.dtype}{expected.shape}"
    off = np.abs(got.astype(np.float64) - expected.astype(np.float64))
    if not off.size:
        return ""
    if got.dtype.kind == "f":
        bound = 1e-5 * max(1.0, float(np.abs(expected).max()))
        return "" if off.max() <= bound else f"off by {off.max():.3g}, at most {bound:.3g} allowed"
    if off.max() > steps:
        return f"off by {off.max():.0f} steps, {(off > steps).sum()} of {off.size} elements"
    wrong = float((off > 0).mean())
    if off.size >= 64 and wrong > share:
        return f"{wrong:.1%} of the elements are off by a step"
    return ""
