"""Reader of custom operators' options: FlexBuffer maps from names to numbers and strings.

Options are untrusted and may have any other format. Data that is not such a map yields no entries,
and every offset is bounds-checked before it is followed.
"""

from __future__ import annotations

import struct
from typing import Any, Union

Item = Union[int, float, bool, str, bytes, "list[int]", "list[float]", "list[bool]"]

_INT, _UINT, _FLOAT, _KEY, _STRING = 1, 2, 3, 4, 5
_INDIRECT = {6: _INT, 7: _UINT, 8: _FLOAT}
_MAP, _VECTOR, _BLOB, _BOOL = 9, 10, 25, 26
_VECTORS = {11: _INT, 12: _UINT, 13: _FLOAT, 36: _BOOL}
_FORMATS = {_INT: "bhiq", _UINT: "BHIQ", _BOOL: "BHIQ", _FLOAT: "?efd"}


class _NoMap(Exception):
    """The bytes are not a FlexBuffer map."""


def read_map(data: bytes) -> dict[str, Item]:
    """Return the entries of a FlexBuffer map, without nested maps and lists of mixed types.
    Return an empty dict if the bytes are not a map."""
    try:
        return _Reader(data).root()
    except (_NoMap, struct.error):
        return {}


class _Reader:
    """Reader of one buffer; positions are byte indices."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def root(self) -> dict[str, Item]:
        if len(self.data) < 3:
            raise _NoMap
        width, packed = self.data[-1], self.data[-2]
        at = len(self.data) - 2 - width
        if width not in (1, 2, 4, 8) or at < 0 or packed >> 2 != _MAP:
            raise _NoMap
        return self._map(self._follow(at, width), 1 << (packed & 3))

    def _number(self, at: int, width: int, kind: int) -> Any:
        if at < 0 or at + width > len(self.data):
            raise _NoMap
        form = _FORMATS[kind][width.bit_length() - 1]
        if form == "?":  # floats have at least two bytes
            raise _NoMap
        return struct.unpack_from("<" + form, self.data, at)[0]

    def _follow(self, at: int, width: int) -> int:
        target = at - self._number(at, width, _UINT)
        if target < 0:
            raise _NoMap
        return target

    def _size(self, at: int, width: int) -> int:
        """Return the element count of a vector; raise _NoMap if it exceeds the buffer."""
        size = self._number(at - width, width, _UINT)
        if at + size * width > len(self.data):
            raise _NoMap
        return size

    def _map(self, at: int, width: int) -> dict[str, Item]:
        size = self._size(at, width)
        keys = self._follow(at - 3 * width, width)
        key_width = self._number(at - 2 * width, width, _UINT)
        if key_width not in (1, 2, 4, 8) or self._size(keys, key_width) != size:
            raise _NoMap
        result = {}
        for i in range(size):
            begin = self._follow(keys + i * key_width, key_width)
            end = self.data.find(b"\0", begin)
            packed = self._number(at + size * width + i, 1, _UINT)
            item = self._item(at + i * width, width, packed >> 2, 1 << (packed & 3))
            if end >= 0 and item is not None:
                result[self.data[begin:end].decode("utf-8", "replace")] = item
        return result

    def _item(self, at: int, width: int, kind: int, own_width: int) -> Item | None:
        """Return the value of a map entry, or None for an unsupported type."""
        if kind in _FORMATS:
            number = self._number(at, width, kind)
            return bool(number) if kind == _BOOL else number
        if kind not in (_KEY, _STRING, _BLOB, _VECTOR, *_INDIRECT, *_VECTORS):
            return None
        target = self._follow(at, width)
        if kind in _INDIRECT:
            return self._number(target, own_width, _INDIRECT[kind])
        if kind == _KEY:
            return self.data[target : self.data.find(b"\0", target)].decode("utf-8", "replace")
        if kind in _VECTORS:
            count, of = self._size(target, own_width), _VECTORS[kind]
            numbers = [self._number(target + i * own_width, own_width, of) for i in range(count)]
            return [bool(n) for n in numbers] if of == _BOOL else numbers
        if kind == _VECTOR:
            return self._numbers(target, own_width)
        size = self._number(target - own_width, own_width, _UINT)
        if target + size > len(self.data):
            raise _NoMap
        content = self.data[target : target + size]
        return content.decode("utf-8", "replace") if kind == _STRING else content

    def _numbers(self, at: int, width: int) -> list | None:
        """Return the elements of a vector with typed elements, or None unless all are numbers."""
        size = self._size(at, width)
        kinds = [self._number(at + size * width + i, 1, _UINT) >> 2 for i in range(size)]
        if any(kind not in _FORMATS for kind in kinds):
            return None
        return [self._item(at + i * width, width, kind, 0) for i, kind in enumerate(kinds)]
