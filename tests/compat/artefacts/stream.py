"""Write tensors, params and module trees as bytes, from the description of the formats."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

CODES = {"i": 0, "u": 1, "b": 1, "f": 2, "c": 5}
"""DLDataType codes of numpy's kinds."""


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def string(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return u64(len(data)) + data


def strings(texts: Iterable[str]) -> bytes:
    items = list(texts)
    return u64(len(items)) + b"".join(string(item) for item in items)


def numbers(values: Sequence[int]) -> bytes:
    return u64(len(values)) + b"".join(u64(value) for value in values)


def ndarray(array: np.ndarray) -> bytes:
    """Return a tensor: magic, reserved, device, rank, type, shape, size, elements."""
    bits = 1 if array.dtype == np.bool_ else 8 * array.itemsize
    head = struct.pack("<QQii", 0xDD5E40F096B4A13F, 0, 1, 0)
    head += struct.pack("<iBBH", array.ndim, CODES[array.dtype.kind], bits, 1)
    head += struct.pack(f"<{array.ndim}q", *array.shape)
    return head + struct.pack("<q", array.nbytes) + array.tobytes()


def params(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return a params file."""
    head = struct.pack("<QQ", 0xF7E58D4F05049CB7, 0) + strings(arrays)
    return head + u64(len(arrays)) + b"".join(ndarray(a) for a in arrays.values())


def factory_params(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the parameters inside a factory: here the count comes first."""
    return u64(len(arrays)) + strings(arrays) + b"".join(ndarray(a) for a in arrays.values())


def graph_factory(json: str, arrays: Mapping[str, np.ndarray], name: str = "default") -> bytes:
    return string(json) + factory_params(arrays) + string(name)


def aot_factory(arrays: Mapping[str, np.ndarray], name: str = "default") -> bytes:
    return factory_params(arrays) + string(name)


def const_loader(
    constants: Mapping[str, np.ndarray], symbols: Mapping[str, Sequence[str]]
) -> bytes:
    """Return constants, and for each symbol the names passed to its initialiser."""
    body = strings(constants) + u64(len(constants))
    body += b"".join(ndarray(array) for array in constants.values())
    body += strings(symbols) + u64(len(symbols))
    return body + b"".join(strings(names) for names in symbols.values())


def json_module(symbol: str, graph: str, constants: Sequence[str]) -> bytes:
    """Return an accelerator module that is run by a JSON interpreter."""
    return string(symbol) + string(graph) + strings(constants)


def module(kind: str, payload: bytes = b"") -> bytes:
    """Return one entry of a module tree; the payload has no length field."""
    return string(kind) + payload


LIBRARY = module("_lib")
"""The place of the library's own code in a tree."""


def blob(entries: Sequence[bytes], rows: Sequence[int] = (), children: Sequence[int] = ()) -> bytes:
    """Return a module tree in the format of `__tvm_dev_mblob`; without rows, the layout without a
    tree."""
    parts = list(entries)
    if rows:
        parts.append(module("_import_tree", numbers(rows) + numbers(children)))
    stream = u64(len(parts)) + b"".join(parts)
    return u64(len(stream)) + stream
