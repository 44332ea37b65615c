"""Small networks that together use all families of operators."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx_graph import model
from small_network import small_network

node = helper.make_node


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def shapes() -> onnx.ModelProto:
    """Return a network that moves, joins and slices tensors."""
    nodes = [
        node("Transpose", ["x"], ["transposed"], perm=[0, 2, 3, 1]),
        node("Reshape", ["transposed", "shape"], ["table"]),
        node("Slice", ["table", "zero", "four", "zero"], ["part"]),
        node("Concat", ["part", "part"], ["joined"], axis=1),
        node("Gather", ["joined", "places"], ["picked"], axis=0),
        node("Pad", ["picked", "pads"], ["padded"]),
        node("Split", ["padded", "sizes"], ["left", "right"], axis=1),
        node("Unsqueeze", ["left", "zero"], ["longer"]),
        node("Squeeze", ["longer", "zero"], ["shorter"]),
        node("Flatten", ["shorter"], ["flat"], axis=1),
        node("Cast", ["flat"], ["whole"], to=TensorProto.INT32),
        node("Expand", ["whole", "wide"], ["y"]),
    ]
    weights = {
        "shape": _ints(6, 4),
        "zero": _ints(0),
        "four": _ints(4),
        "places": _ints(0, 2, -1),
        "pads": _ints(1, 0, 1, 1),
        "sizes": _ints(4, 5),
        "wide": _ints(2, 5, 4),
    }
    return model(nodes, {"x": _floats(1, 2, 3, 4)}, ["y"], weights)


def recurrences() -> onnx.ModelProto:
    """Return a bidirectional LSTM and a GRU."""
    hidden = 3
    nodes = [
        node("LSTM", ["x", "w", "r", "b"], ["all", "last", "cell"], hidden_size=hidden,
             direction="bidirectional"),
        node("GRU", ["x", "w2", "r2"], ["z", ""], hidden_size=hidden),
        node("ReduceSum", ["all", "axis"], ["y"], keepdims=0),
    ]  # fmt: skip
    weights = {
        "w": _floats(2, 4 * hidden, 2),
        "r": _floats(2, 4 * hidden, hidden),
        "b": _floats(2, 8 * hidden),
        "w2": _floats(1, 3 * hidden, 2),
        "r2": _floats(1, 3 * hidden, hidden),
        "axis": _ints(1),
    }
    return model(nodes, {"x": _floats(4, 1, 2)}, ["y", "z"], weights)


def quantized_images() -> onnx.ModelProto:
    """Return a uint8 convolution, pooling, resize, a transposed convolution."""
    scale = ["s", "z"]
    nodes = [
        node("QuantizeLinear", ["x", *scale], ["q"]),
        node("QLinearConv", ["q", *scale, "w", *scale, *scale, "b"], ["c"], pads=[1] * 4),
        node("MaxPool", ["c"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        node("DequantizeLinear", ["m", *scale], ["d"]),
        node("GlobalAveragePool", ["d"], ["mean"]),
        node("Resize", ["d", "", "factors"], ["larger"], mode="linear"),
        node("ConvTranspose", ["larger", "wt"], ["y"], strides=[2, 2]),
    ]
    weights = {
        "s": np.float32(0.1),
        "z": np.uint8(3),
        "w": np.random.default_rng(2).integers(0, 255, (4, 2, 3, 3), np.uint8),
        "b": np.zeros(4, np.int32),
        "factors": np.array([1, 1, 2, 2], np.float32),
        "wt": _floats(4, 2, 2, 2),
    }
    return model(nodes, {"x": _floats(1, 2, 6, 6)}, ["y", "mean"], weights)


def choices() -> onnx.ModelProto:
    """Return control flow, sorting, comparison, normalisation."""

    def branch(op: str, name: str) -> onnx.GraphProto:
        value = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3])
        return helper.make_graph([node(op, ["x", "x"], [name])], name, [], [value])

    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Greater", ["most", "zero"], ["positive"]),
        node("If", ["positive"], ["chosen"], then_branch=branch("Add", "sum"),
             else_branch=branch("Mul", "square")),
        node("Softmax", ["chosen"], ["shares"], axis=-1),
        node("TopK", ["shares", "two"], ["values", "places"]),
        node("ArgMax", ["shares"], ["best"], axis=1),
        node("Where", ["positive", "values", "values"], ["same"]),
        node("MatMul", ["same", "w"], ["product"]),
        node("LayerNormalization", ["product", "ones"], ["normal"]),
        node("CumSum", ["normal", "last"], ["running"]),
        node("OneHot", ["best", "depth", "off_on"], ["hot"]),
        node("Tile", ["running", "repeats"], ["y"]),
    ]  # fmt: skip
    weights = {
        "zero": np.float32(0),
        "two": _ints(2),
        "w": _floats(2, 4),
        "ones": np.ones(4, np.float32),
        "last": np.array(1),
        "depth": np.array(3),
        "off_on": np.array([0, 1], np.float32),
        "repeats": _ints(2, 1),
    }
    return model(nodes, {"x": _floats(2, 3)}, ["y", "hot", "places"], weights)


def rearrangements() -> onnx.ModelProto:
    """Return Einsum, normalisation, pooling, scatter, gather, blocks, generated tables."""
    nodes = [
        node("Einsum", ["x", "w"], ["e"], equation="bij,jk->bik"),
        node("InstanceNormalization", ["e", "ones", "zeros"], ["n"]),
        node("PRelu", ["n", "slopes"], ["p"]),
        node("Clip", ["p", "low", "high"], ["c"]),
        node("AveragePool", ["c"], ["a"], kernel_shape=[2], auto_pad="SAME_UPPER"),
        node("ScatterND", ["a", "places", "updates"], ["s"]),
        node("GatherElements", ["s", "elements"], ["g"], axis=2),
        node("Trilu", ["g"], ["y"]),
        node("DepthToSpace", ["d"], ["spread"], blocksize=2),
        node("SpaceToDepth", ["spread"], ["gathered"], blocksize=2),
        node("Range", ["from", "to", "by"], ["numbers"]),
        node("ConstantOfShape", ["shape"], ["filled"]),
        node("Shape", ["x"], ["extents"]),
    ]
    weights = {
        "w": _floats(4, 5),
        "ones": np.ones(3, np.float32),
        "zeros": np.zeros(3, np.float32),
        "slopes": _floats(3, 1),
        "low": np.float32(-1),
        "high": np.float32(1),
        "places": _ints(0, 1).reshape(1, 2),
        "updates": _floats(1, 5),
        "elements": np.zeros((2, 3, 2), np.int64),
        "from": np.array(0),
        "to": np.array(5),
        "by": np.array(1),
        "shape": _ints(2, 2),
    }
    inputs = {"x": _floats(2, 3, 4), "d": _floats(1, 4, 2, 2)}
    return model(nodes, inputs, ["y", "gathered", "numbers", "filled", "extents"], weights)


def varied_networks() -> dict[str, onnx.ModelProto]:
    """Return the networks by name."""
    makers = (small_network, shapes, recurrences, quantized_images, choices, rearrangements)
    return {make.__name__: make() for make in makers}
