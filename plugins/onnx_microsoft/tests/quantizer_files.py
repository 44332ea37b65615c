"""Small networks written by the quantisers of onnxruntime: a convolutional network and a perceptron
with random weights."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

OPSET = 17


class _Samples(CalibrationDataReader):
    def __init__(self, rows: list[np.ndarray]) -> None:
        self._rows = iter(rows)

    def get_next(self) -> dict[str, np.ndarray] | None:
        row = next(self._rows, None)
        return None if row is None else {"x": row}


def _model(nodes: list, weights: dict, shape: list[int], to: list[int]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, to)],
        [numpy_helper.from_array(a, n) for n, a in weights.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8)
    )


def perceptron(rng: np.random.Generator) -> onnx.ModelProto:
    weights = {
        "w0": rng.normal(0, 0.2, (48, 64)).astype(np.float32),
        "b0": rng.normal(0, 0.2, 64).astype(np.float32),
        "w1": rng.normal(0, 0.2, (64, 10)).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["m"]),
        helper.make_node("Add", ["m", "b0"], ["a"]),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("MatMul", ["r", "w1"], ["y"]),
    ]
    return _model(nodes, weights, [4, 48], [4, 10])


def convolutional(rng: np.random.Generator) -> onnx.ModelProto:
    """Return two convolutions, an add, a sigmoid gate, pools and a dense layer."""
    weights = {
        "w0": rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32),
        "b0": rng.normal(0, 0.2, 8).astype(np.float32),
        "w1": rng.normal(0, 0.2, (8, 8, 3, 3)).astype(np.float32),
        "w2": rng.normal(0, 0.3, (8, 10)).astype(np.float32),
        "b2": rng.normal(0, 0.2, 10).astype(np.float32),
    }
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], **same),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], **same),
        helper.make_node("Add", ["c1", "r0"], ["s"]),
        helper.make_node("LeakyRelu", ["s"], ["l"], alpha=0.1),
        helper.make_node("Sigmoid", ["l"], ["g"]),
        helper.make_node("Mul", ["l", "g"], ["p"]),
        helper.make_node("AveragePool", ["p"], ["q"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Concat", ["q", "q"], ["k"], axis=2),
        helper.make_node("GlobalAveragePool", ["k"], ["h"]),
        helper.make_node("Flatten", ["h"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]
    return _model(nodes, weights, [1, 3, 12, 12], [1, 10])


def quantized_files(folder: Path) -> dict[str, onnx.ModelProto]:
    """Return the networks by quantisation method."""
    rng = np.random.default_rng(5)
    flat, image = perceptron(rng), convolutional(rng)
    onnx.save(flat, folder / "flat.onnx")
    onnx.save(image, folder / "image.onnx")
    found = {}
    quantize_dynamic(folder / "flat.onnx", folder / "dynamic.onnx", weight_type=QuantType.QInt8)
    found["dynamic"] = onnx.load(folder / "dynamic.onnx")
    found["dynamic, fused"] = _as_loaded(folder / "dynamic.onnx", folder)
    for name, style, kind in (
        ("operators", QuantFormat.QOperator, QuantType.QUInt8),
        ("pairs", QuantFormat.QDQ, QuantType.QInt8),
    ):
        samples = [rng.normal(0, 1, (1, 3, 12, 12)).astype(np.float32) for _ in range(4)]
        path = folder / f"{name}.onnx"
        quantize_static(
            folder / "image.onnx",
            path,
            _Samples(samples),
            quant_format=style,
            activation_type=kind,
            weight_type=QuantType.QInt8,
            per_channel=name == "pairs",
        )
        found[name] = onnx.load(path)
    found["pairs, fused"] = _as_loaded(folder / "pairs.onnx", folder)
    if (
        util.find_spec("onnx_ir") is not None
    ):  # onnxruntime does not require these, but imports them
        found["4 bits"] = _in_blocks(flat)
    return found


def _as_loaded(path: Path, folder: Path) -> onnx.ModelProto:
    """Return the file as onnxruntime rewrites it when it loads it."""
    options = SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(folder / "loaded.onnx")
    InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return onnx.load(folder / "loaded.onnx")


def _in_blocks(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    quantizer = MatMulNBitsQuantizer(copy, block_size=16, is_symmetric=False, bits=4)
    quantizer.process()
    return quantizer.model.model


def side_by_side(models: dict[str, onnx.ModelProto]) -> onnx.ModelProto:
    """Merge all models into one; the names of model n start with ``n_``."""
    parts = [onnx.compose.add_prefix(m, f"{i}_") for i, m in enumerate(models.values())]
    opsets: dict[str, int] = {}
    for part in parts:
        for each in part.opset_import:
            opsets[each.domain] = max(opsets.get(each.domain, 1), each.version)
    whole = helper.make_model(
        helper.make_graph([], "all", [], []),
        opset_imports=[helper.make_opsetid(*item) for item in opsets.items()],
        ir_version=10,
    )
    for part in parts:
        for kind in ("node", "initializer", "input", "output"):
            getattr(whole.graph, kind).extend(getattr(part.graph, kind))
    return whole
