"""One-layer ONNX networks for the layers of ``layer_shapes.py``, in float32 and int8."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 17
QUANTIZED = {"Conv", "MatMul", "Gemm"}  # operators with quantised weights
FUSED = {"Relu", "Clip"}  # quantised together with the operator before
INT8_KINDS = {
    "conv", "pool", "global_pool", "gemm", "matmul", "squeeze_excite", "elementwise", "concat",
    "resize", "conv_transpose", "transpose", "attention", "reduce",
}  # fmt: skip


class Network:
    """Nodes and weights of a network; :meth:`op` appends a node and returns its result."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: dict[str, tuple[tuple[int, ...], int]] = {}
        self.weights: dict[str, np.ndarray] = {}
        self.rng = np.random.default_rng(1)

    def input(self, *shape: int, dtype: int = onnx.TensorProto.FLOAT) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (shape, dtype)
        return name

    def weight(self, *shape: int) -> str:
        """Return a random weight; each output has a variance of about 1."""
        scale = max(np.prod(shape[1:] if len(shape) > 2 else shape[:1]), 1) ** -0.5
        return self.const((self.rng.normal(0, 1, shape) * scale).astype(np.float32))

    def const(self, value: Any) -> str:
        array = np.asarray(value)
        name = f"w{len(self.weights)}"
        self.weights[name] = array.astype(np.float32) if array.dtype == np.float64 else array
        return name

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = [f"y{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0]

    def model(self, result: str, elem_type: int = onnx.TensorProto.FLOAT) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(name, dtype, shape)
            for name, (shape, dtype) in self.inputs.items()
        ]
        # the checker infers the shape
        outputs = [helper.make_tensor_value_info(result, elem_type, None)]
        tensors = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "layer", inputs, outputs, tensors)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        return onnx.shape_inference.infer_shapes(model)


def activate(net: Network, x: str, act: str) -> str:
    """Append an activation in the form in which frameworks export it."""
    if act == "silu":
        return net.op("Mul", x, net.op("Sigmoid", x))
    if act == "quick_gelu":
        return net.op("Mul", x, net.op("Sigmoid", net.op("Mul", x, net.const(1.702))))
    if act == "gelu":
        erf = net.op("Erf", net.op("Div", x, net.const(2**0.5)))
        return net.op("Mul", net.op("Mul", x, net.op("Add", erf, net.const(1.0))), net.const(0.5))
    if act == "gelu_tanh":
        cube = net.op("Mul", net.op("Pow", x, net.const(3.0)), net.const(0.044715))
        tanh = net.op("Tanh", net.op("Mul", net.op("Add", x, cube), net.const(0.7978845608)))
        half = net.op("Mul", x, net.const(0.5))
        return net.op("Mul", half, net.op("Add", tanh, net.const(1.0)))
    if act == "Clip":
        return net.op("Clip", x, net.const(0.0), net.const(6.0))
    if act == "HardSigmoid":
        return net.op("HardSigmoid", x, alpha=1 / 6)
    return net.op(act, x) if act else x


def image(channels: int, size: int | tuple[int, int]) -> tuple[int, int, int, int]:
    return (1, channels, *(size if isinstance(size, tuple) else (size, size)))


