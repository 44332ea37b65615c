"""Tied embeddings: a table used by Gather and as matmul weights is stored once."""

from __future__ import annotations

import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
from boards import BOARDS, run_network
from onnx import TensorProto, helper, numpy_helper
from transformer_files import gpt2

import tvmrt
from tvmrt.compiler import processor
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.runtime.executor import AotModule

WORDS, WIDTH = 300, 48
LEVELS = {"v2": "sse4_2", "v3": "avx2", "v4": "avx512vl"}
TABLE = np.random.default_rng(5).normal(0, 1, (WORDS, WIDTH)).astype(np.float32)
HEADS = {
    "transpose": (["Transpose", "MatMul"], {}),
    "gemm": (["Gemm"], {}),
    "equal bytes": (["MatMul"], {"columns": np.ascontiguousarray(TABLE.T)}),
    "scaled": (["Transpose", "MatMul", "Mul"], {"factor": np.full(1, 0.125, np.float32)}),
}
INPUTS = {
    "Transpose": ["table"], "Gemm": ["rows", "table"], "MatMul": ["rows", "columns"],
    "Mul": ["logits", "factor"],
}  # fmt: skip
RESULTS = {"Transpose": "columns", "Gemm": "logits", "MatMul": "logits", "Mul": "scaled"}
ATTRIBUTES = {"Gemm": {"transB": 1}, "Transpose": {"perm": [1, 0]}}


def network(head: str, rows: int | str = "M") -> onnx.ModelProto:
    """Return Gather of ids [M] from the table, multiplied by the whole table."""
    operators, more = HEADS[head]
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"])]
    for op in operators:
        nodes.append(helper.make_node(op, INPUTS[op], [RESULTS[op]], **ATTRIBUTES.get(op, {})))
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, extent])
        for name, extent in (("rows", WIDTH), (RESULTS[operators[-1]], WORDS))
    ]
    initializers = [numpy_helper.from_array(v, k) for k, v in {"table": TABLE, **more}.items()]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [rows])
    graph = helper.make_graph(nodes, "net", [ids], outputs, initializers)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def stored(library) -> float:
    """Return the size of the library's weights in tables, vector padding included."""
    return library.summary.weights_bytes / TABLE.nbytes


def check(model: onnx.ModelProto, runner, count: int) -> None:
    """Gathered rows equal the table bitwise; products equal onnxruntime's."""
    ids = np.random.default_rng(count).integers(-WORDS, WORDS, count)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    runner.run(ids=ids)
    found = [runner.get_output(i).numpy() for i in range(2)]
    wanted = session.run(None, {"ids": ids})
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("head", HEADS)
def test_table_in_every_form_is_stored_once(head):
    assert stored(tvmrt.compile(network(head), dims={"M": 40})) < 1.1


def test_different_table_is_stored_separately():
    model = network("equal bytes")
    other = TABLE.T.copy()
    other[-1, -1] += 1
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(other, "columns"))
    assert stored(tvmrt.compile(model, dims={"M": 40})) > 1.9


@pytest.mark.skipif(processor.machine() != "x86_64", reason="levels are those of x86-64")
def test_every_level_reads_the_order_of_the_widest(monkeypatch, tmp_path):
    model = network("transpose")
    options = {"target": "x86-64", "levels": list(LEVELS), "dims": {"M": 40}}
    library = tvmrt.compile(model, **options)
    assert stored(library) < 1.1
    library.export_library(tmp_path / "net.so")
    for level in (name for name, flag in LEVELS.items() if flag in processor.flags()):
        monkeypatch.setenv("TVMRT_LEVEL", level)
        copy = shutil.copy(tmp_path / "net.so", tmp_path / f"{level}.so")
        module = tvmrt.runtime.load_module(copy)
        assert module.level == level
        for count in (1, 33):  # a decoder step, and the prefill
            check(model, GraphModule(module["default"](tvmrt.cpu(0))), count)


def test_ahead_of_time_with_weights_in_a_file(tmp_path):
    model, path = network("scaled", 3), tmp_path / "net.so"
    library = tvmrt.compile(model, executor="aot", params="file")
    library.export_library(path)
    params = path.with_suffix(".params").read_bytes()
    assert len(params) < 1.1 * TABLE.nbytes
    runner = AotModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    runner.load_params(params)
    check(model, runner, 3)


@pytest.mark.slow
def test_a_small_decoder_has_its_embedding_once(tmp_path):
    model, feeds = gpt2(layers=1, width=32, heads=2, steps=5, words=1000, tied=True)
    library = tvmrt.compile(model)
    assert library.summary.weights_bytes < 1.6 * 4 * 1000 * 32  # the layer is half as large
    library.export_library(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    runner = GraphModule(module["default"](tvmrt.cpu(0)))
    runner.run(**feeds)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    np.testing.assert_allclose(runner.get_output(0).numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_board_stores_the_table_once(tmp_path):
    board = BOARDS["cortex-m4"]
    model = network("gemm", 3)
    options = {"target": "cortex-m4", "runtime": "crt", "executor": "aot", "interface_api": "c"}
    library = tvmrt.compile(model, **options)
    assert stored(library) < 1.1
    ids = np.array([0, -1, 150])
    found = run_network(board, library, {"ids": ids}, tmp_path).outputs
    np.testing.assert_array_equal(found["rows"], TABLE[ids])
    np.testing.assert_allclose(found["logits"], TABLE[ids] @ TABLE.T, rtol=2e-5, atol=2e-5)
