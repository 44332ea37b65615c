"""Networks with any number of small nodes, in several shapes."""

from __future__ import annotations

import cProfile
import pstats

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tvmrt

FLOAT = TensorProto.FLOAT


def compile_calls(model: onnx.ModelProto, **options) -> int:
    """Return the Python calls of a whole compilation, which do not depend on the machine's load."""
    profile = cProfile.Profile()
    profile.runcall(tvmrt.compile, model, **options)
    return pstats.Stats(profile).total_calls


def _model(nodes, shape, result: str, result_shape=None, weights=()) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "many",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info(result, FLOAT, result_shape or shape)],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def chain(count: int) -> onnx.ModelProto:
    """Return nodes in sequence; every second one is a separate function."""
    ops = ["Softmax", "Sigmoid", "LogSoftmax", "Tanh"]
    names = ["x", *(f"v{i}" for i in range(count))]
    nodes = [helper.make_node(ops[i % 4], [names[i]], [names[i + 1]]) for i in range(count)]
    return _model(nodes, [1, 16], names[-1])


def wide(count: int) -> onnx.ModelProto:
    """Return parallel branches, all live at once, joined at the end."""
    half = range(count // 2)
    nodes = [helper.make_node("LeakyRelu", ["x"], [f"a{i}"], alpha=(i + 1) / count) for i in half]
    nodes += [helper.make_node("Softmax", [f"a{i}"], [f"b{i}"]) for i in half]
    nodes.append(helper.make_node("Concat", [f"b{i}" for i in half], ["c"], axis=0))
    nodes.append(helper.make_node("Softmax", ["c"], ["y"], axis=0))
    return _model(nodes, [1, 16], "y", [len(half), 16])


def tangled(count: int) -> onnx.ModelProto:
    """Return nodes that each read two earlier nodes at random distances."""
    random = np.random.default_rng(0)
    names, nodes = ["x"], []
    for i in range(count):
        op = ["Add", "Mul", "Max", "Softmax"][random.integers(4)]
        read = [names[j] for j in random.integers(len(names), size=1 if op == "Softmax" else 2)]
        nodes.append(helper.make_node(op, read, [f"v{i}"]))
        names.append(f"v{i}")
    nodes.append(helper.make_node("Sum", names[1:], ["y"]))
    return _model(nodes, [1, 16], "y")


def convolutions(count: int) -> onnx.ModelProto:
    """Return small convolutions, each added to an earlier result at a random distance."""
    random = np.random.default_rng(0)
    names, nodes, weights = ["x"], [], []
    for i in range(count // 2):
        weights.append((f"w{i}", random.standard_normal((4, 4, 3, 3)).astype(np.float32)))
        pads = dict(pads=[1, 1, 1, 1])
        nodes.append(helper.make_node("Conv", [names[-1], f"w{i}"], [f"c{i}"], **pads))
        other = names[random.integers(len(names))]
        nodes.append(helper.make_node("Add", [f"c{i}", other], [f"r{i}"]))
        names.append(f"r{i}")
    return _model(nodes, [1, 4, 6, 6], names[-1], weights=weights)


def constants(count: int) -> onnx.ModelProto:
    """Return nodes with a separate constant each."""
    random = np.random.default_rng(0)
    weights = [(f"w{i}", random.standard_normal((1, 16)).astype(np.float32)) for i in range(count)]
    names = ["x", *(f"v{i}" for i in range(count))]
    nodes = [
        helper.make_node("Add" if i % 2 else "Mul", [names[i], f"w{i}"], [names[i + 1]])
        for i in range(count)
    ]
    return _model(nodes, [1, 16], names[-1], weights=weights)


def views(count: int) -> onnx.ModelProto:
    """Return transposes between functions that need contiguous rows."""
    names, nodes = ["x"], []
    for i in range(count // 2):
        nodes.append(helper.make_node("Transpose", [names[-1]], [f"t{i}"], perm=[1, 0]))
        nodes.append(helper.make_node("Softmax", [f"t{i}"], [f"s{i}"]))
        names.append(f"s{i}")
    return _model(nodes, [8, 8], names[-1])


SHAPES = {f.__name__: f for f in (chain, wide, tangled, convolutions, constants, views)}
