"""Small networks with many nodes, inputs, outputs and weights."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from long_graphs import FLOAT, Kind, Shape, model, node
from onnx import helper

# Nodes.


def chain(op: str, **attributes: object) -> Kind:
    def build(n: int) -> onnx.ModelProto:
        nodes = [node(op, [f"{i}"], [f"{i + 1}"], **attributes) for i in range(n)]
        return model(nodes, {"0": [2]}, {f"{n}": [2]})

    return build


def chain_of_sums(n: int) -> onnx.ModelProto:
    """Each node doubles the last sum, so the expression as text has 2 ** n leaves."""
    nodes = [node("Add", [f"{i}", f"{i}"], [f"{i + 1}"]) for i in range(n)]
    return model(nodes, {"0": [2]}, {f"{n}": [2]})


def symbolic_chain(n: int) -> onnx.ModelProto:
    nodes = [node("Sin", [f"{i}"], [f"{i + 1}"]) for i in range(n)]
    return model(nodes, {"0": ["n"]}, {f"{n}": ["n"]})


def growing_sums(n: int) -> onnx.ModelProto:
    """Node i reads node i / 2 and the input: many readers, no long chain."""
    nodes = [node("Sin", [f"{i // 2}"], [f"{i + 1}"]) for i in range(n)]
    nodes.append(node("Sum", [f"{i}" for i in range(n + 1)], ["y"]))
    return model(nodes, {"0": [2]}, {"y": [2]})


def fan_of_concats(n: int) -> onnx.ModelProto:
    nodes = [node("Sin", ["x"], ["0"])]
    nodes += [node("Concat", [f"{i}", "x"], [f"{i + 1}"], axis=0) for i in range(n)]
    return model(nodes, {"x": [2]}, {f"{n}": [2 * n + 2]})


def dead_nodes(n: int) -> onnx.ModelProto:
    nodes = [node("Sin", ["x"], [f"d{i}"]) for i in range(n)]
    return model([*nodes, node("Neg", ["x"], ["y"])], {"x": [2]}, {"y": [2]})


def equal_outputs(n: int) -> onnx.ModelProto:
    return model(
        [node("Sin", ["x"], [f"{i}"]) for i in range(n)],
        {"x": [2]},
        {f"{i}": [2] for i in range(n)},
    )


def many_outputs(n: int) -> onnx.ModelProto:
    ops = ("Sin", "Cos", "Exp", "Neg", "Abs", "Tanh")
    nodes = [node(ops[i % 6], [f"{max(i - 1, 0) if i else 'x'}"], [f"{i}"]) for i in range(n)]
    return model(nodes, {"x": [2]}, {f"{i}": [2] for i in range(n)})


def many_inputs(n: int) -> onnx.ModelProto:
    names = [f"{i}" for i in range(n)]
    return model([node("Sum", names, ["y"])], {name: [2] for name in names}, {"y": [2]})


def many_symbolic_inputs(n: int) -> onnx.ModelProto:
    """Inputs with a size of their own each, and as many outputs."""
    nodes = [node("Sin", [f"x{i}"], [f"y{i}"]) for i in range(n)]
    return model(
        nodes, {f"x{i}": [f"d{i}"] for i in range(n)}, {f"y{i}": [f"d{i}"] for i in range(n)}
    )


def many_weights(n: int) -> onnx.ModelProto:
    weights = [helper.make_tensor(f"w{i}", FLOAT, [1], [i / 7]) for i in range(n)]
    nodes = [node("Sum", ["x", *(w.name for w in weights)], ["y"])]
    return model(nodes, {"x": [2]}, {"y": [2]}, weights)


def unused_weights(n: int) -> onnx.ModelProto:
    weights = [helper.make_tensor(f"w{i}", FLOAT, [1], [i / 7]) for i in range(n)]
    return model([node("Sin", ["x"], ["y"])], {"x": [2]}, {"y": [2]}, weights)


def one_node(op: str, count: Callable[[int], Shape] = lambda n: [2], **attributes: object) -> Kind:
    """Return a network of one node with n times the same two inputs."""

    def build(n: int) -> onnx.ModelProto:
        names = ["ab"[i % 2] for i in range(n)]
        return model([node(op, names, ["y"], **attributes)], {"a": [2], "b": [2]}, {"y": count(n)})

    return build


def distinct_operands(op: str, **attributes: object) -> Kind:
    """Return a network of one node with n inputs that nodes compute."""

    def build(n: int) -> onnx.ModelProto:
        nodes = [node("Sin", [f"{i}" if i else "x"], [f"{i + 1}"]) for i in range(n)]
        nodes.append(node(op, [f"{i + 1}" for i in range(n)], ["y"], **attributes))
        return model(nodes, {"x": [2]}, {"y": [None]})

    return build


def open_concat(n: int) -> onnx.ModelProto:
    return model(
        [node("Concat", [f"x{i}" for i in range(n)], ["y"], axis=0)],
        {f"x{i}": [f"d{i}"] for i in range(n)},
        {"y": [None]},
    )


def open_concat_of_rows(n: int) -> onnx.ModelProto:
    return model(
        [node("Concat", [f"x{i}" for i in range(n)], ["y"], axis=1)],
        {f"x{i}": ["b", f"d{i}"] for i in range(n)},
        {"y": ["b", None]},
    )


def split_into(n: int) -> onnx.ModelProto:
    parts = [f"p{i}" for i in range(n)]
    nodes = [node("Split", ["x"], parts, axis=0)]
    nodes += [node("Sin", [p], [f"y{i}"]) for i, p in enumerate(parts)]
    return model(nodes, {"x": [2 * n]}, {f"y{i}": [2] for i in range(n)})


def open_split(n: int) -> onnx.ModelProto:
    """Split an axis of n * d elements."""
    parts = [f"p{i}" for i in range(n)]
    nodes = [node("Split", ["x"], parts, axis=0), node("Sum", parts, ["y"])]
    return model(nodes, {"x": ["d"]}, {"y": [None]})


def open_split_of_rows(n: int) -> onnx.ModelProto:
    """Split known columns of an open number of rows."""
    parts = [f"p{i}" for i in range(n)]
    nodes = [node("Split", ["x"], parts, axis=1)]
    nodes += [node("Sin", [p], [f"y{i}"]) for i, p in enumerate(parts)]
    return model(nodes, {"x": ["d", 2 * n]}, {f"y{i}": ["d", 2] for i in range(n)})


def split_and_concat(n: int) -> onnx.ModelProto:
    parts = [f"p{i}" for i in range(n)]
    nodes = [node("Split", ["x"], parts, axis=1)]
    nodes += [node("Sin", [p], [f"s{i}"]) for i, p in enumerate(parts)]
    nodes.append(node("Concat", [f"s{i}" for i in range(n)], ["y"], axis=1))
    return model(nodes, {"x": ["d", 2 * n]}, {"y": ["d", 2 * n]})
