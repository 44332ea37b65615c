"""Untrusted FlatBuffers, read with the package flatbuffers.

The package follows a file's offsets without a verifier: a bad offset reads other bytes of the file
or raises an error, which becomes one sentence here.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from flatbuffers import number_types, table

_FLAGS = {
    "b": number_types.Int8Flags, "B": number_types.Uint8Flags, "?": number_types.BoolFlags,
    "h": number_types.Int16Flags, "H": number_types.Uint16Flags, "i": number_types.Int32Flags,
    "I": number_types.Uint32Flags, "q": number_types.Int64Flags, "Q": number_types.Uint64Flags,
    "f": number_types.Float32Flags,
}  # fmt: skip
_DAMAGE = (struct.error, ValueError, TypeError, OverflowError)
# Limit on the bytes read, as a multiple of the file size. No converter writes tables that share
# parts; without the limit, a small file with shared tables could cause unbounded work.
MAX_SHARING = 16
_TABLE_BYTES = 64  # counted for each table


class File:
    """Bytes of a file, with a budget for the amount read.

    ``data`` may be memory-mapped (``ir.mmap_constants``); reading does not copy it. ``what`` names
    the file in errors. Not thread-safe.
    """

    def __init__(self, data: bytes | memoryview, what: str) -> None:
        self.data = data
        self.what = what
        self.budget = MAX_SHARING * len(data) + 4096

    def damaged(self, why: str) -> ValueError:
        """Return the ValueError to raise for a malformed file."""
        return ValueError(f"{self.what} is damaged: {why}; copy or convert it again")

    def check(self, at: int, size: int) -> int:
        """Return ``at`` if ``size`` bytes from it lie within the file; raise ValueError if not."""
        if at < 0 or size < 0 or at + size > len(self.data):
            raise self.damaged(f"{size} bytes at {at} are beyond its {len(self.data)}")
        self.budget -= size
        if self.budget < 0:
            raise self.damaged("its tables share their parts")
        return at

    def read(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call a method of the package's reader. Raise ValueError if it leaves the file."""
        try:
            return method(*arguments)
        except _DAMAGE:
            raise self.damaged(f"it refers to bytes beyond its {len(self.data)}") from None

    def root(self) -> Table:
        return Table(self, self.read(table.Table(self.data, 0).Indirect, 0))


class Table:
    """One table; fields are accessed by id, and absent fields have a default.

    Raises ValueError if a field lies outside of the file.
    """

    def __init__(self, file: File, at: int) -> None:
        file.check(at, 4)
        file.budget -= _TABLE_BYTES
        self.file = file
        self._table = table.Table(file.data, at)

    def number(self, field: int, kind: str, default: Any = 0) -> Any:
        """Return a scalar field stored in the table itself."""
        return self.file.read(self._table.GetSlot, 4 + 2 * field, default, _FLAGS[kind])

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        """Return the offset in the table and the length of a vector; zeros if it is absent."""
        offset = self.file.read(self._table.Offset, 4 + 2 * field)
        if not offset:
            return 0, 0
        count = self.file.read(self._table.VectorLen, offset)
        self.file.check(self.file.read(self._table.Vector, offset), count * width)
        return offset, count

    def numbers(self, field: int, kind: str) -> np.ndarray | None:
        """Return a vector of numbers without a copy, or None if absent."""
        offset, _ = self._vector(field, _FLAGS[kind].bytewidth)
        return self._table.GetVectorAsNumpy(_FLAGS[kind], offset) if offset else None

    def text(self, field: int) -> str:
        """Return a string field, empty if absent."""
        offset, _ = self._vector(field, 1)
        text = self._table.String(self._table.Pos + offset) if offset else b""
        return text.decode("utf-8", "replace")

    def table(self, field: int) -> Table | None:
        offset = self.file.read(self._table.Offset, 4 + 2 * field)
        return self._at(self._table.Pos + offset) if offset else None

    def tables(self, field: int) -> list[Table]:
        """Return a vector of tables, empty if absent."""
        offset, count = self._vector(field, 4)
        begin = self._table.Vector(offset) if offset else 0
        return [self._at(begin + 4 * i) for i in range(count)]

    def _at(self, at: int) -> Table:
        """Return the table that the offset at this place refers to."""
        return Table(self.file, self.file.read(self._table.Indirect, at))
