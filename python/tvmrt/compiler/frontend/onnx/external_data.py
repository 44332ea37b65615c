"""Weights outside of the parsed message: external data in files of their own, and large weights of
an ONNX file, which are memory-mapped.

The files of a model are untrusted. A file with data must lie in the folder of the model's path, or
in the folder that holds the model once links are followed; so the caches of model hubs, in which
both are links to a folder of blobs, can be read. Everything else, such as absolute paths, is
refused.

An ONNX file is a protobuf message, whose parser takes all bytes at once. The reader moves large
weights of the graph to memory-mapped files and parses the message without them. It decodes field
boundaries only (https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx
from onnx import TensorProto
from onnx.external_data_helper import uses_external_data

from tvmrt.compiler.ir.mmap_constants import MIN_MMAP_BYTES, mmap_from_file

from .tensors import detach_data, graphs, tensors_except_weights


def load_external_data(
    model: onnx.ModelProto, path: Path, detach: bool = False
) -> dict[str, np.ndarray]:
    """Move all external data into the model.

    With ``detach``, large weights of graphs stay outside: they are returned memory-mapped, see
    ``tensors.detach_data``. All locations are checked before any data is read. Raises ValueError or
    OSError with the name of the tensor.
    """
    weights = [tensor for graph in graphs(model) for tensor in graph.initializer]
    others = list(tensors_except_weights(model))
    locations = [
        (tensor, _locate(tensor, path), detach and is_weight)
        for tensors, is_weight in ((weights, True), (others, False))
        for tensor in tensors
        if uses_external_data(tensor)
    ]
    for tensor in (*weights, *others):
        del tensor.external_data[:]
    detached: dict[str, np.ndarray] = {}
    for tensor, location, may_detach in locations:
        with location.file.open("rb") as file:
            file.seek(location.offset)
            if may_detach and location.size >= MIN_MMAP_BYTES:
                name = f"external {len(detached)}"
                detached[name] = mmap_from_file(file, location.size)
                detach_data(tensor, name)
            else:
                tensor.raw_data = file.read(location.size)
                tensor.data_location = TensorProto.DEFAULT
    return detached


def check_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Raise ValueError or OSError unless all external data of a model can be read."""
    for tensor in external_tensors(model):
        _locate(tensor, path)


def refuse_external_data(model: onnx.ModelProto) -> None:
    """Raise ValueError if a model in memory has external data."""
    for tensor in external_tensors(model):
        raise ValueError(
            f"weights of {tensor.name} are external data, and a model in memory has no folder; "
            "give the path of the model, or load it with its data"
        )


def external_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield all tensors with external data."""
    weights = (tensor for graph in graphs(model) for tensor in graph.initializer)
    return filter(uses_external_data, (*weights, *tensors_except_weights(model)))


@dataclass(frozen=True)
class _DataLocation:
    """Location of external data: a file and a range of bytes in it."""

    file: Path
    offset: int
    size: int


def _locate(tensor: TensorProto, path: Path) -> _DataLocation:
    """Return the location of external data, checked to be complete and in an allowed folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    file = _data_file(tensor, entries.get("location", ""), path)
    numbers = {
        k: _parse_number(tensor, k, entries[k]) for k in ("offset", "length") if k in entries
    }
    available, offset = file.stat().st_size, numbers.get("offset", 0)
    end = offset + numbers.get("length", 0)
    if end > available:
        raise ValueError(
            f"{file}: weights of {tensor.name} end at byte {end}, but the file has {available} "
            "bytes; copy it again"
        )
    return _DataLocation(file, offset, numbers.get("length", available - offset))


