"""Element types: DataType, its text and the matching NumPy type."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np

from tvmrt.runtime import _core

__all__ = ["DataType", "DataTypeCode", "in_memory", "numpy_dtype", "of_codes", "of_numpy", "unpack"]


class DataTypeCode:
    """Type codes of elements."""

    INT = 0
    UINT = 1
    FLOAT = 2
    HANDLE = 3
    BFLOAT = 4
    E4M3Float = 6
    E5M2Float = 7
    E4M3FNUZFloat = 11
    E5M2FNUZFloat = 13
    E8M0FNUFloat = 14
    E2M1Float = 17


_BASES = {
    "int": DataTypeCode.INT,
    "uint": DataTypeCode.UINT,
    "float": DataTypeCode.FLOAT,
    "handle": DataTypeCode.HANDLE,
    "bfloat": DataTypeCode.BFLOAT,
    "complex": 5,
    "e4m3_float": DataTypeCode.E4M3Float,
    "e5m2_float": DataTypeCode.E5M2Float,
    "e4m3fnuz_float": DataTypeCode.E4M3FNUZFloat,
    "e5m2fnuz_float": DataTypeCode.E5M2FNUZFloat,
    "e8m0fnu_float": DataTypeCode.E8M0FNUFloat,
    "e2m1_float": DataTypeCode.E2M1Float,
}
_NAMES = {code: name for name, code in _BASES.items()}
_PATTERN = re.compile(r"(e\dm\d[a-z]*_float|custom\[(\d+)\]|[a-z]+)(\d*)(?:x(\d+))?")
# Types that NumPy has only with the package ml_dtypes.
_EXTENDED = {
    (DataTypeCode.BFLOAT, 16): "bfloat16",
    (DataTypeCode.E4M3Float, 8): "float8_e4m3fn",
    (DataTypeCode.E5M2Float, 8): "float8_e5m2",
    (DataTypeCode.E4M3FNUZFloat, 8): "float8_e4m3fnuz",
    (DataTypeCode.E5M2FNUZFloat, 8): "float8_e5m2fnuz",
    (DataTypeCode.E8M0FNUFloat, 8): "float8_e8m0fnu",
    (DataTypeCode.E2M1Float, 4): "float4_e2m1fn",
    **{(DataTypeCode.INT, bits): f"int{bits}" for bits in (2, 4)},
    **{(DataTypeCode.UINT, bits): f"uint{bits}" for bits in (2, 4)},
}
_SMALL_FLOATS = {
    name: f"{_NAMES[code]}{bits}" for (code, bits), name in _EXTENDED.items() if code > 5
}


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> tuple[int, int, int]:
    if text in ("", "void"):
        return DataTypeCode.HANDLE, 0, 0
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a data type; examples are float32, int8x4 and bool")
    base, custom, bits, lanes = match.groups()
    if base == "bool":
        return DataTypeCode.UINT, 1, int(lanes or 1)
    if base == "handle":
        return DataTypeCode.HANDLE, 64, int(lanes or 1)
    code = int(custom) if custom else _BASES.get(base)
    if code is None or int(bits or 32) > 255 or int(lanes or 1) > 65535:
        raise ValueError(f"'{text}' is not a data type; examples are float32, int8x4 and bool")
    return code, int(bits or 32), int(lanes or 1)


class DataType(_core.DataType):
    """The type of an element: type code, bits, and number of vector lanes.

    Parameters
    ----------
    type_str
        A text such as ``"float32"``, ``"int8x4"`` or ``"bool"``, a DataType or a NumPy dtype.
    """

    __slots__ = ()

    def __new__(cls, *args: Any) -> DataType:
        return _core.DataType.__new__(cls)

    def __init__(self, type_str: Any) -> None:
        super().__init__(*_parse(_to_text(type_str)))

    def __str__(self) -> str:
        if (self.bits, self.lanes) == (0, 0):
            return "void"
        lanes = f"x{self.lanes}" if self.lanes > 1 else ""
        if (self.type_code, self.bits) == (DataTypeCode.UINT, 1):
            return f"bool{lanes}"
        if self.type_code == DataTypeCode.HANDLE:
            return "handle"
        name = _NAMES.get(self.type_code, f"custom[{self.type_code}]")
        return f"{name}{self.bits}{lanes}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str(self) == other
        return isinstance(other, DataType) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[DataType], tuple[str]]:
        return DataType, (str(self),)

    def itemsize(self) -> int:
        """Return the bytes of one element, rounded up to whole bytes."""
        return (self.bits + 7) // 8 * self.lanes


def _to_text(value: Any) -> str:
    if isinstance(value, (str, DataType)):
        return str(value)
    return of_numpy(np.dtype(value))


def of_numpy(dtype: np.dtype[Any]) -> str:
    """Return the data type text of a NumPy dtype.

    Raises
    ------
    TypeError
        If tensors cannot have such elements (objects, strings, dates, records).
    """
    name = dtype.name
    if dtype.kind in "iufcV" and dtype.isnative and dtype.names is None:
        if name in _SMALL_FLOATS:
            return _SMALL_FLOATS[name]
        if not name.startswith(("void", "float8_", "float6_", "float4_")):
            return name
    if dtype.kind == "b":
        return "bool"
    raise TypeError(f"a tensor cannot have elements of numpy's type {dtype}")


def numpy_dtype(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    """Return the NumPy dtype for elements of a tensor.

    Raises
    ------
    TypeError
        If NumPy has no such type (vectors, handles).
    """
    plain = {
        (DataTypeCode.UINT, 1): "bool",
        (DataTypeCode.HANDLE, 64): "uint64",
    }
    name = plain.get((code, bits), f"{_NAMES.get(code, 'custom')}{bits}")
    if lanes == 1 and (code, bits) in _EXTENDED:
        return _extended_dtype(_EXTENDED[code, bits])
    if lanes == 1 and bits in (1, 8, 16, 32, 64, 128):
        try:
            return np.dtype(name)
        except TypeError:
            pass
    suffix = f"x{lanes}" if lanes != 1 else ""
    raise TypeError(f"numpy has no element type for {name}{suffix}")


def _extended_dtype(name: str) -> np.dtype[Any]:
    try:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise TypeError(f"numpy has no type {name}; install a recent ml_dtypes") from None


def _is_packed(bits: int) -> bool:
    """Return whether elements share bytes, lowest bits first; each bool has its own byte."""
    return bits in (2, 4)


def in_memory(values: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
    """Return the bytes of an array in tensor memory, with elements of 2 or 4 bits packed."""
    plain = values.reshape(-1).view(np.uint8)
    if not _is_packed(bits):
        return plain
    each = 8 // bits
    codes = np.pad(plain & np.uint8((1 << bits) - 1), (0, -plain.size % each)).reshape(-1, each)
    return np.bitwise_or.reduce(codes << np.arange(0, 8, bits, dtype=np.uint8), axis=1)


def unpack(data: bytes, shape: tuple[int, ...], code: int, bits: int) -> np.ndarray[Any, Any]:
    """Unpack elements of 2 or 4 bits to an array, in which each has its own byte."""
    dtype = numpy_dtype(code, bits, 1)
    packed = np.frombuffer(data, np.uint8)[:, None] >> np.arange(0, 8, bits, dtype=np.uint8)
    codes = (packed & np.uint8((1 << bits) - 1)).reshape(-1)[: int(np.prod(shape))]
    if code == DataTypeCode.INT:
        codes = ((codes ^ np.uint8(1 << (bits - 1))) - np.uint8(1 << (bits - 1))).view(np.int8)
    is_float = code == DataTypeCode.E2M1Float
    return (codes.view(dtype) if is_float else codes.astype(dtype)).reshape(shape)


def of_codes(values: np.ndarray[Any, Any], dtype: np.dtype[Any], bits: int) -> bool:
    """Return whether an array contains bit patterns of floats that only ml_dtypes has."""
    is_float = dtype.isbuiltin != 1 and "int" not in dtype.name
    return is_float and values.dtype == np.dtype(f"uint{max(bits, 8)}")
