"""Bounded reading of little-endian streams in TVM's formats."""

from __future__ import annotations

import struct
from typing import Any


class BinaryReader:
    """A cursor over bytes. Reading past the end raises a ValueError with the position."""

    def __init__(self, data: bytes, what: str):
        self.data = data
        self.what = what
        self.at = 0

    def fail(self, problem: str) -> ValueError:
        """Return the error for a problem at the current position."""
        return ValueError(f"{self.what} is damaged at byte {self.at}: {problem}")

    def remaining(self) -> int:
        """Return the number of remaining bytes."""
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes."""
        if not 0 <= count <= self.remaining():
            raise self.fail(f"{count} bytes expected, {self.remaining()} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, form: str) -> Any:
        """Return one little-endian value, or several as a tuple, by a ``struct`` format."""
        values = struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))
        return values[0] if len(values) == 1 else values

    def count(self, min_bytes_each: int) -> int:
        """Read a number of elements; raise if the remaining bytes cannot hold them."""
        number = self.unpack("Q")
        if number * min_bytes_each > self.remaining():
            raise self.fail(f"{number} elements do not fit in the {self.remaining()} bytes left")
        return number

    def string(self) -> str:
        """Return a length-prefixed string."""
        return self.take(self.count(1)).decode("utf-8", "replace")

    def strings(self) -> list[str]:
        """Return a counted list of strings."""
        return [self.string() for _ in range(self.count(8))]

    def words(self) -> list[int]:
        """Return a counted list of unsigned 64-bit integers."""
        return [self.unpack("Q") for _ in range(self.count(8))]
