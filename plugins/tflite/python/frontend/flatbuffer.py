"""FlatBuffers that nobody vouches for: every offset is held against the file before it is followed.

The readers that packages generate index as a file tells them to; here reading is the check.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_WIDTHS = {"b": 1, "B": 1, "?": 1, "h": 2, "H": 2, "i": 4, "I": 4, "f": 4, "q": 8, "Q": 8}
# How much longer than the file all that is read of it may be: tables that share their parts are
# written by no converter, and would let a small file ask for any amount of work.
MAX_SHARING = 16


class File:
    """The bytes of a file, and how much of them has been read.

    ``data`` may lie in a file itself (``ir.stowed``); what is read of it is no copy then. ``what``
    names it in errors. Not for several threads at a time.
    """

    def __init__(self, data: bytes | memoryview, what: str) -> None:
        self.data = data
        self.what = what
        self.budget = MAX_SHARING * len(data) + 4096

    def damaged(self, why: str) -> ValueError:
        """What to raise where the file makes no sense."""
        return ValueError(f"{self.what} is damaged: {why}; copy or convert it again")

    def check(self, at: int, size: int) -> int:
        """The place, if so many bytes from it on lie in the file."""
        self.budget -= size
        if self.budget < 0:
            raise self.damaged("its tables share their parts")
        if at < 0 or size < 0 or at + size > len(self.data):
            raise self.damaged(f"{size} bytes at {at} are beyond its {len(self.data)}")
        return at

    def number(self, at: int, kind: str) -> Any:
        """The number at a place; ``kind`` as in the module struct."""
        return struct.unpack_from("<" + kind, self.data, self.check(at, _WIDTHS[kind]))[0]

    def follow(self, at: int) -> int:
        """The place that the offset at a place leads to."""
        return self.check(at + self.number(at, "I"), 4)

    def root(self) -> Table:
        return Table(self, self.follow(0))


class Table:
    """One table; fields by their ids, those that are absent have a default.

    Raises ValueError where the table or a field leads outside of the file.
    """

    def __init__(self, file: File, at: int) -> None:
        self.file = file
        self.at = at
        self._vtable = at - file.number(at, "i")
        size = file.number(self._vtable, "H")
        self._inline = file.number(file.check(self._vtable, 4) + 2, "H")
        if size < 4 or size % 2 or self._inline < 4:
            raise file.damaged(f"the table at {at} has {size} bytes of offsets")
        file.check(self._vtable, size)
        file.check(at, self._inline)
        self._count = (size - 4) // 2

    def _place(self, field: int, width: int) -> int | None:
        if field >= self._count:
            return None
        offset = self.file.number(self._vtable + 4 + 2 * field, "H")
        if not offset:
            return None
        if offset < 4 or offset + width > self._inline:
            raise self.file.damaged(f"field {field} of the table at {self.at} is outside of it")
        return self.at + offset

    def number(self, field: int, kind: str, default: Any = 0) -> Any:
        """A number or bool stored in the table itself."""
        at = self._place(field, _WIDTHS[kind])
        return default if at is None else self.file.number(at, kind)

    def _vector(self, field: int, width: int) -> tuple[int, int] | None:
        at = self._place(field, 4)
        if at is None:
            return None
        at = self.file.follow(at)
        count = self.file.number(at, "I")
        return self.file.check(at + 4, count * width), count

    def numbers(self, field: int, kind: str) -> np.ndarray | None:
        """A vector of numbers, without a copy; None where it is absent."""
        found = self._vector(field, _WIDTHS[kind])
        if found is None:
            return None
        at, count = found
        dtype = np.dtype("<" + kind) if kind != "?" else np.dtype(bool)
        return np.frombuffer(self.file.data, dtype, count, at)

    def text(self, field: int) -> str:
        """A text; empty where it is absent."""
        found = self._vector(field, 1)
        if found is None:
            return ""
        at, count = found
        return bytes(self.file.data[at : at + count]).decode("utf-8", "replace")

    def table(self, field: int) -> Table | None:
        at = self._place(field, 4)
        return None if at is None else Table(self.file, self.file.follow(at))

    def tables(self, field: int) -> list[Table]:
        """A vector of tables; empty where it is absent."""
        at, count = self._vector(field, 4) or (0, 0)
        return [Table(self.file, self.file.follow(at + 4 * i)) for i in range(count)]
