"""Element types of at most 8 bits without a C type: conversions to and from wider types.

The table :data:`WIDER` has the type that holds every number of a small type. All computation uses
the wider type; elements of small types are only moved, bit-packed ones not even that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .builder import Builder
from .contract import Contract, holds
from .dtype import DTYPES, dtype_of
from .graph import Node, Value
from .op import POINTWISE, Expression, Op, register
from .traits import Trait

LOW_BIT_HEADER = "scalar/sub_byte_types.h"  # the header in kernels/ of conversions

WIDER = {
    "float8_e4m3fn": "float32",
    "float8_e4m3fnuz": "float32",
    "float8_e5m2": "float32",
    "float8_e5m2fnuz": "float32",
    "float8_e8m0fnu": "float32",
    "float4_e2m1fn": "float32",
    "int4": "int8",
    "uint4": "uint8",
    "int2": "int8",
    "uint2": "uint8",
}

ROUNDINGS = ("up", "down", "nearest")  # for float8_e8m0fnu, which has only powers of two

# Larger constants are widened at run time. For smaller ones the code that widens them would take
# more memory than it saves.
MAX_FOLDED_WIDEN_BYTES = 64


def bit_codes(array: np.ndarray) -> np.ndarray:
    """Return the codes of elements of at most 8 bits, one per byte."""
    bits = dtype_of(array).bits
    return np.asarray(array).view(np.uint8) & np.uint8((1 << bits) - 1)


def to_memory_format(array: np.ndarray) -> np.ndarray:
    """Return an array in its memory format: bytes for small types, otherwise unchanged."""
    dtype = dtype_of(array)
    if not dtype.is_low_bit:
        return array
    codes = bit_codes(np.ascontiguousarray(array)).reshape(-1)
    if not dtype.is_packed:
        return codes.reshape(array.shape)
    each = 8 // dtype.bits
    rows = np.pad(codes, (0, -codes.size % each)).reshape(-1, each)
    return np.bitwise_or.reduce(rows << (np.arange(each) * dtype.bits).astype(np.uint8), axis=1)


@register("widen")
class Widen(Op):
    """Convert elements of small types exactly to the type in :data:`WIDER`."""

    kind = POINTWISE
    traits = frozenset({Trait.CONVERTS})

    contract = Contract(
        "x: E=float8|packed[*S] -> y: to[*S]",
        "to: dtype float32|int8|uint8",
        rules=[holds("to has all numbers of E", lambda E, to: WIDER[E.name] == to)],
        example={"to": "float32", "E": "float8_e4m3fn"},
    )

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        source = node.inputs[0].dtype.name
        if node.output.dtype.name == "uint8":
            return Expression(args[0])
        return Expression(
            f"tvmrt_{source}_to_{_short_type_name(node.output.dtype.name)}({args[0]})",
            LOW_BIT_HEADER,
        )

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]):
        (x,) = arrays
        if dtype_of(x).nbytes(x.size) > MAX_FOLDED_WIDEN_BYTES:
            return None
        return [x.astype(DTYPES[attrs["to"]].numpy)]


@register("narrow")
class Narrow(Op):
    """Convert to the nearest element of a small type, ties to even; integers keep their low bits.

    With ``saturate``, numbers out of range become the largest one, otherwise infinity, or NaN if
    the type has no infinity. float4 has neither and always saturates. ``rounding`` is for
    float8_e8m0fnu, which has only magnitudes: the power of two above, below, or nearest to it.
    """

    kind = POINTWISE
    traits = frozenset({Trait.CONVERTS})

    contract = Contract(
        "x: float32|int8|uint8[*S] -> y: to[*S]",
        f"to: dtype float8|packed, saturate: bool, rounding: {'|'.join(ROUNDINGS)}",
        rules=[holds("x has all numbers of to", lambda x, to: WIDER[to] == x.dtype.name)],
        example={"to": "float8_e4m3fn"},
    )

    def expression(self, node: Node, args: Sequence[str]) -> Expression:
        (x,), to = args, node.output.dtype
        if node.inputs[0].dtype.name != "float32":
            return Expression(f"(uint8_t)({x} & {(1 << to.bits) - 1})")
        if to.name == "float4_e2m1fn":
            return Expression(f"tvmrt_f32_to_{to}({x})", LOW_BIT_HEADER)
        how = int(node.attrs["saturate"])
        if to.name == "float8_e8m0fnu":
            how = f"{how}, {ROUNDINGS.index(node.attrs['rounding'])}"
        return Expression(f"tvmrt_f32_to_{to}({x}, {how})", LOW_BIT_HEADER)

    def evaluate(self, arrays: Sequence[np.ndarray], attrs: dict[str, Any]):
        (x,), to = arrays, DTYPES[attrs["to"]]
        if to.name == "float8_e8m0fnu":
            return [_float8_exponents(x, attrs["saturate"], attrs["rounding"]).view(to.numpy)]
        if x.dtype == np.float32 and attrs["saturate"]:
            import ml_dtypes

            info = ml_dtypes.finfo(to.numpy)
            x = np.clip(x, np.float32(info.min), np.float32(info.max))
        return [x.astype(to.numpy)]


def _float8_exponents(x: np.ndarray, saturate: bool, rounding: str) -> np.ndarray:
    """Return codes of float8_e8m0fnu: exponents in the encoding of float32."""
    bits = np.ascontiguousarray(x).view(np.uint32).reshape(x.shape)
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    above = {
        "up": fraction > 0,
        "down": fraction < 0,
        "nearest": (fraction > 0x400000) | ((fraction == 0x400000) & (exponent > 0)),
    }[rounding]
    above &= (exponent < 255) & ~(saturate & (exponent == 254))
    return (exponent + above).astype(np.uint8)


def widen_constants(builder: Builder, value: Value) -> Value:
    """Return a small constant, or a view of one, in its wider type; others unchanged."""
    node = value.producer
    if node is None or not (node.op == "widen" or node.has(Trait.REARRANGES)):
        return value
    (source,) = (widen_constants(builder, v) for v in node.inputs)
    if not source.is_constant:
        return value
    if node.op == "widen":
        return builder.const(source.data.astype(value.dtype.numpy), value.name)
    return builder.emit(node.op, [source], value.name, **node.attrs)


def _short_type_name(name: str) -> str:
    return "f32" if name == "float32" else name