def _data_file(tensor: TensorProto, location: str, path: Path) -> Path:
    """Return the file of external data. Raises ValueError, or FileNotFoundError."""
    if not location or "\0" in location:
        raise ValueError(
            f"{path}: weights of {tensor.name} are external data, but {location!r} is not a file "
            "name; export the model again"
        )
    file = (path.parent / location).resolve()
    allowed = {path.parent.resolve(), path.resolve().parent}
    if Path(location).is_absolute() or allowed.isdisjoint(file.parents):
        raise ValueError(
            f"{path}: weights of {tensor.name} are outside the model's folder ({location}); keep "
            "external data in the model's folder"
        )
    if not file.is_file():
        raise FileNotFoundError(
            f"{path}: the external data file {location} of weights {tensor.name} is missing; put "
            "it next to the model"
        )
    return file


def _parse_number(tensor: TensorProto, key: str, text: str) -> int:
    # int() also accepts signs, blanks, underscores and digits of other scripts
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise ValueError(
            f"weights of {tensor.name}: the {key} {text[:40]!r} in the external file is not a "
            "number of bytes; export the model again"
        )
    return int(text)


_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # field numbers in onnx.proto

# Gets the size of a field, with the file at its start, and returns the bytes to write in its place;
# None omits the field.
_FieldHandler = Callable[[int], "bytes | None"]


def read_without_weights(file: BinaryIO, size: int) -> tuple[bytes, dict[int, np.ndarray]] | None:
    """Return the message without its large weights, and their data by their index among the graph's
    initialisers; None if the file is not such a message."""
    reader = _Reader(file)
    try:
        return reader.message(size, {_GRAPH: reader.graph}), reader.weights
    except (EOFError, ValueError):
        return None


class _Reader:
    """One pass over a file."""

    def __init__(self, file: BinaryIO) -> None:
        self.weights: dict[int, np.ndarray] = {}
        self._file = file
        self._count = 0  # number of initialisers so far

    def message(self, nbytes: int, handlers: Mapping[int, _FieldHandler]) -> bytes:
        """Return the next bytes as fields; fields with a number in ``handlers`` are replaced."""
        end = self._file.tell() + nbytes
        parts = []
        while (begin := self._file.tell()) < end:
            key = self._varint()
            number, wire = key >> 3, key & 7
            size = self._size_of(wire)
            if self._file.tell() + size > end:
                raise EOFError
            if wire == _BYTES and number in handlers:
                replacement = handlers[number](size)
                if replacement is not None:
                    parts += [_as_varint(key), _as_varint(len(replacement)), replacement]
                continue
            whole = self._file.tell() + size - begin
            self._file.seek(begin)
            parts.append(self._read_exactly(whole))
        return b"".join(parts)

    def graph(self, nbytes: int) -> bytes:
        return self.message(nbytes, {_INITIALIZER: self._initializer})

    def _initializer(self, nbytes: int) -> bytes:
        self._count += 1
        if nbytes < MIN_MMAP_BYTES:
            return self._read_exactly(nbytes)
        return self.message(nbytes, {_RAW_DATA: self._raw_data})

    def _raw_data(self, nbytes: int) -> bytes | None:
        self.weights.pop(self._count - 1, None)  # the last of several fields counts
        if nbytes < MIN_MMAP_BYTES:
            return self._read_exactly(nbytes)
        self.weights[self._count - 1] = mmap_from_file(self._file, nbytes)
        return None

    def _size_of(self, wire: int) -> int:
        """Return the bytes of a field that follow its key (and its length, if it has one)."""
        if wire == _VARINT:
            begin = self._file.tell()
            self._varint()
            size = self._file.tell() - begin
            self._file.seek(begin)
            return size
        if wire == _BYTES:
            return self._varint()
        if wire in (_EIGHT_BYTES, _FOUR_BYTES):
            return 8 if wire == _EIGHT_BYTES else 4
        raise ValueError(f"ONNX files have no fields of wire type {wire}")

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._read_exactly(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("an integer has more than 64 bits")

    def _read_exactly(self, nbytes: int) -> bytes:
        data = self._file.read(nbytes)
        if len(data) < nbytes:
            raise EOFError
        return data


def _as_varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
