"""TFLM_DECODE: weights decompressed at compile time instead of in every run.

Each packed tensor is followed by a descriptor: 16 bytes with kind, version and parameters, then the
values or tables. Bits are numbered from the most significant bit of each byte.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.sdk.graph import DTYPES, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.model_file import Tensor
from tvmrt.plugins.tflite.frontend.registry import tflite_op

HEADER = 16
TYPES = ("bool", "int8", "int16", "int32", "int64", "float32")


@tflite_op(TFLM_DECODE=1)
def decode(ctx: OpContext) -> list[Value]:
    """Decode each result from a packed tensor and its descriptor."""
    if len(ctx.inputs) != 2 * len(ctx.op.outputs):
        raise ValueError(f"{len(ctx.inputs)} operands for {len(ctx.op.outputs)} results")
    return [ctx.const(_unpack(ctx, i)) for i in range(len(ctx.op.outputs))]


def _unpack(ctx: OpContext, index: int) -> np.ndarray:
    packed = ctx.constant_operand(2 * index, "a packed tensor").tobytes()
    descriptor = ctx.constant_operand(2 * index + 1, "how a tensor is packed").tobytes()
    result = ctx.result(index)
    if result.dtype not in TYPES:
        raise UnsupportedError(f"compressed elements of type {result.dtype}")
    if len(descriptor) < HEADER or descriptor[0] > 2:
        kind = descriptor[0] if descriptor else "nothing"
        raise UnsupportedError(
            f"a tensor is compressed as {kind}; supported are lookup table, Huffman and pruning"
        )
    # descriptors of lookup tables also have their version before the parameters
    if descriptor[1] != 1 or (descriptor[0] != 2 and descriptor[4] != 1):
        raise UnsupportedError(
            f"a packed tensor of version {descriptor[1]}, {descriptor[4]}; known is 1"
        )
    unpack = (_decode_lookup_tables, _decode_huffman, _decode_sparse)[descriptor[0]]
    return unpack(packed, descriptor, result).reshape(result.shape)


def _type(result: Tensor) -> np.dtype:
    return DTYPES[result.dtype].numpy


def _elements(descriptor: bytes, dtype: np.dtype | str) -> np.ndarray:
    """Return the elements after the descriptor's header."""
    kind = np.dtype(dtype)
    count = (len(descriptor) - HEADER) // kind.itemsize
    if kind.kind == "b":
        return np.frombuffer(descriptor, np.uint8, count, HEADER) != 0
    return np.frombuffer(descriptor, kind, count, HEADER)


def _bits(packed: bytes, count: int, width: int) -> np.ndarray:
    """Unpack bits as [count, width]; raise ValueError if there are too few bytes."""
    if count * width > 8 * len(packed):
        raise ValueError(f"{len(packed)} bytes do not hold {count} elements of {width} bits")
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count * width).reshape(count, width)


def _size(result: Tensor) -> int:
    return prod(result.shape)


def _channels(result: Tensor, axis: int) -> np.ndarray:
    """Return each element's index along an axis."""
    shape = result.shape
    axis_indices = np.arange(shape[axis]).reshape(
        [-1 if d == axis else 1 for d in range(len(shape))]
    )
    return np.broadcast_to(axis_indices, shape).reshape(-1)


