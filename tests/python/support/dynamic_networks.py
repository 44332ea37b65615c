"""Networks with dynamic input dimensions, written as exporters write them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
WIDTH, HEADS, WORDS = 32, 4, 50


@dataclass
class Draft:
    """A graph under construction; names are numbered, with a prefix in subgraphs."""

    seed: int = 0
    prefix: str = ""
    nodes: list = field(default_factory=list)
    weights: list = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def node(self, op: str, inputs: list[str], outputs: int = 1, **attrs: Any):
        names = [f"{self.prefix}{op}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, name=names[0], **attrs))
        return names[0] if outputs == 1 else names

    def constant(self, array: Any, dtype: Any = None) -> str:
        name = f"{self.prefix}w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        scale = 1 / np.sqrt(max(shape[0], 1))
        return self.constant(self.rng.normal(size=shape) * scale, np.float32)

    def extent(self, x: str, axis: int) -> str:
        """Return an extent as a vector of one element, by the node chain that exporters write."""
        shape = self.node("Shape", [x])
        scalar = self.node("Gather", [shape, self.constant(axis, np.int64)], axis=0)
        return self.node("Unsqueeze", [scalar, self.constant([0], np.int64)])

    def model(self, inputs: dict, outputs: dict) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "open",
            [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()],
            self.weights,
        )
        imports = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)


@dataclass(frozen=True)
class Case:
    """A network, its declared dimensions, and inputs of given sizes."""

    make: Callable[[], onnx.ModelProto]
    dims: dict[str, Any]
    inputs: Callable[[np.random.Generator, dict[str, int]], dict[str, np.ndarray]]

    def most(self) -> dict[str, int]:
        return {n: high for n, (_, high) in self.bounds().items()}

    def bounds(self) -> dict[str, tuple[int, int]]:
        return {n: b for n, b in self.dims.items() if not isinstance(b, str)}

    def sizes(self, rng: np.random.Generator, count: int) -> list[dict[str, int]]:
        """Return the maximum, the minimum, random sizes, and the maximum again."""
        bounds = self.bounds()
        some = [
            {n: int(rng.integers(a, b + 1)) for n, (a, b) in bounds.items()} for _ in range(count)
        ]
        least = {n: low for n, (low, _) in bounds.items()}
        return [self.most(), least, *some, self.most()]


def perceptron() -> onnx.ModelProto:
    d = Draft(1)
    hidden = d.node("Relu", [d.node("Gemm", ["x", d.weight(16, 32), d.weight(32)])])
    y = d.node("Softmax", [d.node("MatMul", [hidden, d.weight(32, 10)])], axis=-1)
    return d.model({"x": (FLOAT, ["batch", 16])}, {y: FLOAT})


def attention(d: Draft, x: str, past: tuple[str, str] | None, mask: str) -> tuple[str, str, str]:
    """Return self-attention over a sequence, optionally with a KV cache."""
    batch, length = d.extent(x, 0), d.extent(x, 1)
    heads = d.constant([HEADS], np.int64)
    each = d.constant([WIDTH // HEADS], np.int64)
    apart = d.node("Concat", [batch, length, heads, each], axis=0)
    parts = d.node("Split", [d.node("MatMul", [x, d.weight(WIDTH, 3 * WIDTH)])], 3, axis=2)
    q, k, v = (
        d.node("Transpose", [d.node("Reshape", [p, apart])], perm=[0, 2, 1, 3]) for p in parts
    )
    if past is not None:
        k, v = (d.node("Concat", [old, new], axis=2) for old, new in zip(past, (k, v)))
    turned = d.node("Transpose", [k], perm=[0, 1, 3, 2])
    scores = d.node("Div", [d.node("MatMul", [q, turned]), d.constant(2.0, np.float32)])
    chances = d.node("Softmax", [d.node("Add", [scores, mask])], axis=-1)
    seen = d.node("Transpose", [d.node("MatMul", [chances, v])], perm=[0, 2, 1, 3])
    joined = d.node("Concat", [batch, length, d.constant([-1], np.int64)], axis=0)
    out = d.node("MatMul", [d.node("Reshape", [seen, joined]), d.weight(WIDTH, WIDTH)])
    return d.node("Add", [x, out]), k, v


def encoder() -> onnx.ModelProto:
    d = Draft(2)
    x = d.node("Gather", [d.weight(WORDS, WIDTH), "ids"])
    places = d.node("Slice", [d.weight(64, WIDTH), d.constant([0], np.int64), d.extent("ids", 1)])
    x = d.node("Add", [x, places])
    mask = d.node("Unsqueeze", ["mask", d.constant([1, 2], np.int64)])
    x, _, _ = attention(d, x, None, mask)
    wide = d.node("Sigmoid", [d.node("MatMul", [x, d.weight(WIDTH, 2 * WIDTH)])])
    x = d.node("Add", [x, d.node("MatMul", [wide, d.weight(2 * WIDTH, WIDTH)])])
    pooled = d.node("ReduceMean", [x], axes=[1], keepdims=0)
    open_ = ["batch", "seq"]
    return d.model({"ids": (INT64, open_), "mask": (FLOAT, open_)}, {x: FLOAT, pooled: FLOAT})


def decoder() -> onnx.ModelProto:
    d = Draft(3)
    x = d.node("Gather", [d.weight(WORDS, WIDTH), "ids"])
    x, k, v = attention(d, x, ("past_k", "past_v"), "mask")
    y = d.node("MatMul", [x, d.weight(WIDTH, WORDS)])
    cache = ["batch", HEADS, "past", WIDTH // HEADS]
    return d.model(
        {
            "ids": (INT64, ["batch", "seq"]),
            "mask": (FLOAT, ["batch", 1, "seq", "past + seq"]),
            "past_k": (FLOAT, cache),
            "past_v": (FLOAT, cache),
        },
        {y: FLOAT, k: FLOAT, v: FLOAT},
    )


def causal() -> onnx.ModelProto:
    """Return positions computed by Range, and a causal mask by Trilu."""
    d = Draft(7)
    words = d.node("Gather", [d.weight(WORDS, WIDTH), "ids"])
    length = d.extent("ids", 1)
    scalar = d.node("Squeeze", [length, d.constant([0], np.int64)])
    places = d.node("Range", [d.constant(0, np.int64), scalar, d.constant(1, np.int64)])
    x = d.node("Add", [words, d.node("Gather", [d.weight(64, WIDTH), places])])
    shape = d.node("Concat", [length, length], axis=0)
    value = helper.make_tensor("value", FLOAT, [1], [-1e4])
    full = d.node("ConstantOfShape", [shape], value=value)
    x, _, _ = attention(d, x, None, d.node("Trilu", [full, d.constant(1, np.int64)], upper=1))
    y = d.node("Hardmax", [d.node("MatMul", [x, d.weight(WIDTH, 6)])], axis=-1)
    return d.model({"ids": (INT64, ["batch", "seq"])}, {x: FLOAT, y: FLOAT})


def convolutions() -> onnx.ModelProto:
    """Return strided, depthwise and pointwise layers, a residual, pooling, nearest resize."""
    d = Draft(4)
    x = d.node("Relu", [d.node("Conv", ["x", d.weight(8, 3, 3, 3), d.weight(8)],
                               strides=[2, 2], pads=[1, 1, 1, 1])])  # fmt: skip
    x = d.node("Conv", [x, d.weight(8, 1, 3, 3), d.weight(8)], group=8, pads=[1, 1, 1, 1])
    x = d.node("Clip", [x, d.constant(0.0, np.float32), d.constant(6.0, np.float32)])
    x = d.node("Add", [x, d.node("Conv", [x, d.weight(8, 8, 1, 1)])])
    small = d.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    scales = d.constant([1, 1, 2, 2], np.float32)
    large = d.node("Resize", [small, "", scales], mode="nearest", nearest_mode="floor",
                   coordinate_transformation_mode="asymmetric")  # fmt: skip
    pooled = d.node("Flatten", [d.node("GlobalAveragePool", [small])])
    y = d.node("Gemm", [pooled, d.weight(8, 5), d.weight(5)])
    return d.model({"x": (FLOAT, ["batch", 3, "height", "width"])}, {y: FLOAT, large: FLOAT})


def tagger() -> onnx.ModelProto:
    d = Draft(5)
    hidden = 16
    x = d.node("Gather", [d.weight(WORDS, 12), "ids"])
    weights = [
        d.weight(2, 4 * hidden, 12),
        d.weight(2, 4 * hidden, hidden),
        d.weight(2, 8 * hidden),
    ]
    y, _, _ = d.node("LSTM", [x, *weights], 3, hidden_size=hidden, direction="bidirectional")
    y = d.node("Transpose", [y], perm=[0, 2, 1, 3])
    y = d.node("Reshape", [y, d.constant([0, 0, -1], np.int64)])
    tags = d.node("LogSoftmax", [d.node("MatMul", [y, d.weight(2 * hidden, 7)])], axis=-1)
    return d.model({"ids": (INT64, ["seq", 1])}, {tags: FLOAT})


def quantised() -> onnx.ModelProto:
    """Return a convolution, a depthwise and a pointwise one and a matmul, all in int8."""
    d = Draft(6)
    zero = d.constant(128, np.uint8)

    def real(x: str, scale: float, zero: str) -> str:
        return d.node("DequantizeLinear", [x, d.constant(scale, np.float32), zero])

    def rounded(x: str, scale: float) -> str:
        return d.node("QuantizeLinear", [x, d.constant(scale, np.float32), zero])

    def weights(*shape: int) -> str:
        numbers = d.constant(d.rng.integers(-60, 60, shape), np.int8)
        return real(numbers, 0.01, d.constant(0, np.int8))

    x = real(rounded("x", 0.03), 0.03, zero)
    for shape, attrs in (
        ((16, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ((16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1]}),
        ((24, 16, 1, 1), {}),
    ):
        x = real(rounded(d.node("Conv", [x, weights(*shape)], **attrs), 0.05), 0.05, zero)
    x = d.node("Flatten", [d.node("GlobalAveragePool", [x])])
    x = real(rounded(x, 0.01), 0.01, zero)
    y = rounded(d.node("MatMul", [x, weights(24, 10)]), 0.02)
    return d.model({"x": (FLOAT, ["batch", 3, "height", "width"])}, {y: TensorProto.UINT8})


def _image(rng, sizes):
    shape = (sizes["batch"], 3, sizes["height"], sizes["width"])
    return {"x": rng.normal(size=shape).astype(np.float32)}


def _masked(rng, *shape):
    mask = np.where(rng.random(shape) < 0.2, -1e4, 0).astype(np.float32)
    mask[..., -1] = 0
    return mask


def _encoded(rng, sizes):
    shape = (sizes["batch"], sizes["seq"])
    return {"ids": rng.integers(0, WORDS, shape), "mask": _masked(rng, *shape)}


def _sentences(rng, sizes):
    return {"ids": rng.integers(0, WORDS, (sizes["batch"], sizes["seq"]))}


def _decoded(rng, sizes):
    batch, length, past = sizes["batch"], sizes["seq"], sizes["past"]
    cache = (batch, HEADS, past, WIDTH // HEADS)
    return {
        "ids": rng.integers(0, WORDS, (batch, length)),
        "mask": _masked(rng, batch, 1, length, past + length),
        "past_k": rng.normal(size=cache).astype(np.float32),
        "past_v": rng.normal(size=cache).astype(np.float32),
    }


def _rows(rng, sizes):
    return {"x": rng.normal(size=(sizes["batch"], 16)).astype(np.float32)}


def _words(rng, sizes):
    return {"ids": rng.integers(0, WORDS, (sizes["seq"], 1))}


CASES = {
    "perceptron": Case(perceptron, {"batch": (1, 8)}, _rows),
    "encoder": Case(encoder, {"batch": (1, 3), "seq": (1, 40)}, _encoded),
    "causal": Case(causal, {"batch": (1, 3), "seq": (1, 33)}, _sentences),
    "decoder": Case(decoder, {"batch": (1, 2), "seq": (1, 5), "past": (0, 24)}, _decoded),
    "convolutions": Case(
        convolutions, {"batch": (1, 2), "height": (9, 50), "width": (7, 61)}, _image
    ),
    "tagger": Case(tagger, {"seq": (1, 30)}, _words),
}
