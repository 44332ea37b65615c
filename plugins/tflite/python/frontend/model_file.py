"""A ``.tflite`` file as records; all indices are validated while it is read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.graph import DTYPES, mmap_from_file
from tvmrt.error import UnsupportedError
from tvmrt.file_suffix import suffix_of
from tvmrt.plugins.tflite.frontend.flatbuffer import File, Table
from tvmrt.plugins.tflite.frontend.options import BUILTIN, CUSTOM, read_options
from tvmrt.plugins.tflite.frontend.sparse import densify

IDENTIFIER = b"TFL3"
VERSION = 3
MAX_ELEMENTS = 1 << 31
BLOCKWISE = 2  # member of the union of quantisation details

# Element types by number: name, bits per element, NumPy type as stored (None if unsupported).
TYPES: tuple[tuple[str, int, str | None], ...] = (
    ("float32", 32, "<f4"), ("float16", 16, "<f2"), ("int32", 32, "<i4"), ("uint8", 8, "u1"),
    ("int64", 64, "<i8"), ("string", 0, None), ("bool", 8, "?"), ("int16", 16, "<i2"),
    ("complex64", 64, None), ("int8", 8, "i1"), ("float64", 64, "<f8"), ("complex128", 128, None),
    ("uint64", 64, "<u8"), ("resource", 0, None), ("variant", 0, None), ("uint32", 32, "<u4"),
    ("uint16", 16, "<u2"), ("int4", 4, "i1"), ("bfloat16", 16, "<u2"), ("int2", 2, "i1"),
    ("uint4", 4, "u1"), ("float8_e4m3fn", 8, None), ("float8_e5m2", 8, None),
)  # fmt: skip


def known_type(name: str) -> str:
    """Return the name of an element type. Raises UnsupportedError if the IR lacks the type."""
    if name not in DTYPES:
        raise UnsupportedError(f"elements of type {name}")
    return name


def element_type(code: int) -> str:
    """Return the element type of a format code. Raises UnsupportedError if the IR lacks it."""
    return known_type(TYPES[code][0] if 0 <= code < len(TYPES) else f"number {code}")


@dataclass(frozen=True)
class Quantization:
    """real = scale * (q - zero), with one scale and zero point, or one per index of ``axis``."""

    scale: np.ndarray
    zero: np.ndarray
    axis: int

    @property
    def per_axis(self) -> bool:
        return self.scale.size > 1


@dataclass(frozen=True)
class Blocks:
    """Blockwise quantisation of a matrix, ``size`` elements per block along its rows; ``scale`` and
    ``zero`` (None if all are zero) have the shape [rows, blocks]."""

    scale: np.ndarray
    zero: np.ndarray | None
    size: int


@dataclass
class Tensor:
    """A tensor of a subgraph; ``data`` is set if it is constant. ``open`` is the shape with -1 for
    unknown dimensions, if the file has it. ``own_name`` is the name in the file and may be empty;
    ``name`` never is."""

    index: int
    name: str
    shape: tuple[int, ...]
    dtype: str
    data: np.ndarray | None
    quantization: Quantization | None
    is_variable: bool
    open: tuple[int, ...] = ()
    own_name: str = ""
    blocks: Blocks | None = None


@dataclass
class Operator:
    """One operator of a subgraph; operand index -1 is an omitted operand."""

    name: str
    version: int
    is_custom: bool
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: dict[str, Any]
    custom_options: bytes
    intermediates: tuple[int, ...]


@dataclass
class Subgraph:
    name: str
    tensors: list[Tensor]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[Operator]


@dataclass
class Signature:
    """Names of a subgraph's inputs and outputs, mapped to tensor indices."""

    key: str
    inputs: dict[str, int]
    outputs: dict[str, int]
    subgraph: int


@dataclass
class Model:
    """A complete file of ``nbytes`` bytes; ``subgraphs[0]`` is the main one."""

    what: str
    description: str
    subgraphs: list[Subgraph]
    signatures: list[Signature]
    metadata: dict[str, bytes] = field(default_factory=dict)
    nbytes: int = 0


