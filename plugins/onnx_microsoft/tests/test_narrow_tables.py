"""Test gathers from tables of sub-byte types: the table stays packed, gathered rows are
unpacked."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from nn_case import run_compiled
from onnx import TensorProto, helper

import tvmrt

RNG = np.random.default_rng(51)
MS = "com.microsoft"


class Net:
    """Nodes over tables, each with its own output; ``ids`` is their input, int64[2, 3]."""

    def __init__(self) -> None:
        self.nodes, self.weights, self.outputs = [], [], []

    def weight(self, kind: int, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        values = array.reshape(-1).tolist()
        self.weights.append(helper.make_tensor(name, kind, array.shape, values))
        return name

    def node(self, op: str, inputs: list[str], out: bool = False, **attrs) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        if out:
            self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        return name

    def model(self) -> onnx.ModelProto:
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [2, 3])
        graph = helper.make_graph(self.nodes, "net", [ids], self.outputs, self.weights)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _numbers(kind: int, shape: tuple[int, ...]) -> np.ndarray:
    low, high = (-8, 8) if kind == TensorProto.INT4 else (0, 16)
    return RNG.integers(low, high, shape)


def _scales(net: Net, shape: tuple[int, ...]) -> str:
    return net.weight(TensorProto.FLOAT, RNG.uniform(0.1, 1, shape).astype(np.float32))


def _taken(
    net: Net, kind: int, shape: tuple[int, ...], axis: int, scales=(), along=1, block_size=0
) -> None:
    """Return the real values of a table and some of its rows."""
    inputs = [net.weight(kind, _numbers(kind, shape)), _scales(net, scales)]
    if len(scales) < 2:  # quantisers omit zero points that are all 0
        inputs.append(net.weight(kind, _numbers(kind, scales)))
    real = net.node("DequantizeLinear", inputs, axis=along, block_size=block_size)
    net.node("Gather", [real, "ids"], out=True, axis=axis)


def _in_blocks(net: Net, kind: int, zeros: bool) -> None:
    table = net.weight(kind, _numbers(kind, (10, 32)))
    inputs = [table, "ids", _scales(net, (10, 2))]
    inputs += [net.weight(kind, _numbers(kind, (10, 2)))] if zeros else []
    attrs = {"block_size": 16, "gather_axis": 0, "quantize_axis": 1}
    net.node("GatherBlockQuantized", inputs, out=True, domain=MS, **attrs)


def test_rows_of_packed_tables_equal_onnxruntime(tmp_path):
    net = Net()
    for kind in (TensorProto.INT4, TensorProto.UINT4):
        _taken(net, kind, (10, 32), 0, (10,), along=0)
        _taken(net, kind, (10, 3, 15), 0)  # rows with half a byte of padding
        _taken(net, kind, (3, 10, 7), 1, (7,), along=2)
        _taken(net, kind, (14, 10), 1)  # rows of one element
        _taken(net, kind, (10, 32), 0, (10, 2), along=1, block_size=16)
        for zeros in (False, True):
            _in_blocks(net, kind, zeros)
    model, feeds = net.model(), {"ids": np.array([[0, 9, 3], [3, 8, 1]])}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [o.name for o in model.graph.output]
    right = dict(zip(names, session.run(names, feeds)))
    found = run_compiled(model, feeds, tmp_path)
    for name in names:
        np.testing.assert_allclose(found[name], right[name], rtol=1e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("kind", ["INT4", "FLOAT8E4M3FN"])
def test_a_table_is_not_widened_in_a_run(kind):
    """The memory of a run has space for the gathered rows only, not for the unpacked table."""
    net, (rows, columns) = Net(), (4096, 64)
    code, numbers = getattr(TensorProto, kind), RNG.integers(-8, 8, (rows, columns))
    table = net.weight(code, numbers.astype(np.float32))
    real = net.node("DequantizeLinear", [table, _scales(net, (rows,))], axis=0)
    net.node("Gather", [real, "ids"], out=True)
    summary = tvmrt.compile(net.model()).summary
    assert summary.arena_bytes < 6 * columns * 8
    bits = 4 if kind == "INT4" else 8
    assert summary.weights_bytes <= rows * columns * bits // 8 + 4 * rows + 256
