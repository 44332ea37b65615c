"""``tvmrt verify`` of networks with types of few bits, and where the reference is not the judge."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.cli import app, main, sequence_io, session
from tvmrt.compiler.frontend.onnx.context import NodeContext

pytest.importorskip("onnxruntime")

INTEGERS = ("INT4", "UINT4", "INT2", "UINT2")
FLOATS = ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0",
          "FLOAT4E2M1", "BFLOAT16")  # fmt: skip
RNG = np.random.default_rng(3)


@dataclass
class Verified:
    """Exit code, the reference, and the comparisons by part and tensor."""

    code: int
    judge: str
    tensors: dict[tuple[str, str], dict]


def network(nodes, inputs, outputs, weights=(), opset=25) -> onnx.ModelProto:
    """Return a model; ``inputs`` and ``outputs`` are (name, type, shape)."""
    values = [
        [helper.make_tensor_value_info(n, getattr(TensorProto, kind), s) for n, kind, s in each]
        for each in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *values, list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=11)


def verify(model, folder, capsys, *options: str) -> Verified:
    path = folder / "network.onnx"
    onnx.save(model, path)
    code = main(["verify", str(path), "--json", *options])
    printed = capsys.readouterr()
    assert printed.out, printed.err
    found = json.loads(printed.out)
    return Verified(
        code or 0, found["judge"], {(t["part"], t["tensor"]): t for t in found["tensors"]}
    )


def cast(name: str, to: str, result: str):
    return helper.make_node("Cast", [name], [result], to=getattr(TensorProto, to))


@pytest.mark.slow
@pytest.mark.parametrize("kind", INTEGERS + FLOATS)
def test_tensors_of_every_type_are_compared(kind, tmp_path, capsys):
    """A type between nodes, as an input and as an output."""
    nodes = [
        cast("x", kind, "q"), cast("q", "FLOAT", "y"), cast("y", kind, "r"),
        helper.make_node("Transpose", ["z"], ["t"]),
    ]  # fmt: skip
    shape = [4, 6]
    inputs = [("x", "FLOAT", shape), ("z", kind, shape)]
    outputs = [("y", "FLOAT", shape), ("r", kind, shape), ("t", kind, shape[::-1])]
    done = verify(network(nodes, inputs, outputs), tmp_path, capsys)
    assert done.code == app.DONE
    assert {("every node", "q"), ("outputs", "r"), ("outputs", "t")} <= done.tensors.keys()


QUANTIZED = (*INTEGERS, "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1")


@pytest.mark.slow
@pytest.mark.parametrize("kind", QUANTIZED)
def test_quantised_tensors_are_compared(kind, tmp_path, capsys):
    code = getattr(TensorProto, kind)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=code),
        helper.make_node("DequantizeLinear", ["q", "s"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    weights = [
        numpy_helper.from_array(np.float32(0.3), "s"),
        numpy_helper.from_array(RNG.standard_normal((32, 8), np.float32), "w"),
    ]
    model = network(nodes, [("x", "FLOAT", [9, 32])], [("y", "FLOAT", [9, 8])], weights)
    done = verify(model, tmp_path, capsys)
    assert done.code == app.DONE and len(done.tensors) == 4


def test_cast_of_4_bits_is_confirmed_by_the_evaluator(tmp_path, capsys):
    model = network([cast("x", "INT4", "q"), cast("q", "FLOAT", "y")], [("x", "FLOAT", [40])],
                    [("y", "FLOAT", [40])])  # fmt: skip
    np.savez(tmp_path / "in.npz", x=np.arange(-10, 10, 0.5, dtype=np.float32))
    done = verify(model, tmp_path, capsys, "--inputs", str(tmp_path / "in.npz"))
    assert done.code == app.DONE
    assert "1 node (Cast) with the reference evaluator" in done.judge


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["INT4", "FLOAT8E4M3FN"])
def test_wrong_rounding_is_found(kind, tmp_path, capsys, monkeypatch):
    """With a compiler that rounds down before each conversion, verify reports the node."""
    plain = NodeContext.convert

    def rounded_down(self, x, to, *more):
        half = self.emit("floor", [x]) if to not in ("float32", "float64") else x
        return plain(self, half, to, *more)

    monkeypatch.setattr(NodeContext, "convert", rounded_down)
    model = network([cast("x", kind, "q"), cast("q", "FLOAT", "y")], [("x", "FLOAT", [40])],
                    [("y", "FLOAT", [40])])  # fmt: skip
    done = verify(model, tmp_path, capsys)
    assert done.code == app.WRONG_RESULT
    assert not done.tensors["every node", "q"]["right"]
    assert done.tensors["every node", "y"]["right"]


@pytest.mark.slow
def test_bfloat16_networks_are_compared(tmp_path, capsys):
    weights = [
        numpy_helper.from_array(RNG.standard_normal(shape).astype(ml_dtypes.bfloat16), name)
        for name, shape in (("w", (64, 32)), ("b", (32,)), ("v", (32, 8)))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Gelu", ["a"], ["g"]),
        helper.make_node("MatMul", ["g", "v"], ["y"]),
        helper.make_node("ReduceMean", ["y"], ["z"], keepdims=0),
    ]
    inputs, outputs = [("x", "BFLOAT16", [5, 64])], [("z", "BFLOAT16", [])]
    done = verify(network(nodes, inputs, outputs, weights), tmp_path, capsys)
    assert done.code == app.DONE and len(done.tensors) == 6


@pytest.mark.slow
def test_block_quantised_weights_and_matmulnbits(tmp_path, capsys):
    weights = [
        helper.make_tensor("q", TensorProto.INT4, (32, 9), RNG.integers(-8, 8, 288).tolist()),
        numpy_helper.from_array(RNG.uniform(0.01, 0.2, (2, 9)).astype(np.float32), "s"),
        numpy_helper.from_array(RNG.integers(0, 256, (8, 1, 8)).astype(np.uint8), "n"),
        numpy_helper.from_array(RNG.uniform(0.01, 0.2, 8).astype(np.float32), "t"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=16),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Slice", ["m", "0", "8", "1"], ["c"]),
        helper.make_node("Concat", ["c", "c"], ["d"], axis=1),
        helper.make_node("MatMulNBits", ["d", "n", "t"], ["y"], domain="com.microsoft", K=16, N=8,
                         bits=4, block_size=16),
        cast("y", "UINT4", "u"),
    ]  # fmt: skip
    weights += [numpy_helper.from_array(np.array([n]), str(n)) for n in (0, 8, 1)]
    outputs = [("y", "FLOAT", [3, 8]), ("u", "UINT4", [3, 8])]
    done = verify(network(nodes, [("x", "FLOAT", [3, 32])], outputs, weights, 21), tmp_path, capsys)
    assert done.code == app.DONE


DIFFERENCES = {
    "float-to-integer": ([cast("x", "UINT8", "y")], np.float32([-1, 300, np.nan, 7.9]), "UINT8"),
    "integer-division": (
        [helper.make_node("Div", ["x", "x"], ["y"])], np.int32([0, 4, -3, 0]), "INT32",
    ),
    "integer-sums": (
        [helper.make_node("ReduceSum", ["x"], ["y"])], np.int32([2**31 - 1, 9, 8, 7]), "INT32",
    ),
    "nan-extremes": (
        [helper.make_node("ReduceMax", ["x"], ["y"])], np.float32([1, 2, np.nan, 3]), "FLOAT",
    ),
    "nan-max-pool": (
        [helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2])],
        np.float32([[[1, np.nan, 2, 3]]]), "FLOAT",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--outputs-only"]])
@pytest.mark.parametrize("row", DIFFERENCES)
def test_results_that_the_evaluator_confirms_are_right(row, options, tmp_path, capsys):
    nodes, x, kind = DIFFERENCES[row]
    given = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(x.dtype))
    model = network(nodes, [("x", given, x.shape)], [("y", kind, None)])
    np.savez(tmp_path / "in.npz", x=x)
    done = verify(model, tmp_path, capsys, "--inputs", str(tmp_path / "in.npz"), *options)
    assert done.code == app.DONE
    assert re.search(
        r"1 node \(\w+\).* since onnxruntime (differs|gives no result) there", done.judge
    )


@pytest.mark.slow
def test_random_results_are_not_compared(tmp_path, capsys):
    nodes = [
        helper.make_node("RandomUniform", [], ["r"], shape=[64], high=0.001, seed=1.0),
        helper.make_node("Add", ["x", "r"], ["a"]),
        helper.make_node("Log", ["r"], ["y"]),
    ]
    model = network(
        nodes, [("x", "FLOAT", [64])], [("a", "FLOAT", [64]), ("y", "FLOAT", [64])], (), 21
    )
    done = verify(model, tmp_path, capsys)
    assert done.code == app.DONE
    notes = {name: each["verdict"]["note"] for name, each in done.tensors.items()}
    assert notes["every node", "r"] == "not compared: random numbers"
    assert notes["outputs", "y"] == "not compared: random numbers"
    assert not notes["every node", "a"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--outputs-only"]])
def test_a_second_reference_without_nodes_that_it_cannot_run(options, tmp_path, capsys):
    nodes = [
        helper.make_node("FastGelu", ["x"], ["g"], domain="com.microsoft"),
        cast("g", "INT8", "q"), cast("q", "FLOAT", "y"),
    ]  # fmt: skip
    x = np.float32([300, -7, 1e10, 0.5])
    np.savez(tmp_path / "in.npz", x=x)
    model = network(nodes, [("x", "FLOAT", [4])], [("y", "FLOAT", None)], opset=20)
    done = verify(model, tmp_path, capsys, "--inputs", str(tmp_path / "in.npz"), *options)
    assert done.code == app.DONE and "since onnxruntime differs there" in done.judge


def change_results(monkeypatch, change) -> None:
    """Let compiled networks return what ``change`` makes of their results."""
    plain = session.Session.run
    monkeypatch.setattr(session.Session, "run", lambda *args: change(dict(plain(*args))))


@pytest.mark.slow
def test_an_element_that_the_reference_lacks_is_wrong(tmp_path, capsys, monkeypatch):
    plain = sequence_io.joined_sequences

    def longer(tensors, bundles):
        found = plain(tensors, bundles)
        return {**found, "s[3]": found["s[0]"]} if "s[0]" in found else found

    monkeypatch.setattr(sequence_io, "joined_sequences", longer)
    model = network([helper.make_node("SplitToSequence", ["x"], ["s"], axis=0)],
                    [("x", "FLOAT", [3, 2])], [])  # fmt: skip
    sequence = helper.make_sequence_type_proto(
        helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    )
    model.graph.output.append(helper.make_value_info("s", sequence))
    done = verify(model, tmp_path, capsys)
    assert done.code == app.WRONG_RESULT
    assert not done.tensors["outputs", "s[3]"]["right"]


@pytest.mark.slow
def test_a_wrong_operand_that_both_references_refuse_is_named(tmp_path, capsys, monkeypatch):
    nodes = [
        helper.make_node("Abs", ["i"], ["a"]),
        helper.make_node("Gather", ["x", "a"], ["y"]),
    ]
    np.savez(tmp_path / "in.npz", x=np.ones(4, np.float32), i=np.int64([1, -2]))
    model = network(nodes, [("x", "FLOAT", [4]), ("i", "INT64", [2])], [("y", "FLOAT", [2])])
    change_results(monkeypatch, lambda found: {n: a + 99 * (n == "a") for n, a in found.items()})
    done = verify(model, tmp_path, capsys, "--inputs", str(tmp_path / "in.npz"))
    assert done.code == app.WRONG_RESULT
    assert not done.tensors["every node", "a"]["right"]