def conv(net, cin, cout, k, stride, size, act, group, dilation):
    rows = stride if k[0] > 1 or k[1] == 1 else 1
    shape = image(cin, size)
    if size[0] == 1:  # of a sequence
        k, shape, strides = k[1:], (1, cin, size[1]), [stride]
    else:
        strides = [rows, stride if k[1] > 1 or k[0] == 1 else 1]
    both = [(n - 1) * dilation for n in k]
    pads = [n // 2 for n in both] + [n - n // 2 for n in both]
    if stride >= max(k) or k[-1] == shape[-1]:
        pads = [0] * 2 * len(k)
    y = net.op("Conv", net.input(*shape), net.weight(cout, cin // group, *k), net.weight(cout),
               strides=strides, pads=pads, group=group, dilations=[dilation] * len(k))  # fmt: skip
    return activate(net, y, act)


def conv_transpose(net, cin, cout, k, stride, size, act):
    pad = [(k - stride) // 2] * 2 + [(k - stride + 1) // 2] * 2
    y = net.op("ConvTranspose", net.input(*image(cin, size)), net.weight(cin, cout, k, k),
               net.weight(cout), strides=[stride] * 2, pads=pad)  # fmt: skip
    return activate(net, y, act)


def conv_transpose_1d(net, cin, cout, k, stride, size, act):
    y = net.op("ConvTranspose", net.input(1, cin, size), net.weight(cin, cout, k), net.weight(cout),
               strides=[stride], pads=[(k - stride) // 2] * 2)  # fmt: skip
    return activate(net, y, act)


def pool(net, kind, channels, k, stride, size):
    pads = [(k - 1) // 2] * 4 if k % 2 else [0] * 4
    attributes = {"kernel_shape": [k, k], "strides": [stride, stride], "pads": pads}
    return net.op(kind, net.input(*image(channels, size)), **attributes)


def global_pool(net, channels, size):
    return net.op("GlobalAveragePool", net.input(*image(channels, size)))


def gemm(net, rows, k, n, act):
    y = net.op("Gemm", net.input(rows, k), net.weight(n, k), net.weight(n), transB=1)
    return activate(net, y, act)


def matmul(net, rows, k, n, act):
    y = net.op("MatMul", net.input(1, rows, k), net.weight(k, n))
    return activate(net, net.op("Add", y, net.weight(n)), act)


def batch_matmul(net, batch, m, k, n):
    return net.op("MatMul", net.input(batch, m, k), net.input(batch, k, n))


def attention(net, heads, queries, keys, depth):
    q, k, v = (net.input(1, heads, n, depth) for n in (queries, keys, keys))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Mul", scores, net.const(depth**-0.5))
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), v)


def squeeze_excite(net, channels, squeezed, size, gate):
    x = net.input(*image(channels, size))
    y = net.op("GlobalAveragePool", x)
    y = net.op("Conv", y, net.weight(squeezed, channels, 1, 1), net.weight(squeezed))
    y = activate(net, y, "silu" if gate == "Sigmoid" else "Relu")
    y = net.op("Conv", y, net.weight(channels, squeezed, 1, 1), net.weight(channels))
    return net.op("Mul", activate(net, y, gate), x)


def elementwise(net, kind, channels, size):
    size = size if isinstance(size, tuple) else (size, size)
    shape = (1, channels, *size) if size[0] > 1 else (*size, channels)
    x = net.input(*shape)
    if kind in ("add", "add_relu"):
        y = net.op("Add", x, net.input(*shape))
        return y if kind == "add" else net.op("Relu", y)
    if kind == "norm_relu":
        scale, shift = (net.const(net.rng.normal(1, 0.1, (channels, 1, 1))) for _ in range(2))
        return net.op("Relu", net.op("Add", net.op("Mul", x, scale), shift))
    if kind.startswith("gated"):
        return net.op("Mul", activate(net, x, kind.removeprefix("gated_")), net.input(*shape))
    if kind == "glu":
        return net.op("Mul", x, net.op("Sigmoid", net.input(*shape)))
    return activate(net, x, {"hard_swish": "HardSwish", "sigmoid": "Sigmoid"}.get(kind, kind))


def layer_norm(net, rows, width):
    x = net.input(1, rows, width)
    return net.op("LayerNormalization", x, net.weight(width), net.weight(width), epsilon=1e-5)


def rms_norm(net, rows, width):
    x = net.input(1, rows, width)
    mean = net.op("ReduceMean", net.op("Mul", x, x), axes=[-1], keepdims=1)
    root = net.op("Sqrt", net.op("Add", mean, net.const(1e-6)))
    return net.op("Mul", net.op("Div", x, root), net.weight(width))


def group_norm(net, channels, groups, size):
    shape = image(channels, size)
    x = net.op("Reshape", net.input(*shape), net.const(np.array([1, groups, -1])))
    ones, zeros = net.const(np.ones(groups)), net.const(np.zeros(groups))
    x = net.op("InstanceNormalization", x, ones, zeros)
    x = net.op("Reshape", x, net.const(np.array(shape)))
    scale, shift = (net.const(net.rng.normal(1, 0.1, (channels, 1, 1))) for _ in range(2))
    return net.op("Add", net.op("Mul", x, scale), shift)


def softmax(net, rows, width):
    return net.op("Softmax", net.input(rows, width), axis=-1)


def resize(net, mode, channels, size, factor):
    scales = net.const(np.array([1, 1, factor, factor], np.float32))
    rules = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if mode == "linear":
        rules = {"coordinate_transformation_mode": "half_pixel"}
    return net.op("Resize", net.input(*image(channels, size)), "", scales, mode=mode, **rules)


def reduce(net, kind, shape, axis):
    rules = {"axis": axis} if kind == "ArgMax" else {"axes": [axis]}
    return net.op(kind, net.input(*shape), keepdims=0, **rules)


def concat(net, first, second, size):
    return net.op("Concat", *(net.input(*image(c, size)) for c in (first, second)), axis=1)


def transpose(net, shape, perm):
    return net.op("Transpose", net.input(*shape), perm=list(perm))


def channel_shuffle(net, channels, groups, size):
    split = net.const(np.array([1, groups, channels // groups, size, size]))
    x = net.op("Reshape", net.input(*image(channels, size)), split)
    x = net.op("Transpose", x, perm=[0, 2, 1, 3, 4])
    return net.op("Reshape", x, net.const(np.array(image(channels, size))))


def depth_to_space(net, channels, factor, size):
    return net.op("DepthToSpace", net.input(*image(channels, size)), blocksize=factor, mode="CRD")


def space_to_depth(net, channels, size):
    return net.op("SpaceToDepth", net.input(*image(channels, size)), blocksize=2)


def gather(net, rows, width, count):
    table = net.weight(rows, width)
    return net.op("Gather", table, net.input(1, count, dtype=onnx.TensorProto.INT64))


def recurrent(net, kind, steps, width, hidden, directions):
    gates = {"LSTM": 4, "GRU": 3}[kind] * hidden
    x = net.input(steps, 1, width)
    weights = [net.weight(directions, gates, n) for n in (width, hidden)]
    bias = net.weight(directions, 2 * gates)
    rules = {"direction": "bidirectional"} if directions == 2 else {}
    return net.op(kind, x, *weights, bias, hidden_size=hidden, **rules)


def float_network(layer: tuple) -> onnx.ModelProto:
    """Return the network of a layer, with random weights."""
    net = Network()
    make: Callable[..., str] = globals()[layer[0]]
    result = make(net, *layer[1:])
    return net.model(result, onnx.TensorProto.INT64 if "ArgMax" in layer else 1)


def _weight_to_int8(array: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Quantise a weight symmetrically for each index of an axis."""
    rest = tuple(i for i in range(array.ndim) if i != axis)
    scale = (np.abs(array).max(rest) / 127).astype(np.float32)
    shape = [-1 if i == axis else 1 for i in range(array.ndim)]
    return np.round(array / scale.reshape(shape)).astype(np.int8), scale


def quantized_network(model: onnx.ModelProto, dtype: type) -> onnx.ModelProto:
    """Return the network with int8 inputs, outputs and weights in QDQ form.

    ``dtype``: type of activations. ``np.uint8`` is onnxruntime's convention (asymmetric),
    ``np.int8`` that of TensorFlow Lite and of accelerators.
    """
    net, initializers = Network(), {t.name: t for t in model.graph.initializer}
    low, zero = (0, 128) if dtype == np.uint8 else (-128, 0)
    positive = {node.output[0] for node in model.graph.node if node.op_type in FUSED}

    def parameters(name: str) -> tuple[str, str]:
        wide = 3.0 / 127
        point = low if name in positive else zero
        return net.const(np.float32(wide)), net.const(np.array(point, dtype))

    def dequantized_weight(name: str, node: onnx.NodeProto) -> str:
        array = numpy_helper.to_array(initializers[name])
        if array.dtype != np.float32 or node.op_type not in QUANTIZED:
            return net.const(array)
        if name == node.input[1]:
            axis = array.ndim - 1 if node.op_type == "MatMul" else 0
            values, scale = _weight_to_int8(array, axis)
            zeros = net.const(np.zeros(scale.shape, np.int8))
            return net.op("DequantizeLinear", net.const(values), net.const(scale), zeros, axis=axis)
        return net.const(array)

    names: dict[str, str] = {}
    kind = onnx.TensorProto.UINT8 if dtype == np.uint8 else onnx.TensorProto.INT8
    for given in model.graph.input:
        shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
        x = net.input(*shape, dtype=kind)
        names[given.name] = net.op("DequantizeLinear", x, *parameters(given.name))
    uses = [name for node in model.graph.node for name in node.input]
    following = {node.input[0]: node.op_type for node in model.graph.node}
    for node in model.graph.node:
        inputs = [names.get(n) or (n and dequantized_weight(n, node)) for n in node.input]
        rules = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        y = net.op(node.op_type, *inputs, **rules)
        name = node.output[0]
        fuses = uses.count(name) == 1 and following.get(name) in FUSED
        if not fuses and node.op_type != "ArgMax":
            y = net.op("QuantizeLinear", y, *parameters(name))
            if name != model.graph.output[0].name:
                y = net.op("DequantizeLinear", y, *parameters(name))
        names[name] = y
    return net.model(y, onnx.TensorProto.INT64 if node.op_type == "ArgMax" else kind)
