"""Quantised 8-bit layers with scales and zero points.

Scales are powers of two and numbers are small, so that every sum and every product with a scale is
exact in float32. Only one result is therefore correct, even halfway between two integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from .case import Case

_RNG_SEED = 21


@dataclass(frozen=True)
class Quantity:
    """Scale, zero point and type of a tensor; scale and zero point may be per channel."""

    scale: Any
    zero: Any = 0
    dtype: Any = np.int8

    def parameters(self) -> tuple[np.ndarray, np.ndarray]:
        scale = np.asarray(self.scale, np.float32)
        return scale, np.broadcast_to(np.asarray(self.zero, self.dtype), scale.shape).copy()


X = Quantity(1 / 16, 3)
UNSIGNED = Quantity(1 / 16, 125, np.uint8)
Z = Quantity(1 / 8, -5)
W = Quantity(1 / 8)
Y = Quantity(1 / 64, -4)  # half the scale of products of X and W, so every second sum is a tie
WIDE = Quantity(1 / 4, -4)


class _QuantizedCaseFactory:
    def __init__(self) -> None:
        self._rng = np.random.default_rng(_RNG_SEED)

    def near_zero_point(self, like: Quantity, *shape: int) -> np.ndarray:
        """Return numbers around the zero point."""
        return (self._rng.integers(-7, 8, shape) + like.zero).astype(like.dtype)

    def any(self, like: Quantity, *shape: int) -> np.ndarray:
        limits = np.iinfo(like.dtype)
        return self._rng.integers(limits.min, limits.max + 1, shape).astype(like.dtype)

    def weights(self, *shape: int) -> np.ndarray:
        return self._rng.integers(-4, 5, shape).astype(np.int8)

    def bias(self, count: int) -> np.ndarray:
        return self._rng.integers(-60, 61, count).astype(np.int32)


def _layer(
    op: str,
    how: str,
    feeds: Mapping[str, tuple[np.ndarray, Quantity]],
    y: Quantity,
    weights: tuple[np.ndarray, Quantity] | None = None,
    bias: np.ndarray | None = None,
    then: str = "",
    **attributes: Any,
) -> Case:
    """Return an operator on dequantised tensors whose result is quantised, after ``then``."""
    constants: dict[str, np.ndarray] = {}
    nodes, operands = [], []

    def dequantize(name: str, scale: np.ndarray, zero: np.ndarray | None, axis: int) -> None:
        constants[f"{name}_s"] = scale
        inputs = [name, f"{name}_s"]
        if zero is not None:
            constants[f"{name}_z"] = zero
            inputs.append(f"{name}_z")
        extra = {"axis": axis} if scale.ndim else {}
        nodes.append(
            helper.make_node("DequantizeLinear", inputs, [f"{name}_f"], name=f"d_{name}", **extra)
        )
        operands.append(f"{name}_f")

    for name, (_, quantity) in feeds.items():
        dequantize(name, *quantity.parameters(), axis=0)
    if weights is not None:
        constants["w"], quantity = weights
        dequantize("w", *quantity.parameters(), axis=1 if op == "MatMul" else 0)
    if bias is not None:
        constants["b"] = bias
        (_, x), *_ = feeds.values()
        scale = np.float32(x.scale) * np.asarray(weights[1].scale, np.float32)
        dequantize("b", np.broadcast_to(scale, bias.shape).copy(), None, axis=0)
    inner = "t" if then else "y_f"
    nodes.append(helper.make_node(op, operands, [inner], name="n", **attributes))
    if then:
        nodes.append(helper.make_node(then, ["t"], ["y_f"], name="then"))
    constants["y_s"], constants["y_z"] = y.parameters()
    nodes.append(helper.make_node("QuantizeLinear", ["y_f", "y_s", "y_z"], ["y"], name="q"))
    kind = np.dtype(y.dtype).name
    arrays = {name: array for name, (array, _) in feeds.items()}
    return Case(f"{op} of {kind}: {how}", nodes, arrays, constants, exact=True)


def quantized_cases() -> Iterator[Case]:
    """Yield all cases; the numbers are reproducible."""
    make = _QuantizedCaseFactory()
    yield from _convolutions(make)
    yield from _matmuls(make)
    yield from _elementwise(make)
    yield from _integers(make)


def _per_channel(count: int) -> Quantity:
    return Quantity([2.0 ** -(2 + i % 3) for i in range(count)])


def _convolutions(make: _QuantizedCaseFactory) -> Iterator[Case]:
    image = {"x": (make.near_zero_point(X, 1, 4, 8, 8), X)}
    pads = {"pads": [1, 1, 1, 1]}
    w = make.weights(6, 4, 3, 3)
    yield _layer("Conv", "3x3", image, Y, (w, W), make.bias(6), **pads)
    yield _layer("Conv", "no bias", image, Y, (w, W), **pads)
    yield _layer("Conv", "pads that differ", image, Y, (w, W), pads=[0, 2, 1, 0])
    yield _layer("Conv", "a scale a channel", image, Y, (w, _per_channel(6)), make.bias(6), **pads)
    yield _layer("Conv", "strides", image, Y, (w, W), make.bias(6), strides=[2, 2], **pads)
    differ = {"dilations": [1, 2], "strides": [2, 1]}
    yield _layer("Conv", "axes that differ", image, Y, (w, W), make.bias(6), **differ)
    yield _layer("Conv", "dilated", image, Y, (w, W), make.bias(6), dilations=[2, 2], **pads)
    yield _layer("Conv", "1x1", image, Y, (make.weights(5, 4, 1, 1), W), make.bias(5))
    depth = {"x": (make.near_zero_point(X, 1, 8, 7, 7), X)}
    yield _layer(
        "Conv", "depthwise", depth, Y, (make.weights(8, 1, 3, 3), W), make.bias(8), group=8, **pads
    )
    yield _layer(
        "Conv", "groups", depth, Y, (make.weights(6, 4, 3, 3), W), make.bias(6), group=2, **pads
    )
    full = {"x": (make.any(X, 2, 4, 6, 6), X)}
    yield _layer("Conv", "saturated", full, Y, (w, W), make.bias(6), **pads)
    yield _layer("Conv", "rectified", image, Y, (w, W), make.bias(6), then="Relu", **pads)
    deep = {"x": (make.near_zero_point(X, 1, 70, 4, 4), X)}
    many = make.weights(80, 70, 1, 1)
    yield _layer("Conv", "80 channels", deep, WIDE, (many, W), make.bias(80))
    yield _layer("Conv", "80 scales", deep, WIDE, (many, _per_channel(80)), make.bias(80))
    unsigned, y = (
        {"x": (make.near_zero_point(UNSIGNED, 1, 4, 6, 6), UNSIGNED)},
        Quantity(1 / 64, 121, np.uint8),
    )
    yield _layer("Conv", "3x3", unsigned, y, (w, W), make.bias(6), **pads)
    moved = Quantity(1 / 8, 126, np.uint8)
    yield _layer(
        "Conv", "zero point of weights", unsigned, y,
        ((make.weights(6, 4, 3, 3) + 126).astype(np.uint8), moved), **pads,
    )  # fmt: skip


def _matmuls(make: _QuantizedCaseFactory) -> Iterator[Case]:
    rows = {"x": (make.near_zero_point(X, 3, 20), X)}
    w = make.weights(20, 7)
    yield _layer("MatMul", "weights", rows, Y, (w, W))
    yield _layer("MatMul", "a scale a column", rows, Y, (w, _per_channel(7)))
    yield _layer("MatMul", "saturated", {"x": (make.any(X, 3, 20), X)}, Y, (w, W))
    yield _layer("MatMul", "rectified", rows, Y, (w, W), then="Relu")
    yield _layer("MatMul", "batches", {"x": (make.near_zero_point(X, 2, 3, 20), X)}, Y, (w, W))
    long = {"x": (make.near_zero_point(X, 5, 300), X)}
    yield _layer("MatMul", "long sums", long, WIDE, (make.weights(300, 9), W))
    wide = {"x": (make.near_zero_point(X, 2, 9), X)}
    many = make.weights(9, 133)
    yield _layer("MatMul", "many columns", wide, Y, (many, W))
    yield _layer("MatMul", "many scales", wide, Y, (many, _per_channel(133)))
    unsigned = {"x": (make.near_zero_point(UNSIGNED, 3, 20), UNSIGNED)}
    y = Quantity(1 / 64, 121, np.uint8)
    yield _layer("MatMul", "weights", unsigned, y, (w, W))
    moved = Quantity(1 / 8, 126, np.uint8)
    yield _layer(
        "MatMul", "zero point of weights", unsigned, y,
        ((make.weights(20, 7) + 126).astype(np.uint8), moved),
    )  # fmt: skip
    zeros = 126 + np.arange(7) % 5 - 2
    yield _layer(
        "MatMul", "a zero point a column", unsigned, y,
        ((make.weights(20, 7) + zeros).astype(np.uint8), Quantity([1 / 8] * 7, zeros, np.uint8)),
    )  # fmt: skip
    yield _layer("Gemm", "bias", rows, Y, (w, W), make.bias(7))


def _elementwise(make: _QuantizedCaseFactory) -> Iterator[Case]:
    pair = {"x": (make.any(X, 2, 4, 5, 5), X), "z": (make.any(Z, 2, 4, 5, 5), Z)}
    yield _layer("Add", "two tensors", pair, Quantity(1 / 8, 7))
    yield _layer("Add", "saturated", pair, Quantity(1 / 16, 90))
    yield _layer("Add", "rectified", pair, Quantity(1 / 8, -20), then="Relu")
    yield _layer("Mul", "two tensors", pair, Quantity(1 / 2, -4))
    image = {"x": (make.any(X, 1, 4, 9, 9), X)}
    window = {"kernel_shape": [2, 2], "strides": [2, 2]}
    yield _layer("MaxPool", "2x2", image, X, **window)
    padded = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    yield _layer("MaxPool", "3x3 padded", image, X, **padded)
    yield _layer("AveragePool", "2x2", image, X, **window)
    yield _layer("Relu", "rank 4", image, X)


def _integers(make: _QuantizedCaseFactory) -> Iterator[Case]:
    """Matmul and convolution with int32 results."""
    for zero in (0, 126):
        x, w = (make.any(UNSIGNED, *shape) for shape in ((3, 40), (40, 9)))
        constants = {"w": w, "xz": np.uint8(125), "wz": np.uint8(zero)}
        node = helper.make_node("MatMulInteger", ["x", "w", "xz", "wz"], ["y"], name="n")
        yield Case(f"MatMulInteger: weights around {zero}", [node], {"x": x}, constants, exact=True)
    x, w = (make.any(UNSIGNED, *shape) for shape in ((1, 4, 6, 6), (5, 4, 3, 3)))
    constants = {"w": w, "xz": np.uint8(125), "wz": np.uint8(126)}
    node = helper.make_node(
        "ConvInteger", ["x", "w", "xz", "wz"], ["y"], name="n", pads=[1, 1, 1, 1]
    )
    yield Case("ConvInteger: 3x3", [node], {"x": x}, constants, exact=True)
