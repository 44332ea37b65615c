"""Small networks, one per use of an operator, that are offered to a device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from .case import Case
from .case_factory import CaseFactory
from .quantized_cases import quantized_cases
from .variant_cases import variant_cases

# Maximum extents of dynamic dimensions.
MAXIMA = {"n": 13, "h": 21}

UNARY = (
    "Relu Sigmoid Tanh Exp Abs Neg Floor Ceil Softplus Elu Selu LeakyRelu HardSigmoid HardSwish "
    "Erf Sin Cos Sign Softsign Identity Round"
).split()
POSITIVE_UNARY = "Log Sqrt Reciprocal".split()
BINARY = "Add Sub Mul Div Pow Max Min".split()
REDUCTIONS = "ReduceMean ReduceMax ReduceMin ReduceL2".split()


def all_cases() -> list[Case]:
    """Return all cases; the numbers are reproducible."""
    make = CaseFactory()
    groups = (_elementwise, _matmuls, _convolutions, _pools, _shapes, _reductions, _quantized)
    chains = (_image_chains, _matmul_chains, _forks)
    made = [
        case for group in (*groups, *chains, _large, _non_finite_values) for case in group(make)
    ]
    return [*made, *quantized_cases(), *variant_cases()]


def _elementwise(make: CaseFactory) -> Iterator[Case]:
    for op in UNARY:
        yield make.single(op, "rank 4", [make.normal(1, 3, 5, 4)])
    for op in POSITIVE_UNARY:
        yield make.single(op, "rank 2", [make.positive(3, 7)])
    for op in BINARY:
        a, b = make.positive(2, 3, 4), make.positive(2, 3, 4)
        yield make.single(op, "equal shapes", [a, b])
        yield make.single(op, "a row for all", [a, make.positive(4)])
        yield make.single(op, "a column for all", [a, make.positive(3, 1)])
        yield make.single(op, "a constant", [a], [make.positive(2, 3, 4)])
        yield make.single(op, "a constant scalar", [a], [make.positive()])
    for op in ("Add", "Mul"):
        yield make.single(op, "channels", [make.normal(1, 6, 5, 5)], [make.normal(1, 6, 1, 1)])
        twice = [helper.make_node(op, ["x0", "x0"], ["y"], name="n")]
        yield Case(f"{op}: the same twice", twice, {"x0": make.normal(3, 5)})
    bounds = [np.float32(-0.5), np.float32(0.75)]
    yield make.single("Clip", "both bounds", [make.normal(2, 9)], bounds)
    yield make.single(
        "PRelu", "a slope a channel", [make.normal(1, 4, 3, 3)], [make.normal(4, 1, 1)]
    )
    yield make.single("Where", "a mask", [make.normal(3, 4) > 0, make.normal(3, 4), make.normal(4)])
    for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
        yield make.single(op, "rank 2", [make.normal(3, 4), make.normal(3, 4)])


def _matmuls(make: CaseFactory) -> Iterator[Case]:
    yield make.single("MatMul", "constant weights", [make.normal(3, 8)], [make.normal(8, 5)])
    yield make.single("MatMul", "two inputs", [make.normal(3, 8), make.normal(8, 5)])
    yield make.single("MatMul", "batches", [make.normal(2, 3, 4), make.normal(2, 4, 5)])
    yield make.single("MatMul", "one matrix for all", [make.normal(2, 3, 4)], [make.normal(4, 5)])
    weights = [make.normal(5, 8), make.normal(5)]
    yield make.single("Gemm", "transposed, bias", [make.normal(3, 8)], weights, transB=1)
    yield make.single("Gemm", "scaled", [make.normal(3, 8)], [make.normal(8, 5)], alpha=0.5)
    row = [make.normal(1, 64)]
    yield make.single("Gemm", "one row", row, [make.normal(64, 10), make.normal(10)])


def _convolutions(make: CaseFactory) -> Iterator[Case]:
    def conv(how: str, x: tuple, w: tuple, bias: bool = True, op: str = "Conv", **attributes: Any):
        count = w[1] * attributes.get("group", 1) if op == "ConvTranspose" else w[0]
        weights = [make.normal(*w), *([make.normal(count)] if bias else [])]
        return make.single(op, how, [make.normal(*x)], weights, **attributes)

    yield conv("3x3", (1, 4, 9, 9), (6, 4, 3, 3))
    yield conv("no bias", (1, 4, 9, 9), (6, 4, 3, 3), bias=False)
    yield conv("padded", (1, 4, 9, 9), (8, 4, 3, 3), pads=[1, 1, 1, 1])
    yield conv("padded on one side", (1, 4, 9, 9), (8, 4, 3, 3), pads=[0, 1, 1, 0])
    yield conv("strides", (2, 3, 11, 9), (5, 3, 3, 3), strides=[2, 2], pads=[1, 1, 1, 1])
    yield conv("strides that differ", (1, 3, 11, 9), (5, 3, 3, 3), strides=[1, 2])
    yield conv("dilated", (1, 3, 11, 11), (4, 3, 3, 3), dilations=[2, 2])
    yield conv("1x1", (1, 16, 5, 5), (8, 16, 1, 1))
    yield conv("depthwise", (1, 8, 7, 7), (8, 1, 3, 3), group=8, pads=[1, 1, 1, 1])
    yield conv("groups", (1, 8, 7, 7), (12, 4, 3, 3), group=2)
    yield conv("5x1", (1, 3, 12, 4), (4, 3, 5, 1))
    yield conv("one axis", (1, 4, 20), (6, 4, 3), pads=[1, 1])
    yield conv("three axes", (1, 2, 5, 6, 7), (3, 2, 3, 3, 3))
    up = {"op": "ConvTranspose", "strides": [2, 2]}
    yield conv("twice as large", (1, 4, 5, 5), (4, 3, 2, 2), **up)
    yield conv("overlapping", (1, 4, 5, 5), (4, 3, 3, 3), pads=[1, 1, 1, 1], **up)
    kernel, scale = make.normal(4), make.positive(4)
    normal = [kernel, make.normal(4), make.normal(4), scale]
    yield make.single("BatchNormalization", "alone", [make.normal(2, 4, 5, 5)], normal)
    layer = [make.normal(8), make.normal(8)]
    yield make.single("LayerNormalization", "last axis", [make.normal(3, 8)], layer)
    instance = [make.normal(3), make.normal(3)]
    yield make.single("InstanceNormalization", "planes", [make.normal(1, 3, 6, 6)], instance)


def _pools(make: CaseFactory) -> Iterator[Case]:
    for op in ("MaxPool", "AveragePool"):
        x = [make.normal(1, 3, 9, 9)]
        yield make.single(op, "2x2", x, kernel_shape=[2, 2], strides=[2, 2])
        padded = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        yield make.single(op, "3x3 padded", x, **padded)
        yield make.single(op, "one axis", [make.normal(1, 3, 12)], kernel_shape=[3], strides=[3])
    x = [make.normal(1, 3, 7, 7)]
    counted = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    yield make.single("AveragePool", "padding counts", x, **counted)
    yield make.single("MaxPool", "rounded up", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    yield make.single("GlobalAveragePool", "planes", x)
    yield make.single("GlobalMaxPool", "planes", x)


def _shapes(make: CaseFactory) -> Iterator[Case]:
    x = [make.normal(2, 3, 4)]
    yield make.single("Transpose", "reversed", x, perm=[2, 1, 0])
    yield make.single("Reshape", "flat", x, [np.array([2, 12], np.int64)])
    yield make.single("Flatten", "axis 1", x, axis=1)
    yield make.single("Concat", "axis 1", [*x, make.normal(2, 5, 4)], axis=1)
    ends = [np.array(v, np.int64) for v in ([1, 0], [3, 3], [1, 2])]
    yield make.single("Slice", "two axes", x, ends)
    yield make.single("Pad", "zeros", x, [np.array([0, 1, 1, 0, 2, 0], np.int64)])
    yield make.single("Squeeze", "one axis", [make.normal(2, 1, 4)], [np.array([1], np.int64)])
    sizes = [np.array([], np.float32), np.array([1, 1, 2, 2], np.float32)]
    yield make.single("Resize", "nearest, twice", [make.normal(1, 2, 3, 3)], sizes)
    yield make.single("Softmax", "last axis", [make.normal(3, 7)], axis=-1)
    yield make.single("Softmax", "channels", [make.normal(1, 5, 3, 3)], axis=1)
    yield make.single("LogSoftmax", "last axis", [make.normal(3, 7)], axis=-1)
    yield make.single("Gather", "rows", [make.normal(5, 3)], [np.array([4, 0, 1], np.int64)])
    yield make.single("Cast", "to int32", [make.normal(3, 4) * 10], to=onnx.TensorProto.INT32)
    yield make.single("Cast", "from int8", [np.arange(-6, 6, dtype=np.int8)], to=1)


def _reductions(make: CaseFactory) -> Iterator[Case]:
    for op in REDUCTIONS:
        yield make.single(op, "last axis", [make.normal(3, 4, 5)], axes=[2], keepdims=0)
        yield make.single(op, "planes", [make.normal(1, 3, 4, 5)], axes=[2, 3], keepdims=1)
    axes = [np.array([1], np.int64)]
    yield make.single("ReduceSum", "middle axis", [make.normal(3, 4, 5)], axes, keepdims=0)
    yield make.single("ArgMax", "last axis", [make.normal(3, 9)], axis=1, keepdims=0)


def _quantized(make: CaseFactory) -> Iterator[Case]:
    scale, zero = np.float32(0.05), np.int8(3)
    yield make.single("QuantizeLinear", "int8", [make.normal(2, 9)], [scale, zero])
    x = np.arange(-9, 9, dtype=np.int8).reshape(2, 9)
    yield make.single("DequantizeLinear", "int8", [x], [scale, zero])


def _chain(how: str, steps: Sequence[tuple], feeds: Mapping, weights: Mapping) -> Case:
    nodes = [
        helper.make_node(op, inputs.split(), outputs.split(), name=f"n{i}", **attributes)
        for i, (op, inputs, outputs, attributes) in enumerate(steps)
    ]
    return Case(how, nodes, dict(feeds), dict(weights))


def _image_chains(make: CaseFactory) -> Iterator[Case]:
    """Convolutions with neighbours that devices fuse."""
    image = {"x": make.normal(1, 4, 8, 8)}
    kernel = {"w": make.normal(6, 4, 3, 3), "b": make.normal(6), "w2": make.normal(6, 6, 1, 1)}
    pads = {"pads": [1, 1, 1, 1]}
    conv = ("Conv", "x w b", "t", pads)
    yield _chain("Conv, Relu", [conv, ("Relu", "t", "y", {})], image, kernel)
    yield _chain(
        "Conv, Add, Relu: a residual",
        [conv, ("Conv", "t w2", "u", {}), ("Add", "u t", "v", {}), ("Relu", "v", "y", {})],
        image,
        kernel,
    )
    yield _chain(
        "Conv, Sigmoid, Mul: a gate",
        [conv, ("Sigmoid", "t", "s", {}), ("Mul", "t s", "y", {})],
        image,
        kernel,
    )


def _matmul_chains(make: CaseFactory) -> Iterator[Case]:
    """Matmuls with neighbours that devices fuse."""
    row = {"x": make.normal(3, 8)}
    dense = {"w": make.normal(8, 5), "b": make.normal(5), "w2": make.normal(5, 4)}
    yield _chain(
        "MatMul, Add, Tanh, MatMul",
        [
            ("MatMul", "x w", "t", {}),
            ("Add", "t b", "u", {}),
            ("Tanh", "u", "v", {}),
            ("MatMul", "v w2", "y", {}),
        ],
        row,
        dense,
    )
    square = {"w": make.normal(8, 8), "b": make.normal(8)}
    residual = [("MatMul", "x w", "t", {}), ("Add", "t b", "u", {}), ("Add", "u x", "v", {})]
    yield _chain(
        "MatMul, Add, Add, Relu: a residual", [*residual, ("Relu", "v", "y", {})], row, square
    )
    yield _chain(
        "MatMul, Add, Relu, Add: a residual at the end",
        [*residual[:2], ("Relu", "u", "v", {}), ("Add", "v x", "y", {})],
        row,
        {"w": make.normal(8, 8), "b": make.normal(8)},  # only these differ
    )


def _forks(make: CaseFactory) -> Iterator[Case]:
    """Regions with several results, and tensors with several readers."""
    row = {"x": make.normal(3, 8)}
    several = _chain(
        "Add, Mul, Sub: several results",
        [("Add", "x b8", "y", {}), ("Mul", "y x", "y2", {}), ("Sub", "y2 y", "y3", {})],
        row,
        {"b8": make.normal(3, 8)},
    )
    several.outputs = ("y", "y3")
    yield several
    yield _chain(
        "Relu, Add, Sub, Mul: a diamond",
        [
            ("Relu", "x", "a", {}),
            ("Add", "a x", "b", {}),
            ("Sub", "a x", "c", {}),
            ("Mul", "b c", "y", {}),
        ],
        row,
        {},
    )
    yield _chain(
        "Neg, Abs, Relu: a chain", [("Neg", "x", "a", {}), ("Abs", "a", "b", {}),
        ("Relu", "b", "y", {})], row, {},
    )  # fmt: skip


def _large(make: CaseFactory) -> Iterator[Case]:
    """Extents larger than tiles and buffers of devices, odd extents, and biases of all shapes."""
    for how, rows, inner, columns in (
        ("many rows", 131, 9, 6), ("many columns", 5, 9, 133), ("long sums", 6, 197, 11),
    ):  # fmt: skip
        weights = [make.normal(inner, columns)]
        yield make.single("MatMul", how, [make.normal(rows, inner)], weights)
    biases = {"a column": (3, 1), "a scalar": (1,), "for each result": (3, 5), "a row": (1, 5)}
    for how, shape in biases.items():
        weights = [make.normal(8, 5), make.normal(*shape)]
        yield make.single("Gemm", f"bias is {how}", [make.normal(3, 8)], weights)
    square = [make.normal(8, 3), make.normal(3, 1)]
    yield make.single("Gemm", "bias is a column of a square", [make.normal(3, 8)], square)
    yield _dense("MatMul, Add, Relu: layers of many rows", make, 70, (90, 110, 90, 30))
    wide = [make.normal(1, 19, 35, 37)], [make.normal(33, 19, 3, 3), make.normal(33)]
    yield make.single("Conv", "many channels and pixels", *wide, pads=[1, 1, 1, 1])
    weights = [make.normal(300, 11), make.normal(11)]
    yield make.single("Gemm", "long sums", [make.normal(5, 300)], weights)
    weights = [make.normal(12, 133), make.normal(133)]
    yield make.single("Gemm", "many columns", [make.normal(3, 12)], weights)
    deep = [make.normal(1, 280, 3, 3)], [make.normal(133, 280, 1, 1), make.normal(133)]
    yield make.single("Conv", "133 channels", *deep)
    depth = [make.normal(1, 96, 5, 5)], [make.normal(96, 1, 3, 3), make.normal(96)]
    yield make.single("Conv", "depthwise, 96 channels", *depth, group=96, pads=[1, 1, 1, 1])
    for op in ("Relu", "Add", "Mul"):
        count = 1 if op == "Relu" else 2
        large = [make.normal(3, 130, 9, 11) for _ in range(count)]
        yield make.single(op, "many elements", large)


def _non_finite_values(make: CaseFactory) -> Iterator[Case]:
    """NaN and infinities: operators must propagate NaN. Matmul-like operators are excluded, since
    libraries clamp their results with operations that lose NaN."""

    def add_non_finite(*shape: int) -> np.ndarray:
        array = make.normal(*shape)
        array.ravel()[1::5] = np.nan
        array.ravel()[3::7] = np.inf
        return array

    for op in "Relu Abs Neg Sigmoid Tanh LeakyRelu Exp Sqrt".split():
        yield make.single(op, "NaN", [add_non_finite(3, 12)])
    for op in "Add Sub Mul Div Max Min".split():
        yield make.single(op, "NaN", [add_non_finite(3, 12), make.positive(3, 12)])


def _dense(how: str, make: CaseFactory, rows: int, sizes: Sequence[int]) -> Case:
    """Return a chain of matmuls, each with bias and Relu."""
    steps, weights, current = [], {}, "x"
    for i, (inner, columns) in enumerate(zip(sizes, sizes[1:])):
        weights[f"w{i}"] = make.normal(inner, columns) / np.float32(inner**0.5)
        weights[f"b{i}"] = make.normal(columns)
        result = "y" if i == len(sizes) - 2 else f"r{i}"
        steps += [
            ("MatMul", f"{current} w{i}", f"p{i}", {}),
            ("Add", f"p{i} b{i}", f"a{i}", {}),
            ("Relu", f"a{i}", result, {}),
        ]
        current = result
    return _chain(how, steps, {"x": make.normal(rows, sizes[0])}, weights)


def dynamic_cases() -> list[Case]:
    """Return networks with dynamic rows or images "n", or pixel rows "h", with their maximum
    inputs."""
    make = CaseFactory()
    rows, image = {"x": (MAXIMA["n"], 12)}, {"x": (1, 4, MAXIMA["h"], 9)}
    kernel = {"w": make.normal(6, 4, 3, 3), "b": make.normal(6)}
    pads = {"pads": [1, 1, 1, 1]}
    dense = {"w": make.normal(12, 7), "b": make.normal(7)}
    made = [
        ("Relu: open rows", [("Relu", "x", "y", {})], rows, {}),
        ("Add: open rows", [("Add", "x z", "y", {})], {**rows, "z": rows["x"]}, {}),
        ("Mul: open rows, a row for all", [("Mul", "x w", "y", {})], rows, {"w": make.normal(12)}),
        ("MatMul: open rows", [("MatMul", "x w", "y", {})], rows, dense),
        ("Gemm: open rows", [("Gemm", "x w b", "y", {})], rows, dense),
        ("MatMul, Add, Relu: open rows",
         [("MatMul", "x w", "t", {}), ("Add", "t b", "u", {}), ("Relu", "u", "y", {})],
         rows, dense),
        ("Softmax: open rows", [("Softmax", "x", "y", {"axis": -1})], rows, {}),
        ("Conv: open pixels", [("Conv", "x w b", "y", pads)], image, kernel),
        ("Conv: open batch", [("Conv", "x w b", "y", pads)], {"x": (MAXIMA["n"], 4, 6, 6)}, kernel),
        ("Conv, Relu: open pixels", [("Conv", "x w b", "t", pads), ("Relu", "t", "y", {})],
         image, kernel),
        ("MaxPool: open pixels", [("MaxPool", "x", "y", {"kernel_shape": [2, 2]})], image, {}),
        ("Relu, Neg: open pixels", [("Relu", "x", "t", {}), ("Neg", "t", "y", {})], image, {}),
    ]  # fmt: skip
    cases = []
    for how, steps, shapes, weights in made:
        feeds = {name: make.normal(*shape) for name, shape in shapes.items()}
        used = {name for _, inputs, _, _ in steps for name in inputs.split()}
        constants = {name: array for name, array in weights.items() if name in used}
        case = _chain(how, steps, feeds, constants)
        axes = {2: "h"} if "pixels" in how else {0: "n"}
        case.sizes = {name: axes for name in feeds}
        cases.append(case)
    return cases + [
        dynamic_case(case) for case in quantized_cases() if case.name in _DYNAMIC_QUANTIZED
    ]


_DYNAMIC_QUANTIZED = (
    "Conv of int8: 3x3", "MatMul of int8: weights", "Add of int8: two tensors",
)  # fmt: skip


def dynamic_case(case: Case) -> Case:
    """Return a case with a dynamic first axis and inputs of the maximum extent."""
    feeds = {}
    for name, array in case.feeds.items():
        times = -(-MAXIMA["n"] // len(array))
        feeds[name] = np.concatenate([array] * times)[: MAXIMA["n"]]
    dynamic = {name: {0: "n"} for name in feeds}
    how = f"{case.name}, open rows"
    return Case(how, case.nodes, feeds, case.weights, case.outputs, case.exact, dynamic)