def is_tflite(source: Any) -> bool:
    """Return whether a source is a ``.tflite`` file, by its name or its first bytes."""
    if isinstance(source, (bytes, bytearray)):
        return bytes(source[4:8]) == IDENTIFIER
    if not isinstance(source, (str, os.PathLike)):
        return False
    path = Path(source)
    if suffix_of(path) == ".tflite":
        return True
    try:
        with path.open("rb") as file:
            return file.read(8)[4:] == IDENTIFIER
    except OSError:
        return False


def load_model(source: str | os.PathLike | bytes) -> Model:
    """Read a model from a file or from bytes.

    Raises OSError if the file cannot be read and ValueError if it is malformed.
    """
    data: bytes | memoryview
    if isinstance(source, (bytes, bytearray)):
        data, what = bytes(source), "the .tflite model"
    else:
        data, what = _read_file(Path(source)), str(source)
    if len(data) < 8 or data[4:8] != IDENTIFIER:
        raise ValueError(
            f"{what} is not a .tflite file, or is truncated ({len(data)} bytes); convert or copy "
            "it again"
        )
    return replace(_Reader(File(data, what)).model(), nbytes=len(data))


def _read_file(path: Path) -> memoryview:
    """Return the bytes of a file; a large one is mapped from a private copy, not loaded."""
    with path.open("rb") as file:
        try:
            return memoryview(mmap_from_file(file, os.fstat(file.fileno()).st_size))
        except EOFError:
            raise OSError(f"{path} became shorter while it was read; try again") from None


