"""Element types of the IR: one row a type, with its numpy, C and DLPack spelling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.error import UnsupportedError

_INT, _UINT, _FLOAT, _HANDLE, _BFLOAT = 0, 1, 2, 3, 4  # DLPack type codes


@dataclass(frozen=True)
class DType:
    """One element type.

    ``code`` and ``bits`` are the DLPack type code and the bits of one element.
    """

    name: str
    numpy: np.dtype
    c: str
    code: int
    bits: int

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        """Whether networks compute in it; half precision is for the caller's tensors alone."""
        return self.code == _FLOAT and self.bits >= 32

    @property
    def is_half(self) -> bool:
        return self.bits == 16 and self.code in (_FLOAT, _BFLOAT)

    @property
    def is_int(self) -> bool:
        return self.code in (_INT, _UINT) and self.name != "bool"

    @property
    def is_signed(self) -> bool:
        return self.code != _UINT

    def __str__(self) -> str:
        return self.name


def _bfloat16() -> list[DType]:
    """numpy has the type only through ml_dtypes, which recent onnx packages bring along."""
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        return []
    return [DType("bfloat16", np.dtype(bfloat16), "uint16_t", _BFLOAT, 16)]


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
    )
}


# Strings at the border of a network, as the addresses of their bytes: only copied there.
HANDLE = DType("handle", np.dtype("uint64"), "uint64_t", _HANDLE, 64)


def dtype_of(array_or_dtype: object) -> DType:
    """The IR type of a numpy array, numpy dtype or type name."""
    dtype = getattr(array_or_dtype, "dtype", array_or_dtype)
    name = np.dtype(dtype).name
    if name not in DTYPES:
        raise UnsupportedError(
            f"element type {name} is not supported; cast to one of {', '.join(DTYPES)}"
        )
    return DTYPES[name]
