"""Describe weights files (``.params``) and the tensors in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tvmrt.cli.describe import Description
from tvmrt.cli.describe.binary_reader import BinaryReader
from tvmrt.cli.table import Table

PARAMS_MAGIC = 0xF7E58D4F05049CB7
TENSOR_MAGIC = 0xDD5E40F096B4A13F
MAX_DIMENSIONS = 32  # limit for damaged files; no network has as many

DTYPE_CODES = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat"}


@dataclass(frozen=True)
class TensorHeader:
    """Type and shape of a serialised tensor."""

    dtype: str
    shape: tuple[int, ...]
    byte_count: int


def dtype_name(code: int, bits: int, lanes: int) -> str:
    """Return the name of a type: ``float32``, ``int8x4``, ``bool``."""
    if (code, bits, lanes) == (1, 1, 1):
        return "bool"
    return f"{DTYPE_CODES.get(code, f'type{code}')}{bits}" + (f"x{lanes}" if lanes != 1 else "")


def read_tensor(stream: BinaryReader) -> TensorHeader:
    """Read the header of a serialised tensor and skip its data."""
    magic, _reserved = stream.unpack("QQ")
    if magic != TENSOR_MAGIC:
        raise stream.fail("no tensor starts here")
    _device_type, _device_id, ndim = stream.unpack("iii")
    code, bits, lanes = stream.unpack("BBH")
    if not 0 <= ndim <= MAX_DIMENSIONS:
        raise stream.fail(f"a tensor has the invalid rank {ndim}")
    shape = tuple(stream.unpack("q") for _ in range(ndim))
    byte_count = stream.unpack("q")
    expected = math.prod(shape) * ((bits + 7) // 8)
    if min(shape, default=1) < 0 or byte_count not in (expected, expected * lanes):
        raise stream.fail(f"shape {shape} of {bits} bits does not match its {byte_count} bytes")
    stream.take(byte_count)
    return TensorHeader(dtype_name(code, bits, lanes), shape, byte_count)


def read_tensors(stream: BinaryReader, names: list[str]) -> dict[str, TensorHeader]:
    """Read one tensor per name."""
    return {name: read_tensor(stream) for name in names}


def tensor_table(tensors: dict[str, TensorHeader]) -> Table:
    """Return a table with name, type, shape and bytes of each tensor."""
    rows = [(n, t.dtype, tuple(t.shape), t.byte_count) for n, t in tensors.items()]
    return Table(("name", "dtype", "shape", "bytes"), rows, left=("name", "dtype", "shape"))


def describe_bytes(data: bytes, what: str) -> Description:
    """Describe the bytes of a params file; ``what`` is its name in errors."""
    stream = BinaryReader(data, what)
    magic, _reserved = stream.unpack("QQ")
    if magic != PARAMS_MAGIC:
        raise ValueError(f"{what} is not a params file: it starts with {data[:8].hex()}")
    names = stream.strings()
    if stream.unpack("Q") != len(names):
        raise stream.fail("the number of tensors differs from the number of names")
    tensors = read_tensors(stream, names)
    total = sum(tensor.byte_count for tensor in tensors.values())
    properties = {"format": "params", "tensors": len(tensors), "bytes": total}
    return Description(properties, {"weights": tensor_table(tensors)})


def describe(path: Path) -> Description:
    """Describe a params file."""
    return describe_bytes(path.read_bytes(), str(path))
