"""Nested concatenations: each result is written in place once and never copied."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_graph import model as make_model

import tvmrt
from tvmrt.runtime.executor import AotModule

X = np.random.default_rng(3).standard_normal((1, 16, 6, 7), np.float32)


def dense_block(layers: int, newest_first: bool = False):
    """Return layers that each read a concatenation of the input and of all earlier results."""
    rng = np.random.default_rng(4)
    features, weights = ["f0"], {"w": rng.standard_normal((16, 16, 1, 1), np.float32) / 4}
    nodes = [helper.make_node("Conv", ["x", "w"], ["f0"])]
    for i in range(1, layers + 1):
        nodes.append(helper.make_node("Concat", features, [f"c{i}"], axis=1))
        weights[f"s{i}"] = rng.standard_normal((1, 16 * i, 1, 1), np.float32)
        weights[f"w{i}"] = rng.standard_normal((16, 16 * i, 3, 3), np.float32) / 12 / i
        nodes.append(helper.make_node("Mul", [f"c{i}", f"s{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"]))
        conv = helper.make_node("Conv", [f"r{i}", f"w{i}"], [f"f{i}"], pads=[1, 1, 1, 1])
        nodes.append(conv)
        features = [f"f{i}", *features] if newest_first else [*features, f"f{i}"]
    nodes.append(helper.make_node("Concat", features, ["all"], axis=1))
    nodes.append(helper.make_node("Relu", ["all"], ["y"]))
    return make_model(nodes, {"x": X}, ["y"], weights)


def run(library, path) -> np.ndarray:
    library.export_library(path)
    executor = AotModule(tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0)))
    executor.set_input(0, X)
    executor.run()
    return executor.get_output(0).numpy()


@pytest.mark.parametrize("newest_first", [False, True])
def test_layers_of_a_dense_block_copy_nothing(newest_first, tmp_path):
    model = dense_block(5, newest_first)
    library = tvmrt.compile(model, executor="aot")
    names = [op.name for op in library.summary.operators]
    assert not [name for name in names if "_part" in name]
    assert len(names) == 2 + 1 + 2 * 5 + 1  # input and output are transposed
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": X})[0]
    found = run(library, tmp_path / "net.so")
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()


def test_the_same_concatenation_twice_is_one(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["x"], ["b"]),
        helper.make_node("Concat", ["a", "b"], ["c"], axis=1),
        helper.make_node("Concat", ["a", "b", "a", "b"], ["d"], axis=1),
        helper.make_node("Concat", ["c", "d"], ["y"], axis=1),
    ]
    found = run(
        tvmrt.compile(make_model(nodes, {"x": X}, ["y"], {}), executor="aot"), tmp_path / "n.so"
    )
    one = np.concatenate([np.maximum(X, 0), -X], 1)
    assert np.array_equal(found, np.concatenate([one] * 3, 1))


@pytest.mark.parametrize(("order", "copies"), [("ab", 0), ("ba", 2)])
def test_concat_of_both_halves_is_the_result(order, copies, tmp_path):
    rng = np.random.default_rng(7)
    weights = {
        f"w{i}": rng.standard_normal((n, m, 1, 1), np.float32) / 4
        for i, n, m in ((1, 32, 16), (2, 16, 16), (3, 8, 48))
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"]),
        helper.make_node("Split", ["c"], ["a", "b"], axis=1),
        helper.make_node("Conv", ["b", "w2"], ["m"]),
        helper.make_node("Concat", [*order, "m"], ["all"], axis=1),
        helper.make_node("Conv", ["all", "w3"], ["y"]),
    ]
    model = make_model(nodes, {"x": X}, ["y"], weights)
    library = tvmrt.compile(model, executor="aot")
    names = [op.name for op in library.summary.operators]
    assert len([name for name in names if "_part" in name]) == copies
    right = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": X})[0]
    found = run(library, tmp_path / "net.so")
    assert np.abs(found - right).max() < 1e-5 * np.abs(right).max()
