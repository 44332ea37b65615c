"""Quantised layers: products of integers between conversions, with one rounding at their end.

A product of dequantised operands whose result, after bounds, is quantised stands for
``clamp(round(sum * scale) + zero)`` of the exact integer sum: in float32, with ties to even and the
bias as an integer. That is what integer kernels promise, so such nodes are printed as one function.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tvmrt.compiler.sdk.arithmetic import to_integers
from tvmrt.compiler.sdk.graph import Graph, Node, Value

from .code import NodeCode
from .products import conv_sum, matmul_sum

BIAS_ERROR = 0.01, 1 / 256  # of an integer bias at most, in units of the sum or steps of the result


@dataclass
class Layer:
    """A quantised layer; ``quantize`` is its last node, the others are in ``nodes``."""

    quantize: Node
    nodes: list[Node] = field(default_factory=list)
    limits: list[tuple[bool, float]] = field(default_factory=list)  # is it a lower one, in order
    bias: np.ndarray | None = None  # of an added constant

    @property
    def x(self) -> Node:
        return self.nodes[-1].inputs[0].producer

    @property
    def weights(self) -> Node:
        """The node, of no graph, that dequantises the weights."""
        return self.nodes[-1].inputs[1].producer

    def scales(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return the bias in units of the sum, the scale of the sum and the zero points of the
        weights, by channel; None if it is not a product of integers with one bias by channel."""
        product, w = self.nodes[-1], self.weights
        axis, result = (0, 1) if product.op == "conv" else (1, product.output.type.rank - 1)
        if product.op == "matmul" and w.output.type.rank != 2:
            return None
        channels = w.output.shape[axis]
        rows = [_by_channel(v.data, w.output.shape, axis) for v in w.inputs]
        if any((row != row[:, :1]).any() for row in rows[1:]):
            return None
        unit = (np.float32(self.x.inputs[1].data.reshape(())) * rows[1][:, 0]).astype(np.float32)
        bias = np.zeros(channels)
        shape = [channels if d == result else 1 for d in range(product.output.type.rank)]
        own = [v.data for v in product.inputs[2:] if v is not None]
        own = [row.reshape(shape) for row in own] if product.op == "conv" else own
        for row in own if self.bias is None else [*own, self.bias]:
            if [1] * (len(shape) - row.ndim) + list(row.shape) != shape:
                return None
            bias = bias + row.reshape(-1)
        free = (rows[0] == rows[2]).all(1) & (np.abs(bias) > 1e-30)  # only the bias counts there
        unit = np.where(free, np.ldexp(np.abs(bias), -20), unit).astype(np.float32)
        scale = (unit / self.quantize.inputs[1].data.reshape(())).astype(np.float32)
        exact = bias / unit.astype(np.float64)
        error = max(BIAS_ERROR[0], BIAS_ERROR[1] / scale.max())
        if not np.abs(np.rint(exact) - exact).max() <= error or np.abs(exact).max() >= 1 << 30:
            return None
        return to_integers(np.rint(exact), np.int64), scale, rows[2][:, 0].astype(np.int64)


def _by_channel(data: np.ndarray, shape: tuple[int, ...], axis: int) -> np.ndarray:
    return np.moveaxis(np.broadcast_to(data, shape), axis, 0).reshape(shape[axis], -1)


def find_layers(graph: Graph) -> dict[Node, Layer]:
    """Return the quantised layers by their last node."""
    readers = graph.consumers()
    shared = {v for v, nodes in readers.items() if len(nodes) > 1} | set(graph.outputs)
    found = {node: _layer(node, shared) for node in graph.nodes if node.op == "quantize"}
    return {node: layer for node, layer in found.items() if layer is not None}


def _layer(quantize: Node, shared: set[Value]) -> Layer | None:
    layer, value = Layer(quantize), quantize.inputs[0]
    if not _is_per_tensor(quantize) or quantize.output.dtype.bits != 8:
        return None
    while value not in shared and value.producer is not None:
        node = value.producer
        layer.nodes.append(node)
        if node.op in ("conv", "matmul"):
            return layer if _is_integer(node) and layer.scales() is not None else None
        computed = [v for v in node.inputs if not v.is_constant]
        constants = [v.data for v in node.inputs if v.is_constant]
        if len(computed) != 1 or computed[0].shape != value.shape or layer.bias is not None:
            return None
        if node.op == "add" and constants:
            layer.bias = constants[0].astype(np.float64)
        elif node.op in ("relu", "min", "max") and all(c.size == 1 for c in constants):
            limit = float(constants[0].reshape(())) if constants else 0.0
            layer.limits.append((node.op != "min", limit))
        else:
            return None
        value = computed[0]
    return None


def _is_per_tensor(node: Node) -> bool:
    return all(v.is_constant and v.type.size == 1 for v in node.inputs[1:])


def _is_integer(node: Node) -> bool:
    """Return whether a product is one of dequantised bytes and constant weights."""
    x, w = (v.producer for v in node.inputs[:2])
    if x is None or w is None or x.op != "dequantize" or w.op != "dequantize":
        return False
    constant = all(v.is_constant for v in (*node.inputs[1:], *w.inputs) if v is not None)
    return constant and _is_per_tensor(x) and {n.inputs[0].dtype.bits for n in (x, w)} == {8}


def print_layer(code: NodeCode, layer: Layer) -> None:
    scales = layer.scales()
    assert scales is not None
    for name, kind, row in zip(("bias", "scale", "w_zero"), ("int64_t", "float", "long"), scales):
        items = [f"{float(n)!r}f" if kind == "float" else str(n) for n in row]
        code.line(f"static const {kind} {name}[] = {{{', '.join(items)}}};")
    operands = [layer.x.inputs[0], layer.weights.inputs[0]]
    low, high, zero = _bounds(layer)
    is_conv = layer.nodes[-1].op == "conv"
    with code.loops(code.y.shape) as places:
        channel = places[1 if is_conv else -1]
        code.line(f"int64_t sum = bias[{channel}];")
        x_zero = int(layer.x.inputs[2].data.reshape(()))
        term = f"({{x}} - ({x_zero})) * ({{w}} - w_zero[{channel}])"
        (conv_sum if is_conv else matmul_sum)(code.inner(layer.nodes[-1], operands), places, term)
        code.store(places, f"ref_saturate((float)sum * scale[{channel}], {zero}, {low}, {high})")


def _bounds(layer: Layer) -> tuple[int, int, int]:
    """Return the bounds of the result, and its zero point."""
    _, scale, zero = (v.data.reshape(()) if v.is_constant else None for v in layer.quantize.inputs)
    info = np.iinfo(zero.dtype)
    low, high = int(info.min), int(info.max)
    for is_lower, limit in layer.limits:  # from last to first
        step = int(np.clip(np.rint(np.float32(limit) / scale) + int(zero), info.min, info.max))
        low = min(max(low, step), high) if is_lower else low
        high = high if is_lower else max(min(high, step), low)
    return low, high, int(zero)
