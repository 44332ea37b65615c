"""Tokens per second and memory traffic of decoders in ``tvmrt bench``."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from runpy import run_path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.cli import decoder_speed, main
from tvmrt.compiler.pipeline import compile as compile_network

WORDS, WIDTH, HEADS, PAST = 1024, 64, 4, 31  # sizes for which packed weights have no padding
DEPTH = WIDTH // HEADS
FLOAT = 4  # bytes
# three projections and the last matrix, and one row of the embedding for each token
MATRICES = (3 * WIDTH * WIDTH + WIDTH * WORDS) * FLOAT
ROW = WIDTH * FLOAT


def decoder(kind: str, tokens: int = 1, batch: int = 1) -> onnx.ModelProto:
    """Return a layer of attention over a cache that grows (``concat``), or that has a place for
    each position (``scatter``)."""
    rng = np.random.default_rng(0)
    heads, flat = [batch, tokens, HEADS, DEPTH], [batch, tokens, WIDTH]
    constants = {name: rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) for name in "QKV"}
    constants["table"] = rng.standard_normal((WORDS, WIDTH)).astype(np.float32)
    constants["last"] = rng.standard_normal((WIDTH, WORDS)).astype(np.float32)
    constants |= {"heads": np.array(heads), "flat": np.array(flat)}
    node = helper.make_node
    nodes = [node("Gather", ["table", "ids"], ["x"])]
    for name in "QKV":
        nodes += [
            node("MatMul", ["x", name], [f"{name}0"]),
            node("Reshape", [f"{name}0", "heads"], [f"{name}1"]),
            node("Transpose", [f"{name}1"], [f"{name}2"], perm=[0, 2, 1, 3]),
        ]
    for name in "KV":
        pair, result = [f"past{name}", f"{name}2"], [f"present{name}"]
        if kind == "concat":
            nodes.append(node("Concat", pair, result, axis=2))
        else:
            nodes.append(node("TensorScatter", [*pair, "position"], result, axis=2))
    nodes += [
        node("Transpose", ["presentK"], ["keys"], perm=[0, 1, 3, 2]),
        node("MatMul", ["Q2", "keys"], ["scores"]),
        node("Softmax", ["scores"], ["shares"]),
        node("MatMul", ["shares", "presentV"], ["o"]),
        node("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3]),
        node("Reshape", ["o1", "flat"], ["o2"]),
        node("MatMul", ["o2", "last"], ["logits"]),
    ]
    value = helper.make_tensor_value_info
    after = PAST + tokens if kind == "concat" else PAST
    caches = [
        [value(f"{side}{n}", TensorProto.FLOAT, [batch, HEADS, length, DEPTH]) for n in "KV"]
        for side, length in (("past", PAST), ("present", after))
    ]
    inputs = [value("ids", TensorProto.INT64, [batch, tokens]), *caches[0]]
    if kind == "scatter":
        inputs.append(value("position", TensorProto.INT64, [batch]))
    outputs = [value("logits", TensorProto.FLOAT, [batch, tokens, WORDS]), *caches[1]]
    initializers = [numpy_helper.from_array(each, name) for name, each in constants.items()]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)


def feeds(tokens: int = 1, batch: int = 1) -> dict[str, np.ndarray]:
    past = np.zeros((batch, HEADS, PAST, DEPTH), np.float32)
    return {"ids": np.zeros((batch, tokens), np.int64), "pastK": past, "pastV": past}


@pytest.mark.parametrize("kind, tokens, batch", [("concat", 1, 1), ("scatter", 3, 2)])
def test_a_call_reads_weights_once_and_rows_of_the_embedding_for_its_tokens(kind, tokens, batch):
    traffic = decoder_speed.traffic_of(
        compile_network(decoder(kind, tokens, batch)), feeds(tokens, batch)
    )
    assert traffic is not None
    assert traffic.tokens == tokens * batch
    assert traffic.weights_bytes == MATRICES + traffic.tokens * ROW
    assert traffic.cache_bytes == 2 * batch * WIDTH * PAST * FLOAT


def test_narrow_weights_are_counted_as_they_are_stored():
    library = compile_network(decoder("concat"), weights="int8")
    traffic = decoder_speed.traffic_of(library, feeds())
    assert traffic is not None
    block = 128 + 4  # bytes for 128 operands, half of them unused, and for their scale
    assert traffic.weights_bytes == (3 * WIDTH + WORDS + 1) * block


def test_other_networks_have_no_tokens():
    """A network without ids, and one that copies an input to an output and reads it."""
    value = helper.make_tensor_value_info
    shape = [1, 4, 8]
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, shape)],
        [value(name, TensorProto.FLOAT, shape) for name in "yz"],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    inputs = {"x": np.zeros(shape, np.float32)}
    assert decoder_speed.traffic_of(compile_network(model), inputs) is None


@pytest.mark.slow
def test_bench_prints_tokens_and_bytes(tmp_path, capsys):
    path = tmp_path / "decoder.onnx"
    onnx.save(decoder("concat"), path)
    assert main(["bench", str(path), "--seconds", "0.05", "--json"]) == 0
    (network,) = json.loads(capsys.readouterr().out)["networks"]
    found, median = network["decoder"], network["timings"][0]["median"]
    assert found["tokens_per_second"] == pytest.approx(1 / median)
    read = MATRICES + ROW + 2 * WIDTH * PAST * FLOAT
    assert found["bytes_per_second"] == pytest.approx(read / median)
    assert main(["bench", str(path), "--seconds", "0.05"]) == 0
    printed = capsys.readouterr().out
    assert "tokens/s; each reads 304.2 KiB of weights and 15.5 KiB of cache: " in printed


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_bandwidth_is_bytes_over_the_time_of_the_clock(threads, tmp_path):
    """The benchmark of decoders divides by it."""
    bench = run_path(str(Path(__file__).parents[2] / "bench" / "read_bandwidth.py"))
    reader_of, read_bytes = bench["MemoryReader"], bench["READ_BYTES"]
    ticks = count()
    reader = reader_of(tmp_path, threads)
    assert reader.read(lambda: next(ticks) * 0.5) == pytest.approx(2 * read_bytes, rel=1e-4)
    small = reader_of(tmp_path, threads, nbytes=10**6)
    assert small.read(lambda: next(ticks) * 0.5) == pytest.approx(2 * read_bytes, rel=0.01)
