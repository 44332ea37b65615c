"""Small transformers with random weights, written node by node as PyTorch exports them, so that
onnxruntime's optimiser recognises its fusions: BERT, GPT-2 and ViT."""

from __future__ import annotations

import logging
from math import sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A graph under construction: methods add a node and return the name of its result."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.feeds: dict[str, np.ndarray] = {}

    def const(self, array) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def number(self, value: float) -> str:
        return self.const(np.float32(value).reshape(()))

    def random(self, *shape: int, spread: float = 0.15) -> str:
        return self.const(self.rng.normal(0, spread, shape).astype(np.float32))

    def node(self, op: str, *inputs: str, count: int = 1, **attrs):
        names = [f"{op}_{len(self.nodes)}_{i}" for i in range(count)]
        self.nodes.append(helper.make_node(op, list(inputs), names, names[0], **attrs))
        return names[0] if count == 1 else names

    def input(self, name: str, array: np.ndarray) -> str:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feeds[name] = array
        return name

    def linear(self, x: str, width: int, to: int) -> str:
        return self.node("Add", self.node("MatMul", x, self.random(width, to)), self.random(to))

    def norm(self, x: str, width: int) -> str:
        scale = self.const(self.rng.uniform(0.5, 1.5, width).astype(np.float32))
        return self.node("LayerNormalization", x, scale, self.random(width), axis=-1, epsilon=1e-5)

    def gelu(self, x: str) -> str:
        curve = self.node("Erf", self.node("Div", x, self.number(sqrt(2))))
        factor = self.node("Add", curve, self.number(1))
        return self.node("Mul", self.node("Mul", x, factor), self.number(0.5))

    def attention(self, x: str, width: int, heads: int, mask: str | None) -> str:
        """Add attention with separate projections with bias for query, key and value."""
        depth = width // heads

        def part(order: list[int]) -> str:
            split = self.const(np.array([0, 0, heads, depth]))
            return self.node(
                "Transpose", self.node("Reshape", self.linear(x, width, width), split), perm=order
            )

        query, key, value = part([0, 2, 1, 3]), part([0, 2, 3, 1]), part([0, 2, 1, 3])
        scores = self.node("Div", self.node("MatMul", query, key), self.number(sqrt(depth)))
        if mask is not None:
            scores = self.node("Add", scores, mask)
        mixed = self.node("MatMul", self.node("Softmax", scores, axis=-1), value)
        joined = self.node("Transpose", mixed, perm=[0, 2, 1, 3])
        joined = self.node("Reshape", joined, self.const(np.array([0, 0, width])))
        return self.linear(joined, width, width)

    def model(self, result: str, shape: list[int]) -> onnx.ModelProto:
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "net", self.inputs, [output], self.weights)
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def bert(layers=2, width=64, heads=4, steps=16, words=50) -> tuple[onnx.ModelProto, dict]:
    """Return BERT with ids of tokens and segments, and a mask; post-normalisation."""
    net = Net(1)
    ids = net.input("ids", net.rng.integers(0, words, (2, steps)))
    kinds = net.input("kinds", net.rng.integers(0, 2, (2, steps)))
    mask = np.ones((2, steps), np.int64)
    mask[1, steps // 2 :] = 0
    mask = net.input("mask", mask)
    x = net.node("Gather", net.random(words, width, spread=1), ids)
    x = net.node("Add", x, net.node("Gather", net.random(2, width, spread=1), kinds))
    zero, one = (net.const(np.array([n])) for n in (0, 1))
    length = net.node("Gather", net.node("Shape", ids), net.const(np.array(1)), axis=0)
    last = net.node("Unsqueeze", length, zero)
    places = net.node("Slice", net.const(np.arange(2 * steps)[None]), zero, last, one)
    x = net.node("Add", x, net.node("Gather", net.random(2 * steps, width, spread=1), places))
    x = net.norm(x, width)
    for axis in (1, 2):
        mask = net.node("Unsqueeze", mask, net.const(np.array([axis])))
    mask = net.node("Cast", mask, to=TensorProto.FLOAT)
    mask = net.node("Mul", net.node("Sub", net.number(1), mask), net.number(-10000))
    for _ in range(layers):
        x = net.norm(net.node("Add", net.attention(x, width, heads, mask), x), width)
        wide = net.gelu(net.linear(x, width, 4 * width))
        x = net.norm(net.node("Add", net.linear(wide, 4 * width, width), x), width)
    return net.model(x, [2, steps, width]), net.feeds


def gpt2(
    layers=2, width=64, heads=4, steps=16, words=50, tied=False
) -> tuple[onnx.ModelProto, dict]:
    """Return GPT-2 with Gemm for all projections (one for query, key and value), a causal mask and
    pre-normalisation; ``tied``: with tied embeddings."""
    net = Net(2)
    ids = net.input("ids", net.rng.integers(0, words, (1, steps)))
    table = net.random(words, width, spread=1)
    x = net.node("Gather", table, ids)
    x = net.node("Add", x, net.random(1, steps, width, spread=1))
    for _ in range(layers):
        y = _causal_attention(net, net.norm(x, width), width, heads, steps)
        x = net.node("Add", y, x)
        y = _fast_gelu(net, _gemm(net, net.norm(x, width), width, 4 * width, steps))
        x = net.node("Add", x, _gemm(net, y, 4 * width, width, steps))
    x = net.norm(x, width)
    if not tied:
        return net.model(x, [1, steps, width]), net.feeds
    head = net.node("MatMul", x, net.node("Transpose", table, perm=[1, 0]))
    return net.model(head, [1, steps, words]), net.feeds


def _gemm(net: Net, x: str, width: int, to: int, steps: int) -> str:
    flat = net.node("Reshape", x, net.const(np.array([-1, width])))
    y = net.node("Gemm", flat, net.random(width, to), net.random(to))
    return net.node("Reshape", y, net.const(np.array([1, steps, to])))


def _fast_gelu(net: Net, x: str) -> str:
    cube = net.node("Mul", net.node("Pow", x, net.number(3)), net.number(0.044715))
    inner = net.node("Mul", net.node("Add", x, cube), net.number(sqrt(2 / np.pi)))
    factor = net.node("Add", net.node("Tanh", inner), net.number(1))
    return net.node("Mul", net.node("Mul", x, net.number(0.5)), factor)


def _causal_attention(net: Net, x: str, width: int, heads: int, steps: int) -> str:
    depth = width // heads
    packed = _gemm(net, x, width, 3 * width, steps)
    parts = net.node("Split", packed, net.const(np.array([width] * 3)), count=3, axis=2)
    split = net.const(np.array([0, 0, heads, depth]))
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    query, key, value = (
        net.node("Transpose", net.node("Reshape", part, split), perm=order)
        for part, order in zip(parts, orders)
    )
    scores = net.node("Div", net.node("MatMul", query, key), net.number(sqrt(depth)))

    def extent(start: int, end: int) -> str:
        ends = [net.const(np.array([n])) for n in (start, end, 0)]
        part = net.node("Slice", net.node("Shape", scores), *ends)
        return net.node("Squeeze", part, net.const(np.array([0])))

    length, zero = extent(-1, 1 << 40), net.const(np.array([0]))
    last = net.node("Unsqueeze", length, zero)
    first = net.node("Unsqueeze", net.node("Sub", length, extent(-2, -1)), zero)
    seen = net.const(np.tril(np.ones((1, 1, 32, 32), bool)))
    seen = net.node("Slice", seen, first, last, net.const(np.array([2])))
    seen = net.node("Slice", seen, zero, last, net.const(np.array([3])))
    scores = net.node("Where", seen, scores, net.number(-10000))
    mixed = net.node("MatMul", net.node("Softmax", scores, axis=-1), value)
    joined = net.node("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = net.node("Reshape", joined, net.const(np.array([1, steps, width])))
    return _gemm(net, joined, width, width, steps)


def vit(layers=2, width=64, heads=4, size=32, patch=8) -> tuple[onnx.ModelProto, dict]:
    """Return ViT with image patches as tokens; pre-normalisation, no mask."""
    net, count = Net(3), (size // patch) ** 2
    image = net.input("image", net.rng.normal(0, 1, (1, 3, size, size)).astype(np.float32))
    steps = {"kernel_shape": [patch, patch], "strides": [patch, patch]}
    x = net.node("Conv", image, net.random(width, 3, patch, patch), net.random(width), **steps)
    x = net.node("Reshape", x, net.const(np.array([1, width, count])))
    x = net.node("Transpose", x, perm=[0, 2, 1])
    x = net.node("Concat", net.random(1, 1, width, spread=1), x, axis=1)
    x = net.node("Add", x, net.random(1, count + 1, width, spread=1))
    for _ in range(layers):
        x = net.node("Add", net.attention(net.norm(x, width), width, heads, None), x)
        wide = net.gelu(net.linear(net.norm(x, width), width, 4 * width))
        x = net.node("Add", net.linear(wide, 4 * width, width), x)
    return net.model(net.norm(x, width), [1, count + 1, width]), net.feeds


BUILDERS = {"bert": bert, "gpt2": gpt2, "vit": vit}


def optimized(model: onnx.ModelProto, kind: str, folder, heads: int, width: int):
    """Return the model after onnxruntime's transformer optimiser."""
    from onnxruntime.transformers import optimizer

    logging.getLogger("onnxruntime").setLevel(logging.ERROR)
    path = f"{folder}/{kind}.onnx"
    onnx.save(model, path)
    found = optimizer.optimize_model(path, kind, num_heads=heads, hidden_size=width, opt_level=0)
    return found.model
