"""Reading an ONNX file without having its large weights in memory.

The file is a message of protobuf, whose parser takes all bytes at once. Here the large weights of
the network's graph are stowed on the way, and the parser gets the message without them. Of the
format (https://protobuf.dev/programming-guides/encoding) that needs where fields begin and end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import BinaryIO

import numpy as np

from tvmrt.compiler.ir.stowed import LARGE, stowed_from

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # numbers of fields in onnx.proto

# Given the bytes of a field, at which the file stands, what is written in their place; None leaves
# the field out.
_Take = Callable[[int], "bytes | None"]


def read_light(file: BinaryIO, size: int) -> tuple[bytes, dict[int, np.ndarray]] | None:
    """The message without its large weights, and their bytes by their places among the
    initialisers of the graph; None where the file is no such message."""
    reader = _Reader(file)
    try:
        return reader.message(size, {_GRAPH: reader.graph}), reader.kept
    except (EOFError, ValueError):
        return None


class _Reader:
    """One reading of a file."""

    def __init__(self, file: BinaryIO) -> None:
        self.kept: dict[int, np.ndarray] = {}
        self._file = file
        self._count = 0  # of initialisers so far

    def message(self, nbytes: int, takers: Mapping[int, _Take]) -> bytes:
        """The next bytes as fields, some of which are taken by what stands for their numbers."""
        end = self._file.tell() + nbytes
        parts = []
        while (begin := self._file.tell()) < end:
            key = self._varint()
            number, wire = key >> 3, key & 7
            size = self._size_of(wire)
            if self._file.tell() + size > end:
                raise EOFError
            if wire == _BYTES and number in takers:
                taken = takers[number](size)
                if taken is not None:
                    parts += [_as_varint(key), _as_varint(len(taken)), taken]
                continue
            whole = self._file.tell() + size - begin
            self._file.seek(begin)
            parts.append(self._exactly(whole))
        return b"".join(parts)

    def graph(self, nbytes: int) -> bytes:
        return self.message(nbytes, {_INITIALIZER: self._initializer})

    def _initializer(self, nbytes: int) -> bytes:
        self._count += 1
        if nbytes < LARGE:
            return self._exactly(nbytes)
        return self.message(nbytes, {_RAW_DATA: self._raw_data})

    def _raw_data(self, nbytes: int) -> bytes | None:
        self.kept.pop(self._count - 1, None)  # of several the last counts
        if nbytes < LARGE:
            return self._exactly(nbytes)
        self.kept[self._count - 1] = stowed_from(self._file, nbytes)
        return None

    def _size_of(self, wire: int) -> int:
        """The bytes of a field behind what the file has told of it so far."""
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
            byte = self._exactly(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise ValueError("an integer has more than 64 bits")

    def _exactly(self, nbytes: int) -> bytes:
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
