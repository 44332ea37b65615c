"""Quantised tensors: conversion from and to floats, and integer products of quantised tensors.

A quantised tensor holds integers q that stand for the numbers (q - zero) * scale. Conversions are
pointwise and fuse into loops; products are kernels that sum in int32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .dtype import DTYPES, DType
from .graph import Node, TensorType, Value, constant
from .nn import AvgPool, Conv, MaxPool
from .op import POINTWISE, VIEW, Op, broadcast, get_op, register

STORAGE = ("int8", "uint8", "int16", "uint16")


def quantize_array(x: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """saturate(round(x / scale) + zero), ties to even; NaN becomes the least value."""
    info = np.iinfo(zero.dtype)
    shift = zero.astype(np.float32)
    with np.errstate(all="ignore"):
        quotient = (x / scale).astype(np.float32)
    low, high = np.float32(info.min) - shift, np.float32(info.max) - shift
    bounded = np.where(quotient > low, np.minimum(quotient, high), low)
    return (np.rint(bounded) + shift).astype(zero.dtype)


def dequantize_array(q: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """(q - zero) * scale in the type of the scale."""
    return (q.astype(np.int64) - zero.astype(np.int64)).astype(scale.dtype) * scale


@register("quantize")
class Quantize(Op):
    """Inputs: x (float32), scale (float32), zero (an 8 or 16 bit type, which the result has).

    saturate(round(x / scale) + zero), ties to even; all three broadcast.
    """

    kind = POINTWISE

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        x, scale, zero = types
        if x.dtype.name != "float32" or scale.dtype.name != "float32":
            raise ValueError(f"quantising {x} by {scale}; both must be float32")
        if zero.dtype.name not in STORAGE:
            raise ValueError(f"quantising to {zero.dtype}; {', '.join(STORAGE)} are supported")
        return [TensorType(broadcast(x.shape, scale.shape, zero.shape), zero.dtype)]

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [quantize_array(*arrays)]

    def expression(self, node: Node, args: Sequence[str]) -> str:
        return f"tvmrt_quantize_{node.output.dtype.name}({', '.join(args)})"


@register("dequantize")
class Dequantize(Op):
    """Inputs: q, scale (a float type, which the result has), zero (the type of q).

    (q - zero) * scale; all three broadcast. Folded results remember what they were made of, see
    ``remember_integers``.
    """

    kind = POINTWISE

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        q, scale, zero = types
        if not q.dtype.is_int or q.dtype.bits > 32 or not scale.dtype.is_float:
            raise ValueError(f"dequantising {q} by {scale}; integers and a float are expected")
        if zero.dtype != q.dtype:
            raise ValueError(f"zero point of type {zero.dtype} for elements of type {q.dtype}")
        return [TensorType(broadcast(q.shape, scale.shape, zero.shape), scale.dtype)]

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        return [dequantize_array(*arrays)]

    def expression(self, node: Node, args: Sequence[str]) -> str:
        q, scale, zero = args
        steps = q if zero == "0" else f"{q} - {zero}"
        if node.inputs[0].dtype.bits == 32 and zero != "0":
            steps = f"(int32_t)((uint32_t){q} - (uint32_t){zero})"
        if node.output.dtype.bits == 32:
            return f"tvmrt_dequantize({steps}, {scale})"
        return f"(double)({steps}) * {scale}"


class _Product(Op):
    """What integer products share.

    Inputs: x (int8 or uint8), w (constant int8 or uint8), scale (constant float32, one or one an
    output channel), bias (constant int32, one an output channel, or None), w_zero (constant
    int32, one or one an output channel, or None for 0).
    Attributes: ``x_zero``; ``to``: the element type of the result. With ``acc`` the exact sum of
    (x - x_zero) * (w - w_zero), plus bias:

    - ``to`` int32: acc
    - ``to`` float32: acc * scale
    - ``to`` int8 or uint8: clamp(round(acc * scale) + ``y_zero``, ``low``, ``high``), ties to even
    """

    def check(self, types: Sequence[TensorType | None], attrs: dict[str, Any], channels: int):
        x, w, scale = types[:3]
        for t in (x, w):
            if t.dtype.name not in ("int8", "uint8"):
                raise ValueError(f"integer product of {x} and {w}; 8-bit tensors are expected")
        if attrs["to"] not in ("int8", "uint8", "int32", "float32"):
            raise ValueError(f"integer product to {attrs['to']}")
        rows = {"scale": scale, "bias": types[3], "w_zero": types[4]}
        for name, t in rows.items():
            if t is not None and t.size not in (1, channels):
                raise ValueError(f"{name} {t} does not fit {channels} output channels")


@register("qconv")
class QConv(_Product):
    """Convolution: x [N, C, *spatial], w [OC, C / groups, *kernel]; attributes of ``conv`` too.

    Padding has the value ``x_zero``.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        self.check(types, attrs, types[1].shape[0])
        (out,) = Conv().infer(types[:2], attrs)
        return [TensorType(out.shape, DTYPES[attrs["to"]])]


