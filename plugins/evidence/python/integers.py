"""Plain evaluation of integer operators that the compiler makes of quantised layers.

Each function is the definition of the operator, in exact integers and in the float type that the
definition names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.arithmetic import to_integers
from tvmrt.compiler.sdk.graph import DTYPES, Node, get_op

Operands = Sequence[Any]
_FUNCTIONS: dict[str, Callable[[Operands, Mapping[str, Any], Node], np.ndarray]] = {}


def evaluate(node: Node, operands: Operands) -> np.ndarray | None:
    """Return the result of an integer operator; None for other operators."""
    function = _FUNCTIONS.get(node.op)
    return None if function is None else function(operands, node.attrs, node)


def _evaluates(*names: str) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        _FUNCTIONS.update(dict.fromkeys(names, function))
        return function

    return register


def _saturate(steps: np.ndarray, zero: int, attrs: Mapping[str, Any]) -> np.ndarray:
    whole = to_integers(np.clip(np.rint(steps), -(2.0**40), 2.0**40), np.int64) + zero
    return np.clip(whole, attrs["low"], attrs["high"]).astype(DTYPES[attrs["to"]].numpy)


def _result(total: np.ndarray, scale: np.ndarray, attrs: Mapping[str, Any]) -> np.ndarray:
    """Return a product's result; see ``_Product`` in ``ir/quantized.py``."""
    if attrs["to"] == "int32":
        return total.astype(np.int32)
    if attrs.get("rounding", "even") == "even":
        scaled = total.astype(np.float32) * scale.astype(np.float32)
        return scaled if attrs["to"] == "float32" else _saturate(scaled, attrs["y_zero"], attrs)
    fraction, exponent = np.frexp(scale)
    m, n = np.ldexp(fraction, 31).astype(np.int64), -exponent.astype(np.int64)
    if attrs["rounding"] == "once":
        q = (total * m + (np.int64(1) << (n + 30))) >> (n + 31)
    else:
        x = (total * m + (1 << 30)) >> 31
        half = (np.int64(1) << n) >> 1
        q = np.where(x < 0, -((-x + half) >> n), (x + half) >> n)
    return _saturate(q, attrs["y_zero"], attrs)


def _channels(array: Any, rank: int, axis: int) -> np.ndarray:
    array = np.asarray(0 if array is None else array)
    shape = [1] * rank
    shape[axis] = -1
    return array.reshape(shape) if array.size > 1 else array.reshape(())


@_evaluates("qconv")
def _qconv(operands: Operands, attrs: Mapping[str, Any], node: Node) -> np.ndarray:
    x, w, scale, bias, w_zero = [*operands, None, None][:5]
    offset = x.astype(np.float64) - attrs["x_zero"]  # sums below 2 ** 53 are exact
    weights = w.astype(np.float64) - _channels(w_zero, w.ndim, 0)
    total = get_op("conv").evaluate([offset, weights], attrs)[0].astype(np.int64)
    bias, scale = (_channels(each, total.ndim, 1) for each in (bias, scale))
    return _result(total + bias, scale, attrs)


@_evaluates("qmatmul", "qmatmul_computed")
def _qmatmul(operands: Operands, attrs: Mapping[str, Any], node: Node) -> np.ndarray:
    x, w, scale, bias, w_zero = [*operands, None, None][:5]
    zero = attrs["w_zero"] if node.op == "qmatmul_computed" else _channels(w_zero, w.ndim, -1)
    a, b = x.astype(np.int64) - attrs["x_zero"], w.astype(np.int64) - zero
    total = np.matmul(a, b) + _channels(bias, 1, -1)
    return _result(total, _channels(scale, 1, -1), attrs)


@_evaluates("qadd", "qmul")
def _pair(operands: Operands, attrs: Mapping[str, Any], node: Node) -> np.ndarray:
    a, b = (
        (each.astype(np.int32) - attrs[f"{name}_zero"]).astype(np.float32)
        * np.float32(attrs[f"{name}_scale"])
        for name, each in zip("ab", operands)
    )
    both = a + b if node.op == "qadd" else a * b
    return _saturate(both / np.float32(attrs["y_scale"]), attrs["y_zero"], attrs)


@_evaluates("qmax_pool")
def _qmax_pool(operands: Operands, attrs: Mapping[str, Any], node: Node) -> np.ndarray:
    x = operands[0]
    return get_op("max_pool").evaluate([x.astype(np.float32)], attrs)[0].astype(x.dtype)


@_evaluates("qavg_pool", "qavg_pool_zero_first")
def _qavg_pool(operands: Operands, attrs: Mapping[str, Any], node: Node) -> np.ndarray:
    steps = operands[0].astype(np.float64) - attrs["x_zero"]
    mean = get_op("avg_pool").evaluate([steps], attrs)[0]
    scaled = mean * attrs["x_scale"] / attrs["y_scale"]
    if node.op == "qavg_pool_zero_first":
        return _saturate(scaled + attrs["y_zero"], 0, attrs)
    return _saturate(scaled, attrs["y_zero"], attrs)
