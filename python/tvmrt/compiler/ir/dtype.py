"""Element types of the IR, with their numpy, C and DLPack spelling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmrt.error import UnsupportedError

from .sizes import SymInt

_INT, _UINT, _FLOAT, _HANDLE, _BFLOAT = 0, 1, 2, 3, 4  # DLPack type codes

# Floating-point types of at most 8 bits: DLPack type code, bits, name in the classic ABI. The first
# two have the codes of TVM 0.14 and later, the others have the codes of DLPack.
_LOW_BIT_FLOATS = {
    "float8_e4m3fn": (6, 8, "e4m3_float8"),
    "float8_e5m2": (7, 8, "e5m2_float8"),
    "float8_e4m3fnuz": (11, 8, "e4m3fnuz_float8"),
    "float8_e5m2fnuz": (13, 8, "e5m2fnuz_float8"),
    "float8_e8m0fnu": (14, 8, "e8m0fnu_float8"),
    "float4_e2m1fn": (17, 4, "e2m1_float4"),
}
_LOW_BIT_INTEGERS = {"int4": (_INT, 4), "uint4": (_UINT, 4), "int2": (_INT, 2), "uint2": (_UINT, 2)}


@dataclass(frozen=True)
class DType:
    """One element type.

    ``code`` and ``bits`` are the DLPack type code and the bits of one element. ``c`` is the C type
    of an element: a byte with its code for types of at most 8 bits.
    """

    name: str
    numpy: np.dtype
    c: str
    code: int
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory; for bit-packed types, of one shared byte."""
        return self.numpy.itemsize

    def nbytes(self, count: SymInt) -> SymInt:
        """Return the bytes of ``count`` elements in memory."""
        return (count * self.bits + 7) // 8 if self.is_packed else count * self.itemsize

    @property
    def is_low_bit(self) -> bool:
        """Whether it has 8 bits or fewer and no C type: it is only moved and converted."""
        return self.name in _LOW_BIT_FLOATS or self.is_packed

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte, the first in the lowest bits."""
        return 1 < self.bits < 8

    @property
    def text(self) -> str:
        """Name in the classic ABI."""
        return _LOW_BIT_FLOATS[self.name][2] if self.name in _LOW_BIT_FLOATS else self.name

    @property
    def is_float(self) -> bool:
        """Whether networks compute in it; half precision is only for the caller's tensors."""
        return self.code == _FLOAT and self.bits >= 32

    @property
    def is_half(self) -> bool:
        return self.bits == 16 and self.code in (_FLOAT, _BFLOAT)

    @property
    def is_int(self) -> bool:
        return self.code in (_INT, _UINT) and self.name != "bool" and not self.is_packed

    @property
    def is_signed(self) -> bool:
        return self.code != _UINT

    def __str__(self) -> str:
        return self.name


def _bfloat16() -> list[DType]:
    """Return bfloat16 if ml_dtypes is installed, which recent onnx packages require."""
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return []
    return [DType("bfloat16", np.dtype(bfloat16), "uint16_t", _BFLOAT, 16)]


def _low_bit_types() -> list[DType]:
    """Return the types of at most 8 bits that the installed ml_dtypes has."""
    try:
        import ml_dtypes
    except ImportError:
        return []
    rows = {**_LOW_BIT_FLOATS, **_LOW_BIT_INTEGERS}
    return [
        DType(name, np.dtype(getattr(ml_dtypes, name)), "uint8_t", code, bits)
        for name, (code, bits, *_) in rows.items()
        if hasattr(ml_dtypes, name)
    ]


DTYPES = {
    row.name: row
    for row in (
        DType("float32", np.dtype("float32"), "float", _FLOAT, 32),
        DType("float64", np.dtype("float64"), "double", _FLOAT, 64),
        DType("int8", np.dtype("int8"), "int8_t", _INT, 8),
        DType("int16", np.dtype("int16"), "int16_t", _INT, 16),
        DType("int32", np.dtype("int32"), "int32_t", _INT, 32),
        DType("int64", np.dtype("int64"), "int64_t", _INT, 64),
        DType("uint8", np.dtype("uint8"), "uint8_t", _UINT, 8),
        DType("uint16", np.dtype("uint16"), "uint16_t", _UINT, 16),
        DType("uint32", np.dtype("uint32"), "uint32_t", _UINT, 32),
        DType("uint64", np.dtype("uint64"), "uint64_t", _UINT, 64),
        DType("bool", np.dtype("bool"), "uint8_t", _UINT, 1),
        DType("float16", np.dtype("float16"), "uint16_t", _FLOAT, 16),
        *_bfloat16(),
        *_low_bit_types(),
    )
}


# Strings in inputs and outputs of a network, as addresses of their bytes: they are only copied.
HANDLE = DType("handle", np.dtype("uint64"), "uint64_t", _HANDLE, 64)


@dataclass(frozen=True)
class SourceType:
    """Element type that a tensor has in the network's file, where the graph stores another one.

    ``name``: "float16", "int4", "string" ..., or "seq(map)" for the columns of a map. ``labels``:
    the strings that the elements are indices of, or the names of the columns; None for strings that
    are handles.
    """

    name: str
    labels: tuple[str, ...] | None = None


STRING = SourceType("string")  # elements are handles of strings


def dtype_of_text(text: str) -> DType:
    """Return the type with this name in the classic ABI. Raise KeyError if there is none."""
    named = {row.text: row for row in (*DTYPES.values(), HANDLE)}
    return named[text]


def dtype_of(array_or_dtype: object) -> DType:
    """Return the IR type of a numpy array, numpy dtype or type name."""
    dtype = getattr(array_or_dtype, "dtype", array_or_dtype)
    name = np.dtype(dtype).name
    if name not in DTYPES:
        raise UnsupportedError(
            f"element type {name} is not supported; cast to one of {', '.join(DTYPES)}"
        )
    return DTYPES[name]


def to_integers(x: Any, to: Any) -> np.ndarray:
    """Truncate floating-point numbers to integers of type ``to``: saturated, NaN becomes 0.

    numpy leaves out-of-range casts to the processor, so results differ between x86 and Arm.
    All other casts are numpy's.
    """
    x, to = np.asarray(x), np.dtype(to)
    if x.dtype.kind != "f" or to.kind not in "iu":
        return x.astype(to)
    limits = np.iinfo(to)
    below, above = x <= x.dtype.type(limits.min), x >= x.dtype.type(limits.max)
    inside = np.where(below | above | np.isnan(x), 0, x).astype(to)
    return np.where(below, limits.min, np.where(above, limits.max, inside)).astype(to)