class _Reader:
    """Reader of one file."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.root = file.root()
        self.buffers = self.root.tables(4)
        self.codes: list[tuple[str, int, bool]] = []

    def model(self) -> Model:
        root, what = self.root, self.file.what
        version = root.number(0, "I")
        if version != VERSION:
            raise ValueError(f"{what} is written in version {version}; tvmrt reads version 3")
        self.codes = [self._code(table) for table in root.tables(1)]
        subgraphs = [self._subgraph(table) for table in root.tables(2)]
        if not subgraphs:
            raise ValueError(f"{what} has no graph; convert it again")
        signatures = [self._signature(table, subgraphs) for table in root.tables(7)]
        metadata = {t.text(0): bytes(self._bytes(t.number(1, "I"))) for t in root.tables(6)}
        return Model(what, root.text(3), subgraphs, signatures, metadata)

    def _code(self, table: Table) -> tuple[str, int, bool]:
        """Return (name, version, is custom); old files set only the 8-bit code field."""
        code = max(table.number(0, "b"), table.number(3, "i"))
        if code < 0:
            raise self.file.damaged(f"it has an unknown operator code {code}")
        name = BUILTIN[code] if code < len(BUILTIN) else f"operator number {code}"
        custom = code == CUSTOM
        return (table.text(1) if custom else name), table.number(2, "i", 1), custom

    def _bytes(self, index: int) -> memoryview:
        """Return the bytes of a buffer, inside or after the FlatBuffer, without a copy."""
        if index >= len(self.buffers):
            raise self.file.damaged(f"there is no buffer {index}")
        table = self.buffers[index]
        offset, size = table.number(1, "Q"), table.number(2, "Q")
        if offset > 1:
            at = self.file.check(offset, size)
            return memoryview(self.file.data)[at : at + size]
        numbers = table.numbers(0, "B")
        return memoryview(b"" if numbers is None else numbers)

    def _subgraph(self, table: Table) -> Subgraph:
        tensors = [self._tensor(i, t) for i, t in enumerate(table.tables(0))]
        for tensor, part in zip(tensors, table.tables(0)):
            tensor.blocks = self._blocks(part.table(4), tensor, tensors)
        subgraph = Subgraph(
            table.text(4),
            tensors,
            self._indices(table, 1, len(tensors)),
            self._indices(table, 2, len(tensors)),
            [self._operator(t, len(tensors)) for t in table.tables(3)],
        )
        made = {i for op in subgraph.operators for i in op.outputs}
        for index in made:
            if tensors[index].data is not None:
                raise self.file.damaged(
                    f"tensor {tensors[index].name} is both constant and the output of an operator"
                )
        return subgraph

    def _indices(self, table: Table, field: int, count: int, minimum: int = 0) -> tuple[int, ...]:
        """Return a vector of tensor indices, all below ``count``; -1 is an omitted tensor."""
        numbers = table.numbers(field, "i")
        indices = () if numbers is None else tuple(int(i) for i in numbers)
        for i in indices:
            if not minimum <= i < count:
                raise self.file.damaged(f"there is no tensor {i} in a graph of {count}")
        return indices

    def _operator(self, table: Table, count: int) -> Operator:
        code = table.number(0, "I")
        if code >= len(self.codes):
            raise self.file.damaged(f"there is no operator code {code}")
        name, version, custom = self.codes[code]
        options = table.table(4) if table.number(3, "B") else None
        if name == "STABLEHLO_COMPOSITE":
            options = table.table(12) if table.number(11, "B") else None
        extra = table.numbers(5, "B")
        return Operator(
            name,
            version,
            custom,
            self._indices(table, 1, count, -1),
            self._indices(table, 2, count),
            {} if custom else read_options(name, options),
            b"" if extra is None else extra.tobytes(),
            self._indices(table, 8, count, -1),
        )

    def _tensor(self, index: int, table: Table) -> Tensor:
        own_name = table.text(3)
        name = own_name or f"tensor_{index}"
        shape = self._shape(table, 0, name, 0)
        code = table.number(1, "b")
        if not 0 <= code < len(TYPES):
            raise self.file.damaged(f"tensor {name} has the unknown element type {code}")
        if table.number(10, "I"):
            raise ValueError(
                f"{self.file.what}: tensor {name} is in another file; convert the model into one"
            )
        dtype, bits, stored = TYPES[code]
        data = self._bytes(table.number(2, "I"))
        sparsity = table.table(6)
        array = None
        if data:
            if stored is None:
                raise ValueError(
                    f"{self.file.what}: tensor {name} has constant elements of type {dtype}, "
                    "which is not supported"
                )
            if sparsity is not None:
                raw = self._elements(name, data, bits, stored, None)
                array = densify(self.file, name, raw, shape, sparsity)
            else:
                array = self._elements(name, data, bits, stored, shape)
        quantization = self._quantization(table.table(4), name, shape, dtype)
        return Tensor(
            index,
            name,
            shape,
            dtype,
            array,
            quantization,
            bool(table.number(5, "?")),
            self._shape(table, 7, name, -1),
            own_name,
        )

    def _shape(self, table: Table, field: int, name: str, minimum: int) -> tuple[int, ...]:
        numbers = table.numbers(field, "i")
        shape = () if numbers is None else tuple(int(n) for n in numbers)
        if any(n < minimum for n in shape) or abs(prod(shape)) >= MAX_ELEMENTS or len(shape) > 8:
            raise self.file.damaged(f"tensor {name} has the shape {list(shape)}")
        return shape

    def _elements(
        self, name: str, data: memoryview, bits: int, stored: str, shape: tuple[int, ...] | None
    ) -> np.ndarray:
        """Return the elements of a buffer; sub-byte types are unpacked."""
        per_byte = 8 // bits if bits < 8 else 0
        count = len(data) * 8 // bits if shape is None else prod(shape)
        if shape is not None and len(data) != (count * bits + 7) // 8:
            raise self.file.damaged(
                f"tensor {name} of shape {list(shape)} has {len(data)} bytes of elements"
            )
        if not per_byte:
            array = np.frombuffer(data, stored, count)
        else:
            packed = np.frombuffer(data, np.uint8)
            parts = packed[:, None] >> (np.arange(per_byte, dtype=np.uint8) * bits)
            fields = (parts & ((1 << bits) - 1)).reshape(-1)[:count].astype(np.int16)
            if np.dtype(stored).kind == "i":
                fields = np.where(fields >= 1 << (bits - 1), fields - (1 << bits), fields)
            array = fields.astype(stored)
        if stored == "?" and np.frombuffer(data, np.uint8).max(initial=0) > 1:
            array = np.frombuffer(data, np.uint8) != 0
        return array if shape is None else array.reshape(shape)

    def _quantization(
        self, table: Table | None, name: str, shape: tuple[int, ...], dtype: str
    ) -> Quantization | None:
        if table is None:
            return None
        if table.number(4, "B") == BLOCKWISE:
            return None
        if table.number(4, "B"):
            raise ValueError(
                f"{self.file.what}: tensor {name} is quantised by custom rules or along several "
                "axes, which is not supported; quantise it per tensor or per axis"
            )
        scale, zero = table.numbers(2, "f"), table.numbers(3, "q")
        if scale is None or not scale.size:
            return None
        zero = np.zeros(scale.size, np.int64) if zero is None or not zero.size else zero
        if zero.size == 1:
            zero = np.broadcast_to(zero, scale.shape)
        axis = table.number(6, "i")
        if zero.size != scale.size:
            raise self.file.damaged(
                f"tensor {name} has {scale.size} scales and {zero.size} zero points"
            )
        if not (np.isfinite(scale).all() and (scale >= 0).all()):
            raise self.file.damaged(f"tensor {name} has a scale that is not positive")
        if scale.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scale.size):
            raise self.file.damaged(
                f"tensor {name} of shape {list(shape)} has {scale.size} scales along axis {axis}"
            )
        self._check_zero(name, zero, dtype)
        return Quantization(scale.astype(np.float32), zero.astype(np.int64), axis)

    def _blocks(self, table: Table | None, tensor: Tensor, tensors: list[Tensor]) -> Blocks | None:
        """Return a constant matrix's blocks; their scales are stored in another tensor."""
        if table is None or table.number(4, "B") != BLOCKWISE:
            return None
        details = table.table(5)
        if details is None:
            raise self.file.damaged(f"tensor {tensor.name} has no scales of its blocks")
        size, shape = details.number(2, "i"), tensor.shape
        whole = len(shape) == 2 and size > 0 and shape[1] > 0 and shape[1] % size == 0
        if not whole or tensor.data is None or details.numbers(3, "i") is not None:
            raise ValueError(
                f"{self.file.what}: tensor {tensor.name} of shape {list(shape)} has blocks of "
                f"{size}; only blocks of one size along the rows of a constant matrix are supported"
            )
        grid = (shape[0], shape[1] // size)
        scale = self._of_blocks(tensor, tensors, details.number(0, "i"), "scales", grid)
        if not (np.isfinite(scale).all() and (scale >= 0).all()):
            raise self.file.damaged(f"tensor {tensor.name} has a scale that is not positive")
        points = details.number(1, "i")  # 0 if the field is absent, though it is a valid index
        zero = self._of_blocks(tensor, tensors, points, "zero points", grid) if points > 0 else None
        return Blocks(scale, None if zero is None or not zero.any() else zero, size)

    def _of_blocks(
        self, tensor: Tensor, tensors: list[Tensor], index: int, what: str, grid: tuple[int, int]
    ) -> np.ndarray:
        """Return one float32 number per block."""
        found = tensors[index] if 0 <= index < len(tensors) else None
        data = None if found is None else found.data
        if data is None or data.size != grid[0] * grid[1] or data.dtype.kind not in "fi":
            raise self.file.damaged(
                f"the {what} of tensor {tensor.name} are no constants, one for each of "
                f"{grid[0]} x {grid[1]} blocks"
            )
        return data.astype(np.float32).reshape(grid)

    def _check_zero(self, name: str, zero: np.ndarray, dtype: str) -> None:
        bits = {row[0]: row[1] for row in TYPES}[dtype]
        signed = dtype.startswith("int")
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if dtype.startswith(("int", "uint")) and not ((zero >= low) & (zero <= high)).all():
            raise self.file.damaged(f"tensor {name} has a zero point outside of {dtype}")

    def _signature(self, table: Table, subgraphs: list[Subgraph]) -> Signature:
        index = table.number(4, "I")
        if index >= len(subgraphs):
            raise self.file.damaged(f"a signature refers to graph {index}, which does not exist")
        count = len(subgraphs[index].tensors)

        def names(field: int) -> dict[str, int]:
            result = {t.text(0): t.number(1, "I") for t in table.tables(field)}
            for name, tensor in result.items():
                if tensor >= count:
                    raise self.file.damaged(f"{name} of a signature is not a tensor of its graph")
            return result

        return Signature(table.text(2), names(0), names(1), index)
