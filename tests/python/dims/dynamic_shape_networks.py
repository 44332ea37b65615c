"""Small networks whose dynamic dimensions have meaningless or misleading names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import onnx
from dynamic_networks import FLOAT, INT64, Draft, attention
from onnx import helper

UP = {
    "mode": "nearest",
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
}


@dataclass(frozen=True)
class DynamicNetwork:
    """A network with dynamic dimensions, their expected bounds, and sizes for its runs."""

    make: Callable[[], onnx.ModelProto]
    bounds: dict[str, tuple[int, int]]
    sizes: list[dict[str, int]]
    shapes: dict[str, list[Any]]
    high: int = 1  # upper limit of random integers

    def inputs(self, rng: np.random.Generator, sizes: dict[str, int]) -> dict[str, np.ndarray]:
        kinds = {i.name: i.type.tensor_type.elem_type for i in self.make().graph.input}
        found = {}
        for name, shape in self.shapes.items():
            extents = [eval(n, {}, sizes) if isinstance(n, str) else n for n in shape]
            if kinds[name] == INT64:
                found[name] = rng.integers(0, self.high, extents, dtype=np.int64)
            else:
                found[name] = np.float32(0.1 * rng.normal(size=extents))
        return found


def picture() -> onnx.ModelProto:
    """A classifier whose batch is called height."""
    d = Draft(11)
    x = d.node("Conv", ["x", d.weight(6, 3, 3, 3)], strides=[2, 2], pads=[1, 1, 1, 1])
    x = d.node("MaxPool", [d.node("Relu", [x])], kernel_shape=[2, 2], strides=[2, 2])
    x = d.node("Conv", [x, d.weight(8, 6, 3, 3)], strides=[2, 2], pads=[1, 1, 1, 1])
    x = d.node("Flatten", [d.node("GlobalAveragePool", [x])])
    y = d.node("Gemm", [x, d.weight(8, 5), d.weight(5)])
    return d.model({"x": (FLOAT, ["height", 3, "s53", "seq"])}, {y: FLOAT})


def first_picture() -> onnx.ModelProto:
    """A detector that reads only the first image of a batch."""
    d = Draft(56)
    x = d.node("Conv", ["x", d.weight(6, 3, 3, 3)], strides=[2, 2], pads=[1, 1, 1, 1])
    x = d.node("Flatten", [d.node("GlobalAveragePool", [x])])
    one = d.node("Gather", [x, d.constant([0], np.int64)], axis=0)
    y = d.node("Sub", [one, d.node("ReduceMean", [x], axes=[0])])
    return d.model({"x": (FLOAT, ["length", 3, "u", "v"])}, {y: FLOAT})


def skip() -> onnx.ModelProto:
    """A U-Net with unnamed axes."""
    d = Draft(12)
    twice = d.constant([1, 1, 2, 2], np.float32)
    one = d.node("Conv", ["x", d.weight(4, 2, 3, 3)], pads=[1, 1, 1, 1])
    low = one
    for _ in range(3):
        low = d.node("MaxPool", [low], kernel_shape=[2, 2], strides=[2, 2])
    for _ in range(3):
        low = d.node("Resize", [low, "", twice], **UP)
    y = d.node("Concat", [low, one], axis=1)
    return d.model({"x": (FLOAT, [None, 2, None, None])}, {y: FLOAT})


def enlarged() -> onnx.ModelProto:
    """Super-resolution without a stride."""
    d = Draft(13)
    x = d.node("Conv", ["x", d.weight(12, 1, 5, 5)])
    y = d.node("DepthToSpace", [x], blocksize=2)
    return d.model({"x": (FLOAT, ["batch", 1, "n", "b"])}, {y: FLOAT})


def words() -> onnx.ModelProto:
    """An encoder with a table of 40 positions, called width."""
    d = Draft(14)
    x = d.node("Gather", [d.weight(50, 32), "ids"])
    length = d.node("Squeeze", [d.extent("ids", 1), d.constant([0], np.int64)])
    places = d.node("Range", [d.constant(0, np.int64), length, d.constant(1, np.int64)])
    x = d.node("Add", [x, d.node("Gather", [d.weight(40, 32), places])])
    mask = d.node("Unsqueeze", ["mask", d.constant([1, 2], np.int64)])
    x, _, _ = attention(d, x, None, mask)
    open_ = ["height", "width"]
    return d.model({"ids": (INT64, open_), "mask": (FLOAT, open_)}, {x: FLOAT})


def cached() -> onnx.ModelProto:
    """A decoder step with a cache that may be empty."""
    d = Draft(15)
    x, k, v = attention(d, "x", ("k", "v"), "mask")
    cache = ["s0", 4, "h", 8]
    return d.model(
        {
            "x": (FLOAT, ["s0", "w", 32]),
            "mask": (FLOAT, ["s0", 1, "w", "h + w"]),
            "k": (FLOAT, cache),
            "v": (FLOAT, cache),
        },
        {x: FLOAT, k: FLOAT, v: FLOAT},
    )


def recurrent() -> onnx.ModelProto:
    """An LSTM over the first axis, which is called batch."""
    d = Draft(16)
    weights = [d.weight(1, 32, 6), d.weight(1, 32, 8), d.weight(1, 64)]
    y, last, _ = d.node("LSTM", ["x", *weights], 3, hidden_size=8)
    return d.model({"x": (FLOAT, ["batch", "seq", 6])}, {y: FLOAT, last: FLOAT})


def sound() -> onnx.ModelProto:
    """Four strided 1-D convolutions over samples."""
    d = Draft(17)
    x = d.node("Unsqueeze", ["x", d.constant([1], np.int64)])
    x = d.node("Relu", [d.node("Conv", [x, d.weight(4, 1, 2)], strides=[2])])
    for _ in range(3):
        x = d.node("Conv", [x, d.weight(4, 4, 2)], strides=[2])
    return d.model({"x": (FLOAT, ["b", "height"])}, {x: FLOAT})


def frames() -> onnx.ModelProto:
    """A 1-D convolution over spectra."""
    d = Draft(18)
    y = d.node("Conv", ["x", d.weight(4, 10, 3)], pads=[1, 1])
    return d.model({"x": (FLOAT, ["c", 10, "samples"])}, {y: FLOAT})


def points() -> onnx.ModelProto:
    """A point cloud, reduced to its largest features."""
    d = Draft(19)
    x = d.node("Relu", [d.node("MatMul", ["x", d.weight(3, 16)])])
    x = d.node("ReduceMax", [x], axes=[1], keepdims=0)
    y = d.node("MatMul", [x, d.weight(16, 4)])
    return d.model({"x": (FLOAT, ["width", "batch", 3])}, {y: FLOAT})


def rows() -> onnx.ModelProto:
    """A perceptron whose batch is called sequence_length."""
    d = Draft(20)
    x = d.node("Relu", [d.node("Gemm", ["x", d.weight(6, 8), d.weight(8)])])
    y = d.node("Softmax", [d.node("MatMul", [x, d.weight(8, 3)])], axis=-1)
    return d.model({"x": (FLOAT, ["sequence_length", 6])}, {y: FLOAT})


def volume() -> onnx.ModelProto:
    d = Draft(21)
    y = d.node("Conv", ["x", d.weight(3, 1, 3, 3, 3)], pads=[1] * 6, strides=[2, 2, 2])
    return d.model({"x": (FLOAT, ["n", 1, "a", "b", "c"])}, {y: FLOAT})


def multiples() -> onnx.ModelProto:
    """A network with an axis named by an expression, as torch.export does."""
    d = Draft(22)
    x = d.node("MaxPool", ["x"], kernel_shape=[4, 4], strides=[4, 4])
    return d.model({"x": (FLOAT, ["n", 2, "4*k", "4*m"])}, {x: FLOAT})


def matching() -> onnx.ModelProto:
    """Two inputs with equal axes of different names."""
    d = Draft(23)
    y = d.node("MatMul", [d.node("Add", ["a", "b"]), d.weight(6, 3)])
    shapes = {"a": ["s0", "s1", 6], "b": ["s7", "s9", 6]}
    y = d.node("Softmax", [y], axis=1)
    return d.model({name: (FLOAT, shape) for name, shape in shapes.items()}, {y: FLOAT})


def fixed_rows() -> onnx.ModelProto:
    """Positions that are added to all frames, so that only one length is valid."""
    d = Draft(24)
    x = d.node("Conv", ["x", d.weight(6, 4, 3)], pads=[1, 1], strides=[2])
    x = d.node("Add", [d.node("Transpose", [x], perm=[0, 2, 1]), d.weight(20, 6)])
    y = d.node("Softmax", [d.node("MatMul", [x, d.node("Transpose", [x], perm=[0, 2, 1])])])
    return d.model({"x": (FLOAT, ["n", 4, "t"])}, {y: FLOAT})


def patches() -> onnx.ModelProto:
    """A vision transformer with positions for an image of 224 x 224 pixels."""
    d = Draft(40)
    x = d.node("Conv", ["x", d.weight(32, 3, 16, 16)], strides=[16, 16])
    shape = d.node("Concat", [d.extent(x, 0), d.extent(x, 1), d.constant([-1], np.int64)], axis=0)
    x = d.node("Transpose", [d.node("Reshape", [x, shape])], perm=[0, 2, 1])
    x = d.node("Add", [x, d.weight(196, 32)])
    x, _, _ = attention(d, x, None, d.constant(0.0, np.float32))
    return d.model({"x": (FLOAT, ["a", 3, "b", "c"])}, {x: FLOAT})


def length_first() -> onnx.ModelProto:
    """Attention of torch without batch_first: the first axis is the length."""
    d = Draft(41)
    batch, length = d.extent("x", 1), d.extent("x", 0)
    rows = d.node("Mul", [batch, d.constant([4], np.int64)])
    apart = d.node("Concat", [length, rows, d.constant([8], np.int64)], axis=0)
    q = d.node("Reshape", [d.node("MatMul", ["x", d.weight(32, 32)]), apart])
    q = d.node("Transpose", [q], perm=[1, 0, 2])
    scores = d.node("MatMul", [q, d.node("Transpose", [q], perm=[0, 2, 1])])
    y = d.node("MatMul", [d.node("Softmax", [scores], axis=-1), q])
    whole = d.node("Concat", [length, batch, d.constant([32], np.int64)], axis=0)
    y = d.node("Reshape", [d.node("Transpose", [y], perm=[1, 0, 2]), whole])
    return d.model({"x": (FLOAT, ["batch", "seq", 32])}, {y: FLOAT})


def edges() -> onnx.ModelProto:
    """A graph network: nodes sum messages along edges."""
    d = Draft(42)
    src, to = (d.node("Gather", ["e", d.constant(i, np.int64)], axis=0) for i in (0, 1))
    message = d.node("Relu", [d.node("MatMul", [d.node("Gather", ["x", src]), d.weight(6, 6)])])
    to = d.node("Unsqueeze", [to, d.constant([1], np.int64)])
    to = d.node("Expand", [to, d.node("Shape", [message])])
    zero = d.node("Mul", ["x", d.constant(0.0, np.float32)])
    y = d.node("ScatterElements", [zero, to, message], axis=0, reduction="add")
    return d.model({"x": (FLOAT, ["batch", 6]), "e": (INT64, [2, "h"])}, {y: FLOAT})


def windows() -> onnx.ModelProto:
    """Attention in windows of 7 x 7 patches."""
    d = Draft(45)
    x = d.node("Conv", ["x", d.weight(8, 3, 4, 4)], strides=[4, 4])
    x = d.node("Transpose", [x], perm=[0, 2, 3, 1])
    seven, eight = d.constant([7], np.int64), d.constant([8], np.int64)
    rows, columns = (d.node("Div", [d.extent(x, axis), seven]) for axis in (1, 2))
    apart = d.node("Concat", [d.extent(x, 0), rows, seven, columns, seven, eight], axis=0)
    x = d.node("Transpose", [d.node("Reshape", [x, apart])], perm=[0, 1, 3, 2, 4, 5])
    x = d.node("Reshape", [x, d.constant([-1, 49, 8], np.int64)])
    scores = d.node("MatMul", [x, d.node("Transpose", [x], perm=[0, 2, 1])])
    y = d.node("MatMul", [d.node("Softmax", [scores]), x])
    return d.model({"x": (FLOAT, ["n", 3, "h", "w"])}, {y: FLOAT})


def numbered_windows() -> onnx.ModelProto:
    """Windows of 8 x 8 patches, each with its own constants for the 64 windows of an image."""
    d = Draft(46)
    x = d.node("Conv", ["x", d.weight(8, 3, 4, 4)], strides=[4, 4])
    x = d.node("Transpose", [x], perm=[0, 2, 3, 1])
    eight = d.constant([8], np.int64)
    rows, columns = (d.node("Div", [d.extent(x, axis), eight]) for axis in (1, 2))
    apart = d.node("Concat", [d.extent(x, 0), rows, eight, columns, eight, eight], axis=0)
    x = d.node("Transpose", [d.node("Reshape", [x, apart])], perm=[0, 1, 3, 2, 4, 5])
    x = d.node("Reshape", [x, d.constant([-1, 64, 64, 8], np.int64)])
    y = d.node("Add", [x, d.weight(1, 64, 64, 8)])
    return d.model({"x": (FLOAT, ["n", 3, "h", "w"])}, {y: FLOAT})


def with_state() -> onnx.ModelProto:
    """A GRU with its batch first and an initial state as an input."""
    d = Draft(47)
    weights = [d.weight(1, 24, 6), d.weight(1, 24, 8), d.weight(1, 48)]
    x = d.node("Transpose", ["x"], perm=[1, 0, 2])
    y, last = d.node("GRU", [x, *weights, "", "h"], 2, hidden_size=8)
    return d.model(
        {"x": (FLOAT, ["a", "b", 6]), "h": (FLOAT, [1, "a", 8])}, {y: FLOAT, last: FLOAT}
    )


def masked() -> onnx.ModelProto:
    """Words and their mask, whose axes have different names in torch."""
    d = Draft(48)
    mask = d.node("Unsqueeze", ["mask", d.constant([1, 2], np.int64)])
    x, _, _ = attention(d, d.node("Gather", [d.weight(20, 32), "ids"]), None, mask)
    return d.model({"ids": (INT64, ["s10", "s21"]), "mask": (FLOAT, ["s12", "s86"])}, {x: FLOAT})


def indexed_mask() -> onnx.ModelProto:
    """A mask that is indexed by row and column numbers, as transformers exports it."""
    d = Draft(49)
    none, one = d.constant(0, np.int64), d.constant(1, np.int64)
    numbers = []
    for axis in (0, 1):
        count = d.node("Squeeze", [d.extent("mask", axis)])
        shape = [-1 if i == 3 * axis else 1 for i in range(4)]
        number = d.node("Range", [none, count, one])
        numbers.append(d.node("Reshape", [number, d.constant(shape, np.int64)]))
    first = d.node("Mul", [numbers[0], d.extent("mask", 1)])
    flat = d.node("Reshape", ["mask", d.constant([-1], np.int64)])
    mask = d.node("Gather", [flat, d.node("Add", [first, numbers[1]])])
    x, _, _ = attention(d, d.node("Gather", [d.weight(20, 32), "ids"]), None, mask)
    return d.model({"ids": (INT64, ["a", "b"]), "mask": (FLOAT, ["a", "b"])}, {x: FLOAT})


def heads_as_rows() -> onnx.ModelProto:
    """Attention with heads folded into the batch, with extents computed for each Reshape."""
    d = Draft(50)
    x = d.node("Gather", [d.weight(20, 32), "ids"])
    length, inferred, four = d.extent(x, 1), d.constant([-1], np.int64), d.constant([4], np.int64)
    apart = d.node("Concat", [d.extent(x, 0), length, four, inferred], axis=0)
    heads = d.node("Reshape", [d.node("MatMul", [x, d.weight(32, 32)]), apart])
    rows = d.node("Concat", [inferred, length, d.extent(heads, 3)], axis=0)
    q = d.node("Reshape", [d.node("Transpose", [heads], perm=[0, 2, 1, 3]), rows])
    scores = d.node("MatMul", [q, d.node("Transpose", [q], perm=[0, 2, 1])])
    split = d.node("Concat", [inferred, four, length, length], axis=0)
    mask = d.node("Unsqueeze", ["mask", d.constant([1, 2], np.int64)])
    scores = d.node("Add", [d.node("Reshape", [scores, split]), mask])
    merged = d.node("Concat", [inferred, length, length], axis=0)
    seen = d.node("MatMul", [d.node("Reshape", [d.node("Softmax", [scores]), merged]), q])
    split = d.node("Concat", [inferred, four, length, d.extent(heads, 3)], axis=0)
    seen = d.node("Transpose", [d.node("Reshape", [seen, split])], perm=[0, 2, 1, 3])
    whole = d.node("Concat", [d.extent(seen, 0), d.extent(seen, 1), inferred], axis=0)
    y = d.node("MatMul", [d.node("Reshape", [seen, whole]), d.weight(32, 32)])
    return d.model({"ids": (INT64, ["t", "u"]), "mask": (FLOAT, ["t", "u"])}, {y: FLOAT})


def words_as_rows() -> onnx.ModelProto:
    """A matmul over all words of a batch, between two operators that separate words of a row."""
    d = Draft(51)
    mask = d.node("Unsqueeze", ["mask", d.constant([1, 2], np.int64)])
    x, _, _ = attention(d, d.node("Gather", [d.weight(20, 32), "ids"]), None, mask)
    wide = d.node("Reshape", [x, d.node("Concat", [d.extent(x, 0), d.extent(x, 1),
                              d.constant([4, -1], np.int64)], axis=0)])  # fmt: skip
    x = d.node("Reshape", [wide, d.node("Concat", [d.extent(wide, 0), d.extent(wide, 1),
                           d.constant([-1], np.int64)], axis=0)])  # fmt: skip
    rows = d.node("Concat", [d.constant([-1], np.int64), d.extent(x, 2)], axis=0)
    y = d.node("Gemm", [d.node("Reshape", [x, rows]), d.weight(32, 16), d.weight(16)])
    back = d.node("Concat", [d.extent(x, 0), d.extent(x, 1), d.constant([16], np.int64)], axis=0)
    return d.model({"ids": (INT64, ["k", "n"]), "mask": (FLOAT, ["k", "n"])},
                   {d.node("Reshape", [y, back]): FLOAT})  # fmt: skip


def counted_rows() -> onnx.ModelProto:
    """A number of rows that is computed as a product and split by division; length first."""
    d = Draft(52)
    x = d.node("Transpose", ["x"], perm=[1, 0, 2])
    first, second = (d.constant([n], np.int64) for n in (0, 2))
    count = d.node("ReduceProd", [d.node("Slice", [d.node("Shape", [x]), first, second])])
    rows = d.node("Reshape", [x, d.node("Concat", [count, d.constant([8], np.int64)], axis=0)])
    rows = d.node("Relu", [d.node("Gemm", [rows, d.weight(8, 8)])])
    length = d.node("Div", [count, d.extent(x, 0)])
    minus, eight = d.constant([-1], np.int64), d.constant([8], np.int64)
    x = d.node("Reshape", [rows, d.node("Concat", [minus, length, eight], axis=0)])
    scores = d.node("MatMul", [x, d.node("Transpose", [x], perm=[0, 2, 1])])
    return d.model({"x": (FLOAT, ["n", "seq", 8])}, {d.node("Softmax", [scores]): FLOAT})


def turned_words() -> onnx.ModelProto:
    """An embedding lookup with the length first."""
    d = Draft(53)
    x = d.node("Gather", [d.weight(20, 8), d.node("Transpose", ["ids"], perm=[1, 0])])
    weights = [d.weight(1, 32, 8), d.weight(1, 32, 8), d.weight(1, 64)]
    y, last, _ = d.node("LSTM", [x, *weights], 3, hidden_size=8)
    return d.model({"ids": (INT64, ["seq", "rows"])}, {y: FLOAT, last: FLOAT})


def pooled_words() -> onnx.ModelProto:
    """Pairs of words averaged by an image pooling over one feature."""
    d = Draft(54)
    x = d.node("Gather", [d.weight(20, 8), "ids"])
    x = d.node("Unsqueeze", [x, d.constant([1], np.int64)])
    x = d.node("AveragePool", [x], kernel_shape=[2, 1], strides=[2, 1])
    return d.model({"ids": (INT64, ["w", "h"])}, {x: FLOAT})


def branches() -> onnx.ModelProto:
    """An If with two bodies that use the axes of an image."""
    d = Draft(25)
    bodies = {}
    for name, kernel in (("then_branch", 3), ("else_branch", 5)):
        inner = Draft(26, prefix=name)
        y = inner.node("Conv", ["x", inner.weight(2, 1, kernel, kernel)], pads=[kernel // 2] * 4)
        result = helper.make_tensor_value_info(y, FLOAT, None)
        bodies[name] = helper.make_graph(inner.nodes, name, [], [result], inner.weights)
    y = d.node("If", ["large"], **bodies)
    return d.model({"x": (FLOAT, ["q", 1, "r", "s"]), "large": (onnx.TensorProto.BOOL, [])},
                   {y: FLOAT})  # fmt: skip


def _sizes(**sizes: tuple[int, int, int]) -> list[dict[str, int]]:
    return [dict(zip(sizes, each)) for each in zip(*sizes.values())]


NETWORKS = {
    "picture": DynamicNetwork(
        picture, {"height": (1, 8), "s53": (8, 640), "seq": (8, 640)},
        _sizes(height=(1, 8, 3), s53=(8, 64, 237), seq=(640, 9, 51)),
        {"x": ["height", 3, "s53", "seq"]},
    ),
    "skip": DynamicNetwork(
        skip, {"x_0": (1, 8), "x_2": (8, 640), "x_3": (8, 640)},
        _sizes(n=(1, 8, 3), h=(8, 64, 320), w=(640, 8, 48)), {"x": ["n", 2, "h", "w"]},
    ),
    "enlarged": DynamicNetwork(
        enlarged, {"batch": (1, 8), "n": (5, 640), "b": (5, 640)},
        _sizes(batch=(1, 8, 2), n=(5, 33, 640), b=(6, 50, 40)), {"x": ["batch", 1, "n", "b"]},
    ),
    "words": DynamicNetwork(
        words, {"height": (1, 8), "width": (1, 40)},
        _sizes(height=(1, 8, 3), width=(1, 40, 17)),
        {"ids": ["height", "width"], "mask": ["height", "width"]}, 50,
    ),
    "cached": DynamicNetwork(
        cached, {"s0": (1, 8), "w": (1, 512), "h": (0, 512)},
        _sizes(s0=(1, 8, 2), w=(1, 5, 300), h=(0, 44, 512)),
        {"x": ["s0", "w", 32], "mask": ["s0", 1, "w", "h + w"],
         "k": ["s0", 4, "h", 8], "v": ["s0", 4, "h", 8]},
    ),
    "recurrent": DynamicNetwork(
        recurrent, {"batch": (1, 512), "seq": (1, 8)},
        _sizes(batch=(1, 512, 33), seq=(1, 2, 8)), {"x": ["batch", "seq", 6]},
    ),
    "sound": DynamicNetwork(
        sound, {"b": (1, 8), "height": (16, 160_000)},
        _sizes(b=(1, 8, 1), height=(16, 1600, 160_000)), {"x": ["b", "height"]},
    ),
    "frames": DynamicNetwork(
        frames, {"c": (1, 8), "samples": (1, 512)},
        _sizes(c=(1, 8, 3), samples=(1, 512, 77)), {"x": ["c", 10, "samples"]},
    ),
    "points": DynamicNetwork(
        points, {"width": (1, 8), "batch": (1, 512)},
        _sizes(width=(1, 8, 3), batch=(1, 512, 77)), {"x": ["width", "batch", 3]},
    ),
    "rows": DynamicNetwork(
        rows, {"sequence_length": (1, 8)},
        _sizes(sequence_length=(1, 8, 5)), {"x": ["sequence_length", 6]},
    ),
    "volume": DynamicNetwork(
        volume, {"n": (1, 8), "a": (2, 128), "b": (2, 128), "c": (2, 128)},
        _sizes(n=(1, 8, 2), a=(2, 9, 128), b=(3, 8, 2), c=(20, 11, 7)),
        {"x": ["n", 1, "a", "b", "c"]},
    ),
    "multiples": DynamicNetwork(
        multiples, {"n": (1, 8), "k": (1, 160), "m": (1, 160)},
        _sizes(n=(1, 8, 2), k=(1, 16, 160), m=(9, 160, 1)), {"x": ["n", 2, "4*k", "4*m"]},
    ),
    "matching": DynamicNetwork(
        matching, {"s0": (1, 8), "s1": (1, 512)},
        _sizes(s0=(1, 8, 3), s1=(1, 512, 77)), {"a": ["s0", "s1", 6], "b": ["s0", "s1", 6]},
    ),
    "fixed_rows": DynamicNetwork(
        fixed_rows, {"n": (1, 8), "t": (39, 40)},
        _sizes(n=(1, 8, 3), t=(39, 40, 40)), {"x": ["n", 4, "t"]},
    ),
    "patches": DynamicNetwork(
        patches, {"a": (1, 8), "b": (224, 224), "c": (224, 224)},
        _sizes(a=(1, 8, 3)), {"x": ["a", 3, 224, 224]},
    ),
    "length_first": DynamicNetwork(
        length_first, {"batch": (1, 512), "seq": (1, 8)},
        _sizes(batch=(1, 512, 77), seq=(1, 2, 8)), {"x": ["batch", "seq", 32]},
    ),
    "edges": DynamicNetwork(
        edges, {"batch": (1, 512), "h": (1, 512)},
        _sizes(batch=(9, 512, 77), h=(1, 200, 512)), {"x": ["batch", 6], "e": [2, "h"]}, 9,
    ),
    "windows": DynamicNetwork(
        windows, {"n": (1, 8), "h": (28, 616), "w": (28, 616)},
        _sizes(n=(1, 8, 3), h=(28, 56, 616), w=(616, 28, 84)), {"x": ["n", 3, "h", "w"]},
    ),
    "with_state": DynamicNetwork(
        with_state, {"a": (1, 8), "b": (1, 512)},
        _sizes(a=(1, 8, 3), b=(1, 77, 512)), {"x": ["a", "b", 6], "h": [1, "a", 8]},
    ),
    "masked": DynamicNetwork(
        masked, {"s10": (1, 8), "s21": (1, 512)},
        _sizes(s=(1, 8, 3), t=(1, 77, 512)), {"ids": ["s", "t"], "mask": ["s", "t"]}, 20,
    ),
    "indexed_mask": DynamicNetwork(
        indexed_mask, {"a": (1, 8), "b": (1, 512)},
        _sizes(a=(1, 8, 3), b=(1, 77, 512)), {"ids": ["a", "b"], "mask": ["a", "b"]}, 20,
    ),
    "heads_as_rows": DynamicNetwork(
        heads_as_rows, {"t": (1, 8), "u": (1, 512)},
        _sizes(a=(1, 8, 3), b=(1, 77, 200)), {"ids": ["a", "b"], "mask": ["a", "b"]}, 20,
    ),
    "words_as_rows": DynamicNetwork(
        words_as_rows, {"k": (1, 8), "n": (1, 512)},
        _sizes(a=(1, 8, 3), b=(1, 77, 200)), {"ids": ["a", "b"], "mask": ["a", "b"]}, 20,
    ),
    "counted_rows": DynamicNetwork(
        counted_rows, {"n": (1, 512), "seq": (1, 8)},
        _sizes(a=(1, 77, 200), b=(1, 8, 3)), {"x": ["a", "b", 8]},
    ),
    "turned_words": DynamicNetwork(
        turned_words, {"seq": (1, 8), "rows": (1, 512)},
        _sizes(a=(1, 8, 3), b=(1, 77, 200)), {"ids": ["a", "b"]}, 20,
    ),
    "pooled_words": DynamicNetwork(
        pooled_words, {"w": (1, 8), "h": (2, 512)},
        _sizes(a=(1, 8, 3), b=(2, 77, 512)), {"ids": ["a", "b"]}, 20,
    ),
    "numbered_windows": DynamicNetwork(
        numbered_windows, {"n": (1, 8), "h": (256, 256), "w": (256, 256)},
        _sizes(n=(1, 8, 3)), {"x": ["n", 3, 256, 256]},
    ),
    "first_picture": DynamicNetwork(
        first_picture, {"length": (1, 8), "u": (2, 640), "v": (2, 640)},
        _sizes(n=(1, 8, 3), h=(2, 64, 237), w=(640, 9, 51)), {"x": ["n", 3, "h", "w"]},
    ),
}  # fmt: skip
