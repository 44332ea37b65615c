"""Initialisers that are also inputs: defaults, which calls may replace."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnx
import onnx_backend
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt

W = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
B = np.array([10, 20], np.float32)
X = np.array([[1, 0, 2], [0, 1, 1]], np.float32)


def info(name: str, *shape) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def network(first: bool = False, width: int | str = 2) -> onnx.ModelProto:
    """Return ``x @ w + b``; with ``first``, the defaults precede x in the list of inputs."""
    inputs = [info("x", 2, 3), info("w", 3, width), info("b", width)]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
        "net", inputs[1:] + inputs[:1] if first else inputs, [info("y", 2, width)],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(B, "b")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("first", [False, True])
def test_calls_may_replace_defaults(first):
    net = tvmrt.load(network(first), cache=False)
    assert [each.name for each in net.inputs] == ["x"]
    np.testing.assert_array_equal(net(X), X @ W + B)
    np.testing.assert_array_equal(net(X, w=2 * W), X @ (2 * W) + B)
    np.testing.assert_array_equal(net(x=X, b=-B), X @ W - B)
    np.testing.assert_array_equal(net({"x": X, "w": -W, "b": -B})["y"], X @ -W - B)
    np.testing.assert_array_equal(net(X, w=3 * W), X @ (3 * W) + B)
    np.testing.assert_array_equal(net(X), X @ W + B)
    np.testing.assert_array_equal(net.with_threads(1)(X, b=B + 1), X @ W + B + 1)


def test_values_of_other_shapes_replace_defaults_of_open_shape():
    net = tvmrt.load(network(width="n"), cache=False)
    w, b = np.ones((3, 5), np.float32), np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(net(X, w=w, b=b), X @ w + b)
    np.testing.assert_array_equal(net(X), X @ W + B)


def test_values_of_a_wrong_shape_or_name_are_refused():
    net = tvmrt.load(network(), cache=False)
    with pytest.raises(
        ValueError, match=r"input 'w' has shape \(4, 2\); the network declares \(3, 2\)"
    ):
        net(X, w=np.ones((4, 2), np.float32))
    with pytest.raises(KeyError, match="the network has no input 'v'; its inputs are x"):
        net(X, v=W)


def test_shape_of_a_default_makes_it_an_input():
    net = tvmrt.load(network(), cache=False, shapes={"w": (3, 2)})
    assert [each.name for each in net.inputs] == ["x", "w"]
    np.testing.assert_array_equal(net(X, -W), X @ -W + B)


def test_default_of_a_changed_file_is_not_replaced(tmp_path):
    onnx.save(network(), tmp_path / "net.onnx")
    net = tvmrt.load(tmp_path / "net.onnx", cache=False)
    changed = network()
    changed.graph.initializer[1].raw_data = (B + 1).tobytes()
    onnx.save(changed, tmp_path / "net.onnx")
    with pytest.raises(OSError, match="has changed since it was loaded"):
        net(X, w=W)


def test_backend_replaces_no_default_silently():
    backend = onnx_backend.Backend
    model = network()
    prepared = backend.prepare(model)
    np.testing.assert_array_equal(prepared.run([X, W, B])[0], X @ W + B)
    with pytest.raises(ValueError, match=r'shapes={"w": \(3, 2\)}'):
        prepared.run({"x": X, "w": -W})
    declared = backend.prepare(model, shapes={"w": (3, 2)})
    np.testing.assert_array_equal(declared.run({"x": X, "w": -W})[0], X @ -W + B)


@pytest.mark.slow
def test_commands_replace_defaults(tmp_path):
    """``tvmrt verify`` compares with onnxruntime; ``tvmrt run`` uses the given value."""
    onnx.save(network(), tmp_path / "net.onnx")
    np.savez(tmp_path / "in.npz", x=X, w=-W)
    shape = ["--shape", "w=3,2"]
    compiled = ["compile", "net.onnx", "-o", "net.so", *shape]
    ran = ["run", "net.so", "--inputs", "in.npz", "--outputs", "out.npz"]
    for words in (compiled, ran, ["verify", "net.onnx", *shape]):
        subprocess.run(
            [sys.executable, "-m", "tvmrt", *words], cwd=tmp_path, check=True, capture_output=True
        )
    found = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(found[found.files[0]], X @ -W + B)
