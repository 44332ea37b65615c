"""Cards of quantised 8-bit layers, and of operators with integer results.

Half of the cases have scales that are powers of two and small numbers: every sum and every product
with a scale is exact in float32, and many results are halfway between two integers. The others have
scales with all bits, zero points and weights over the whole ranges of their types.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from onnx import helper

from .case import Case
from .draw import TURNS, Draw, Quantity, single
from .float_cases import Card, convolution, window
from .reference import has_inner_doubt, run_model

BYTES = (np.int8, np.uint8)
SATURATED = 0.6  # largest part of the results at the limits of their type
TRIES = 30  # zero points and scales of a result, until most results are within its type


class QuantizedLayers:
    """Network of layers on dequantised tensors, each with a quantised result."""

    def __init__(self, draw: Draw, dtype: Any, exact: bool) -> None:
        self.draw, self.dtype, self.exact = draw, dtype, exact
        self.is_limit = not exact and draw.once_in(5)  # sums as large as possible
        self.case = Case("", [], {}, {}, (), exact)
        self.quantities: dict[str, Quantity] = {}

    def feed(self, name: str, *shape: int) -> str:
        """Add an input; exact ones have numbers around the zero point."""
        draw, quantity = self.draw, self.draw.quantity(self.dtype, self.exact)
        limits = np.iinfo(self.dtype)
        numbers = draw.elements(self.dtype, *shape)
        if self.exact:
            near = draw.rng.integers(-7, 8, shape) + quantity.zero
            numbers = np.clip(near, limits.min, limits.max).astype(self.dtype)
        elif self.is_limit:
            numbers = np.full(shape, limits.min if quantity.zero > limits.max / 2 else limits.max)
        self.case.feeds[name] = numbers.astype(self.dtype)
        return self._dequantized(name, quantity)

    def weights(self, name: str, shape: list[int], axis: int, moved: bool = False) -> str:
        """Add weights with one scale or one per channel, and zero points if ``moved``."""
        draw, count = self.draw, shape[axis]
        scale: Any = draw.scale(self.exact)
        if draw.once_in(2):
            scale = [draw.scale(self.exact) for _ in range(count)]
        dtype, zero = np.int8, 0
        if moved:
            dtype = np.uint8
            zero = draw.pick(draw.zero(dtype), 126)
            if np.ndim(scale):
                zero = [draw.small(120, 136) for _ in range(count)]
        numbers = draw.elements(dtype, *shape)
        if self.exact:
            each = np.reshape(zero, [-1 if i == axis else 1 for i in range(len(shape))])
            numbers = np.clip(draw.rng.integers(-4, 5, shape) + each, *_limits(dtype)).astype(dtype)
        elif self.is_limit:
            numbers = np.full(shape, draw.pick(-127, -128, 127), np.int8).astype(dtype)
        self.case.weights[name] = numbers
        return self._dequantized(name, Quantity(scale, zero, dtype), axis)

    def bias(self, name: str, x: str, w: str, count: int) -> str:
        """Add an int32 bias with the product of the scales of x and w."""
        parts = [np.asarray(self.quantities[name].scale, np.float32) for name in (x, w)]
        limit = 60 if self.exact else self.draw.pick(60, 30_000, 1_000_000)
        self.case.weights[name] = self.draw.rng.integers(-limit, limit + 1, count).astype(np.int32)
        scale = np.broadcast_to(parts[0] * parts[1], count).copy()
        return self._dequantized(name, Quantity(scale, 0, np.int32))

    def _dequantized(self, name: str, quantity: Quantity, axis: int = 0) -> str:
        scale, zero = quantity.parameters()
        self.quantities[name] = quantity
        self.case.weights[f"{name}_s"] = scale
        inputs = [name, f"{name}_s"]
        if quantity.dtype != np.int32:  # a bias has no zero point
            self.case.weights[f"{name}_z"] = zero
            inputs.append(f"{name}_z")
        extra = {"axis": axis} if scale.ndim else {}
        node = helper.make_node("DequantizeLinear", inputs, [f"{name}_f"], f"d_{name}", **extra)
        self.case.nodes.append(node)
        return f"{name}_f"

    def layer(
        self, op: str, inputs: list[str], y: str = "y", then: str = "",
        like: Quantity | None = None, last: bool = True, **attributes: Any,
    ) -> str:  # fmt: skip
        """Add an operator, and ``then`` another, and quantise the result, as ``like`` if given.
        Return the dequantised result, which there is not if it is the last."""
        names = [f"{y}_t", f"{y}_q"] if then else [f"{y}_q"]
        self.case.nodes.append(helper.make_node(op, inputs, names[:1], f"n_{y}", **attributes))
        if then:
            self.case.nodes.append(helper.make_node(then, names[:1], names[1:], f"t_{y}"))
        quantity = like or self._result_quantity(names[-1])
        self.case.weights[f"{y}_s"], self.case.weights[f"{y}_z"] = quantity.parameters()
        node = helper.make_node("QuantizeLinear", [names[-1], f"{y}_s", f"{y}_z"], [y], f"q_{y}")
        self.case.nodes.append(node)
        if last:
            self.case.outputs += (y,)
            return y
        return self._dequantized(y, quantity)

    def _result_quantity(self, name: str) -> Quantity:
        """Return scale and zero point for which most results are within the type."""
        case = Case("", self.case.nodes, self.case.feeds, self.case.weights, (name,))
        (numbers,) = run_model(case.model(), case.feeds)
        low, high = _limits(self.dtype)
        for _ in range(TRIES):
            spread = max(float(numbers.std()), float(np.abs(numbers).max()) / 8, 1e-6)
            scale = np.float32(spread / self.draw.rng.uniform(25, 75))
            if self.exact:
                products = [q.scale for q in self.quantities.values() if np.ndim(q.scale) == 0]
                step = float(np.prod(products[:2])) * 2.0 ** self.draw.small(0, 3)
                scale = np.float32(
                    step if step * 8 > spread / 64 else 2.0 ** np.round(np.log2(scale))
                )
            zero = self.draw.zero(self.dtype)
            steps = numbers / scale + zero
            if np.mean((steps <= low) | (steps >= high)) <= SATURATED:
                break
        else:
            zero = int(np.clip(np.round((low + high) / 2 - np.median(numbers) / scale), low, high))
        return Quantity(scale, zero, self.dtype)

    def finished(self, op: str, how: str) -> Case:
        """Return the network."""
        self.case.name = f"{op} of {np.dtype(self.dtype).name}: {how}"
        return self.case


def _limits(dtype: Any) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _convolution(draw: Draw, dtype: Any, op: str) -> Case:
    layers = QuantizedLayers(draw, dtype, draw.once_in(2))
    shape, w, attributes = convolution(draw)
    x = layers.feed("x", *shape)
    operands = [x, layers.weights("w", w, 0, moved=draw.once_in(5))]
    if draw.small(0, 3):
        operands.append(layers.bias("b", "x", "w", w[0]))
    layers.layer("Conv", operands, then=draw.pick("", "", "Relu"), **attributes)
    layers.case.opens = (0,)
    return layers.finished(
        "Conv", "depthwise" if w[1] == 1 and attributes["group"] > 1 else "window"
    )


def _matmul(draw: Draw, dtype: Any, op: str) -> Case:
    layers = QuantizedLayers(draw, dtype, draw.once_in(2))
    rows, inner, columns = draw.extents(3)
    if layers.is_limit:  # sums around the limits of 16 and 24 bits
        inner = draw.pick(2, 3, 259, 520, 1030)
    batch = [draw.small(2, 3)] if draw.once_in(4) and op == "MatMul" else []
    operands = [layers.feed("x", *batch, rows, inner)]
    if draw.once_in(8) and op == "MatMul":
        operands.append(layers.feed("z", *batch, inner, columns))
    else:
        moved = draw.once_in(5)
        operands.append(layers.weights("w", [inner, columns], 1, moved))
        layers.case.opens = (0,)
    if op == "Gemm":
        operands.append(layers.bias("b", "x", "w", columns))
    layers.layer(op, operands, then=draw.pick("", "", "Relu"))
    return layers.finished(op, "batches" if batch else "rows")


def _pair(draw: Draw, dtype: Any, op: str) -> Case:
    layers = QuantizedLayers(draw, dtype, draw.once_in(2))
    shape = draw.extents(draw.small(1, 4))
    if draw.turn == 3:
        shape = [draw.small(4), 1024 + draw.small(-1), draw.small(2)]
    operands = [layers.feed("x", *shape), layers.feed("z", *shape)]
    layers.layer(op, operands, then=draw.pick("", "", "Relu"))
    layers.case.opens = (0,)
    return layers.finished(op, "two tensors")


def _one(draw: Draw, dtype: Any, op: str) -> Case:
    layers = QuantizedLayers(draw, dtype, False)
    attributes: dict[str, Any] = {}
    channels, pixels = draw.extents(2)
    shape = [draw.small(1, 2), channels, draw.small(), pixels]
    if op.endswith("Pool"):
        covered, attributes = window(draw, 2, 3)
        attributes["pads"] = [p if op == "MaxPool" else 0 for p in attributes["pads"]]
        shape = [*shape[:2], *(c + draw.small(0, 5) for c in covered)]
        attributes.pop("dilations") if op == "AveragePool" else None
    if op == "Softmax":
        attributes["axis"] = draw.pick(-1, 1) if draw.turn else -1
        shape = shape[1:]
    x = layers.feed("x", *shape)
    like = layers.quantities["x"] if op in ("MaxPool", "Relu") or draw.turn == 0 else None
    if op == "Softmax" and draw.turn == 0:  # as quantisers choose
        like = Quantity(1 / 256, _limits(dtype)[0], dtype)
    layers.layer(op, [x], like=like, **attributes)
    return layers.finished(op, "one tensor")


def _integers(draw: Draw, op: str) -> Case:
    """Sums that stay integers, also at the limits of 16, 24 and 32 bits."""
    rows, inner, columns = draw.extents(3)
    shape, w, attributes = [rows, inner], [inner, columns], {}
    if op == "ConvInteger":
        shape, w, attributes = convolution(draw)
    elif draw.turn % 3 == 1:
        inner = draw.pick(2, 3, 258, 520, 33_000)
        shape, w = [2, inner], [inner, 3]
    dtype = draw.pick(np.int8, np.uint8)
    x, weights = draw.elements(dtype, *shape), draw.elements(np.uint8, *w)
    zeros = [np.asarray(draw.zero(dtype), dtype), np.asarray(draw.zero(np.uint8), np.uint8)]
    if draw.turn % 3 == 1:
        x, weights = np.full_like(x, np.iinfo(dtype).max), np.full_like(weights, 255)
        zeros = [np.asarray(np.iinfo(dtype).min, dtype), np.uint8(0)]
    case = single(op, "sums", [x], [weights], zeros, **attributes)
    case.exact = True
    return case


def _conversion(draw: Draw, op: str) -> Case:
    exact = draw.turn % 2 == 0
    quantity = draw.quantity(draw.pick(*BYTES), exact)
    axis, shape = draw.small(0, 1), draw.extents(3)
    if draw.turn % 3 == 2:
        scales = [draw.scale(exact) for _ in range(shape[axis])]
        zeros = draw.elements(quantity.dtype, len(scales))
        quantity = Quantity(scales, zeros, quantity.dtype)
    parts = quantity.parameters()
    if op == "DequantizeLinear":
        return single(op, "numbers", [draw.elements(quantity.dtype, *shape)], [], parts, axis=axis)
    steps = draw.rng.integers(-700, 700, shape) / 2 if exact else 300 * draw.normal(*shape)
    each = np.reshape(parts[0], [-1 if i == axis else 1 for i in range(3)])
    case = single(op, "numbers", [(steps * each).astype(np.float32)], [], parts, axis=axis)
    case.exact = exact
    return case


def _residuals(draw: Draw, dtype: Any, op: str) -> Case:
    """A network whose quantised tensors have several readers, also after further layers."""
    for attempt in range(TRIES):
        again = Draw(attempt, op, draw.turn)
        again.rng = np.random.default_rng([int(draw.rng.integers(1 << 30)), attempt])
        case = _random_layers(again, dtype)
        if not has_inner_doubt(case):
            break
    return case


def _random_layers(draw: Draw, dtype: Any) -> Case:
    layers = QuantizedLayers(draw, dtype, False)
    count, is_image = draw.small(2, 9), draw.turn % 2 == 0
    shape = [1, count, 3, 4] if is_image else [3, count]
    tensors, sums = [layers.feed("x", *shape)], 0
    for number in range(draw.small(3, 5)):
        name, last = f"y{number}", tensors[-1]
        if number % 2 == 0:
            op = "Conv" if is_image else "MatMul"
            size = [count, count, 3, 3] if is_image else [count, count]
            pads = {"pads": [1, 1, 1, 1]} if is_image else {}
            operands = [last, layers.weights(f"w{number}", size, 0 if is_image else 1)]
            then = draw.pick("", "Relu")
            tensors.append(layers.layer(op, operands, name, then, last=False, **pads))
            continue
        sums += 1
        operands = [last, draw.pick(*tensors[:-1])][:: draw.pick(1, -1)]
        tensors.append(layers.layer("Add", operands, name, last=False))
    layers.layer("Add", [tensors[-1], tensors[draw.small(0, len(tensors) - 2)]], "y")
    if draw.small(0, 1):
        layers.case.outputs += ("y0",)
    return layers.finished("Conv, Add" if is_image else "MatMul, Add", "residuals")


def _random_graph(draw: Draw) -> Case:
    """A float32 network whose tensors have several readers and results, with layers that devices
    fuse."""
    count, is_image = min(draw.extents(1)[0], 130), draw.turn % 2 == 1
    shape = [1, min(count, 20), 5, 4] if is_image else [draw.small(1, 5), count]
    case = Case("", [], {"x": draw.normal(*shape)}, opens=(0,))
    tensors = ["x"]

    def add(op: str, inputs: list[str], output: str, **attributes: Any) -> None:
        case.nodes.append(helper.make_node(op, inputs, [output], f"n_{output}", **attributes))

    for i in range(draw.small(3, 7)):
        op = draw.pick("layer", "layer", "Add", "Mul", "Sub", "Relu", "Sigmoid", "Neg", "Tanh")
        first, name = draw.pick(tensors[-1], tensors[-1], *tensors), f"y{i}"
        if op != "layer":
            pair = [draw.pick(*tensors)] if op in ("Add", "Mul", "Sub") else []
            add(op, [first, *pair], name)
        else:
            size = [shape[1], shape[1], *([3, 3] if is_image else [])]
            case.weights[f"w{i}"] = draw.weights(*size, inner=int(np.prod(size[1:])))
            case.weights[f"b{i}"] = draw.normal(shape[1])
            if is_image:
                add("Conv", [first, f"w{i}", f"b{i}"], f"t{i}", pads=[1, 1, 1, 1])
                add("Relu", [f"t{i}"], name)
            else:
                add("MatMul", [first, f"w{i}"], f"t{i}")
                add("Add", [f"t{i}", f"b{i}"], name)
        tensors.append(name)
    read = {name for node in case.nodes for name in node.input}
    case.outputs = tuple(name for name in tensors if name not in read)
    case.name = f"Graphs: {', '.join(dict.fromkeys(node.op_type for node in case.nodes))}"
    return case


def _cards() -> Iterator[tuple[str, Card, int]]:
    for dtype in BYTES:
        kind = np.dtype(dtype).name
        for op, card, turns in LAYERS:
            yield f"{op} of {kind}", partial(card, dtype=dtype, op=op), turns
    for op in ("MatMulInteger", "ConvInteger"):
        yield op, partial(_integers, op=op), 6
    for op in ("QuantizeLinear", "DequantizeLinear"):
        yield op, partial(_conversion, op=op), 6
    yield "Graphs", _random_graph, 16


LAYERS = (
    ("Conv", _convolution, TURNS), ("MatMul", _matmul, TURNS), ("Gemm", _matmul, 6),
    ("Add", _pair, 8), ("Mul", _pair, 8), ("MatMul, Add", _residuals, 6), ("MaxPool", _one, 4),
    ("AveragePool", _one, 4), ("Relu", _one, 4), ("Softmax", _one, 4),
)  # fmt: skip
CARDS = {name: (card, turns) for name, card, turns in _cards()}
