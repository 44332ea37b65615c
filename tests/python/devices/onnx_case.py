"""Networks for devices, with onnxruntime as reference."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from sample_devices import run_library

import tvmrt

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(7)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def network(nodes, feeds, weights, outputs) -> onnx.ModelProto:
    """Return a network of ``nodes``: (operator, inputs, output, attributes)."""
    made = [
        helper.make_node(op, ins, [out] if isinstance(out, str) else out, name=f"n{i}", **attrs)
        for i, (op, ins, out, attrs) in enumerate(nodes)
    ]
    value = helper.make_tensor_value_info
    kinds = {
        "float32": TensorProto.FLOAT,
        "uint8": TensorProto.UINT8,
        "int8": TensorProto.INT8,
        "bool": TensorProto.BOOL,
    }
    graph = helper.make_graph(
        made,
        "g",
        [value(k, kinds[v.dtype.name], v.shape) for k, v in feeds.items()],
        [value(name, kinds[dtype], None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def judge(model: onnx.ModelProto, feeds) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def run(model, feeds, tmp_path, device, executor="graph", **options):
    library = tvmrt.compile(model, devices=[device], executor=executor, **options)
    library.export_library(tmp_path / "net.so")
    return library, run_library(tmp_path / "net.so", executor, dict(feeds))


def region_ops(library) -> list[list[str]]:
    return [[node.op for node in region.nodes] for region in library.partition.regions]
