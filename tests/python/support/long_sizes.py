"""Small networks with long expressions of symbolic sizes."""

from __future__ import annotations

import onnx
from long_graphs import ints, model, node


def symbolic_slices(n: int) -> onnx.ModelProto:
    """Each slice takes one off the last one."""
    nodes = [node("Slice", [f"{i}", "s", "e"], [f"{i + 1}"]) for i in range(n)]
    return model(nodes, {"0": ["d"]}, {f"{n}": [None]}, [ints("s", 1), ints("e", 2**31)])


def symbolic_reshapes(n: int) -> onnx.ModelProto:
    """Reshapes to and from two axes with products of the sizes."""
    nodes = []
    for i in range(n):
        nodes.append(node("Reshape", [f"{i}", "ab"[i % 2]], [f"r{i}"]))
        nodes.append(node("Sin", [f"r{i}"], [f"{i + 1}"]))
    return model(
        nodes, {"0": ["m", "n", "k"]}, {f"{n}": [None, None]}, [ints("a", 0, -1), ints("b", -1, 1)]
    )


def size_arithmetic(n: int) -> onnx.ModelProto:
    """Sizes by n sums and products: the polynomial would have 2 ** n terms."""
    nodes = [node("Shape", ["x"], ["s0"]), node("Gather", ["s0", "first"], ["t0"])]
    for i in range(n):
        nodes.append(node("Add", [f"t{i}", "one"], [f"a{i}"]))
        nodes.append(node("Mul", [f"a{i}", f"t{i}"], [f"t{i + 1}"]))
    nodes.append(node("Expand", ["z", f"t{n}"], ["y"]))
    return model(
        nodes, {"x": ["m", "k"], "z": [1]}, {"y": [None]}, [ints("first", 0), ints("one", 1)]
    )


def size_products(n: int) -> onnx.ModelProto:
    """The product of sums of pairs of sizes: 2 ** n terms."""
    nodes, names = [], []
    for i in range(n):
        nodes += [node("Concat", [f"a{i}", f"b{i}"], [f"c{i}"], axis=0)]
        names.append(f"c{i}")
    nodes += [node("Shape", [c], [f"s{c}"]) for c in names]
    last = f"s{names[0]}"
    for c in names[1:]:
        nodes.append(node("Mul", [last, f"s{c}"], [f"m{c}"]))
        last = f"m{c}"
    nodes.append(node("Expand", ["z", last], ["y"]))
    inputs = {f"{k}{i}": [f"{k}{i}n"] for i in range(n) for k in "ab"}
    return model(nodes, {**inputs, "z": [1]}, {"y": [None]})


def size_powers(n: int) -> onnx.ModelProto:
    nodes = [node("Shape", ["x"], ["t0"])]
    nodes += [node("Mul", [f"t{i}", f"t{i}"], [f"t{i + 1}"]) for i in range(n)]
    nodes.append(node("Expand", ["z", f"t{n}"], ["y"]))
    return model(nodes, {"x": ["m"], "z": [1]}, {"y": [None]})


def size_divisions(n: int) -> onnx.ModelProto:
    nodes = [node("Shape", ["x"], ["t0"])]
    for i in range(n):
        nodes.append(node("Add", [f"t{i}", "one"], [f"a{i}"]))
        nodes.append(node("Div", [f"a{i}", "two"], [f"d{i}"]))
        nodes.append(node("Add", [f"d{i}", f"t{i}"], [f"t{i + 1}"]))
    nodes.append(node("Expand", ["z", f"t{n}"], ["y"]))
    return model(nodes, {"x": ["m"], "z": [1]}, {"y": [None]}, [ints("one", 1), ints("two", 2)])


def size_maxima(n: int) -> onnx.ModelProto:
    nodes = [node("Shape", [f"x{i}"], [f"s{i}"]) for i in range(n)]
    nodes.append(node("Max", [f"s{i}" for i in range(n)], ["t"]))
    nodes.append(node("Expand", ["z", "t"], ["y"]))
    return model(nodes, {**{f"x{i}": [f"d{i}"] for i in range(n)}, "z": [1]}, {"y": [None]})


def pooling_chain(n: int) -> onnx.ModelProto:
    nodes = [
        node("MaxPool", [f"{i}"], [f"{i + 1}"], kernel_shape=[2], strides=[1 + i % 2])
        for i in range(n)
    ]
    return model(nodes, {"0": [1, 1, "n"]}, {f"{n}": [1, 1, None]})


def einsum_letters(n: int) -> onnx.ModelProto:
    letters = [chr(ord("a") + i) if i < 26 else chr(ord("A") + i - 26) for i in range(n)]
    text = "".join(letters)
    return model(
        [node("Einsum", ["x"], ["y"], equation=f"{text}->{text[::-1]}")],
        {"x": [2 if i < 12 else 1 for i in range(n)]},
        {"y": [None] * n},
    )


def einsum_operands(n: int) -> onnx.ModelProto:
    equation = ",".join(["i"] * n) + "->i"
    return model([node("Einsum", ["x"] * n, ["y"], equation=equation)], {"x": [2]}, {"y": [2]})


def einsum_pairs(n: int) -> onnx.ModelProto:
    """A chain of matrix products in one equation."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[: n + 1]
    equation = (
        ",".join(a + b for a, b in zip(letters, letters[1:])) + f"->{letters[0]}{letters[-1]}"
    )
    return model(
        [node("Einsum", ["x"] * n, ["y"], equation=equation)], {"x": [2, 2]}, {"y": [2, 2]}
    )


def einsum_outer(n: int) -> onnx.ModelProto:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[:n]
    equation = ",".join(letters) + "->"
    return model([node("Einsum", ["x"] * n, ["y"], equation=equation)], {"x": [2]}, {"y": []})