@register("qmatmul")
class QMatMul(_Product):
    """Matrix product: x [..., M, K], w [K, N]."""

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, w = types[:2]
        if x.rank < 2 or w.rank != 2 or x.shape[-1] != w.shape[0]:
            raise ValueError(f"integer matrix product of {x} and {w}: inner extents differ")
        self.check(types, attrs, w.shape[1])
        return [TensorType((*x.shape[:-1], w.shape[1]), DTYPES[attrs["to"]])]


@register("qmatmul_computed")
class QMatMulComputed(Op):
    """Matrix product of two 8-bit tensors a [..., M, K], b [..., K, N]; batches broadcast.

    Inputs: a, b, scale (constant float32 [1]). Attributes: ``x_zero``, ``w_zero`` (zero points of
    a and b), ``to`` and what belongs to it as for ``qmatmul``.
    """

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        a, b, scale = types
        if a.dtype.bits != 8 or b.dtype.bits != 8 or scale.size != 1:
            raise ValueError(f"integer product of {a} and {b}; 8-bit tensors are expected")
        if a.rank < 2 or b.rank < 2 or a.shape[-1] != b.shape[-2]:
            raise ValueError(f"integer product of {a} and {b}: inner extents differ")
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        return [TensorType((*batch, a.shape[-2], b.shape[-1]), DTYPES[attrs["to"]])]


def is_per_tensor(node: Node) -> bool:
    """Whether a quantize or dequantize node has one constant scale and one constant zero point."""
    return all(v.is_constant and v.type.size == 1 for v in node.inputs[1:])


def same_parameters(a: Node, b: Node) -> bool:
    """Whether two such nodes, per tensor, have equal parameters."""
    if not (is_per_tensor(a) and is_per_tensor(b)) or a.inputs[2].dtype != b.inputs[2].dtype:
        return False
    return all(v.data.reshape(()) == w.data.reshape(()) for v, w in zip(a.inputs[1:], b.inputs[1:]))


def storage_range(dtype: DType) -> tuple[int, int]:
    """Least and greatest value of an integer type."""
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def remember_integers(
    op: str, inputs: Sequence[Value | None], attrs: dict[str, Any], values: Sequence[Value]
) -> None:
    """Note on folded constants which integers they stand for.

    A constant made by dequantising, or a view of one, gets a dequantize node as its producer
    that is in no graph. Integer products find their weights by it; ``forget_integers`` ends it.
    """
    if op == "dequantize":
        parts = list(inputs)
    elif get_op(op).kind == VIEW and inputs[0].producer is not None:
        parts = [_viewed(op, attrs, v, inputs[0]) for v in inputs[0].producer.inputs]
    else:
        return
    node = Node("dequantize", parts, {}, values[0].name)
    node.outputs = [values[0]]
    values[0].producer = node


def _viewed(op: str, attrs: dict[str, Any], part: Value, whole: Value) -> Value:
    """A view of the integers or of their parameters, as of the dequantised whole."""
    if part.type.size == 1:
        return constant(part.data.reshape(()), part.name)
    full = np.broadcast_to(part.data, whole.shape)
    return constant(get_op(op).evaluate([full], attrs)[0], part.name)


def forget_integers(values: Iterable[Value]) -> None:
    """Make dequantised constants constants like any others."""
    for value in values:
        if value.is_constant:
            value.producer = None


@register("table")
class Table(Op):
    """Inputs: x (int8 or uint8), table (constant uint8 [256], by the bits of x).

    Any unary function between 8-bit tensors; the entries are the bits of the element type ``to``.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        x, table = types
        if x.dtype.bits != 8 or table.shape != (256,) or table.dtype.name != "uint8":
            raise ValueError(f"table {table} for {x}; 256 bytes for an 8-bit tensor are expected")
        return [TensorType(x.shape, DTYPES[attrs["to"]])]

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]) -> list[np.ndarray]:
        x, table = arrays
        return [table[x.view(np.uint8)].view(DTYPES[attrs["to"]].numpy)]


class _Pair(Op):
    """Two 8-bit tensors of one shape.

    clamp(round(f / ``y_scale``) + ``y_zero``, ``low``, ``high``) as ``to``, where f is the sum or
    the product of (a - ``a_zero``) * ``a_scale`` and (b - ``b_zero``) * ``b_scale``, in floats.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        a, b = types
        if a.shape != b.shape or a.dtype.bits != 8 or b.dtype.bits != 8:
            raise ValueError(f"{self.name} of {a} and {b}; 8-bit tensors of one shape are expected")
        return [TensorType(a.shape, DTYPES[attrs["to"]])]


@register("qadd")
class QAdd(_Pair):
    """The sum."""


@register("qmul")
class QMul(_Pair):
    """The product."""


@register("qmax_pool")
class QMaxPool(MaxPool):
    """``max_pool`` of 8-bit tensors, whose channels are innermost."""


@register("qavg_pool")
class QAvgPool(AvgPool):
    """``avg_pool`` between 8-bit tensors with ``x_scale``, ``x_zero``, ``y_scale``, ``y_zero``.

    clamp(round(mean / y_scale) + y_zero, ``low``, ``high``) as ``to``.
    """

    def infer(self, types: Sequence[TensorType], attrs: dict[str, Any]) -> list[TensorType]:
        (out,) = super().infer(types, attrs)
        return [TensorType(out.shape, DTYPES[attrs["to"]])]
