"""Lazy weight loading: parse an ONNX file without its large weights in memory.

An ONNX file is a protobuf message, whose parser takes all bytes at once. This reader moves large
weights of the graph to memory-mapped files and parses the message without them. It decodes field
boundaries only (https://protobuf.dev/programming-guides/encoding).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO

import numpy as np

from tvmrt.compiler.ir.mmap_constants import MIN_MMAP_BYTES, mmap_from_file

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