def _decode_lookup_tables(packed: bytes, descriptor: bytes, result: Tensor) -> np.ndarray:
    """Decode indices into one table, or into one table per index along an axis."""
    width, stride, values = descriptor[5] & 7, descriptor[6], _elements(descriptor, _type(result))
    if width == 0 or stride == 0:
        raise ValueError(f"tables of {stride} values do not fit indices of {width} bits")
    axis = _table_axis(result, descriptor[5] >> 4, len(values) // stride)
    indices = _bits(packed, _size(result), width) @ (1 << np.arange(width)[::-1])
    if axis is not None:
        indices = indices + stride * _channels(result, axis)
    if indices.size and indices.max() >= len(values):
        raise ValueError(f"an index is past the end of the {len(values)} values of the tables")
    return values[indices]


def _table_axis(result: Tensor, stored_axis: int, tables: int) -> int | None:
    """Return the axis with a table per index: the per-channel one, or the stored one (15: none)."""
    q, shape = result.quantization, result.shape
    if tables <= 1:
        return None
    if q is not None and q.per_axis and q.axis in (0, len(shape) - 1) and shape[q.axis] <= tables:
        return q.axis
    if stored_axis == 15:
        return None
    if stored_axis >= len(shape) or shape[stored_axis] > tables:
        raise ValueError(f"{tables} tables do not match axis {stored_axis} of shape {shape}")
    return stored_axis


def _decode_sparse(packed: bytes, descriptor: bytes, result: Tensor) -> np.ndarray:
    """Decode one bit per element: 1 takes the next value, 0 means zero or the zero point."""
    is_present = _bits(packed, _size(result), 1).reshape(-1).astype(bool)
    values, used = _elements(descriptor, _type(result)), int(is_present.sum())
    if len(values) < used:
        raise ValueError(f"{len(descriptor) - HEADER} bytes do not hold {used} values")
    y = np.broadcast_to(_omitted_value(result), is_present.shape).copy()
    y[is_present] = values[:used]
    return y


def _omitted_value(result: Tensor) -> np.ndarray:
    """Return the value of omitted elements: one for all, or one for each element."""
    q = result.quantization
    if q is None or not q.zero.any():
        return np.zeros(1, _type(result))
    if result.dtype != "int8":
        raise UnsupportedError(f"gaps in {result.dtype} with a zero point")
    if not q.per_axis:
        return q.zero[:1].astype(np.int8)
    if q.axis not in (0, len(result.shape) - 1) or len(q.zero) != result.shape[q.axis]:
        raise UnsupportedError(f"gaps with zero points along axis {q.axis}")
    return q.zero[_channels(result, q.axis)].astype(np.int8)


def _decode_huffman(packed: bytes, descriptor: bytes, result: Tensor) -> np.ndarray:
    """Decode Huffman codes. A table entry is a symbol and the number of bits that it uses, or the
    offset from its index to the next table and the number of bits that index that table."""
    extended = bool(descriptor[5] & 1)
    if result.dtype != "int8" and not (extended and result.dtype == "int16"):
        raise UnsupportedError(
            f"codes of {result.dtype} in tables of {32 if extended else 16} bits"
        )
    tables = _elements(descriptor, "<u4" if extended else "<u2").tolist()
    count = _size(result)
    if count > 8 * len(packed):
        raise ValueError(f"{len(packed)} bytes do not hold {count} codes")
    return _symbols(
        packed, tables, 27 if extended else 11, (descriptor[5] >> 4) + 1, count, _type(result)
    )


def _symbols(
    packed: bytes, tables: list[int], shift: int, first: int, count: int, dtype: np.dtype
) -> np.ndarray:
    """Decode ``count`` symbols. ``shift`` is the width of an entry's symbol or offset field,
    ``first`` the number of bits that index the first table."""
    padded, values, at = packed + bytes(8), np.empty(count, np.int64), 0
    for i in range(count):
        entry_index, width, entry = 0, first, 0
        while not entry >> (shift + 4):
            entry_index += entry & ((1 << shift) - 1)
            word = int.from_bytes(padded[at >> 3 : (at >> 3) + 5], "big")
            entry_index += (word >> (40 - (at & 7) - width)) & ((1 << width) - 1)
            at += width
            if entry_index >= len(tables) or at > 8 * len(packed) + 16:
                raise ValueError(f"code {i} of {count} leads out of the tables or of the bytes")
            entry = tables[entry_index]
            used = (entry >> shift) & 15
            left, width = max(width - used, 0), used + 1
        at -= left
        values[i] = entry & ((1 << shift) - 1)
    return values.astype(dtype)
