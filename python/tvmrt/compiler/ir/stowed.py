"""Large constants of networks, which lie in files without names instead of in memory.

Weights pass through the compiler twice: as the network has them, and in the order in which kernels
read them. Both are written aside as soon as they are there, and read by way of a map, so that they
take memory only while somebody works on them; the system has the pages elsewhere if it needs to.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from io import FileIO
from typing import BinaryIO, cast

import numpy as np

LARGE = 1 << 16  # bytes; what is smaller stays in memory
_SEGMENT = 1 << 26  # bytes of a file at least; what is not written takes no room on most disks
_CHUNK = 1 << 22
_ALIGN = 64


class _Map(mmap.mmap):
    """A file that is read as memory; arrays that lie in it keep it."""


class _Segment:
    """A file of one size, filled from its beginning. It goes with the last array in it."""

    def __init__(self, file: FileIO, nbytes: int) -> None:
        self.file = file
        self.size = max(nbytes, _SEGMENT)
        self.used = 0
        self.file.truncate(self.size)
        self.map = _Map(self.file.fileno(), self.size, access=mmap.ACCESS_READ)

    def __del__(self) -> None:
        self.file.close()

    def has_room(self, nbytes: int) -> bool:
        return self.used + nbytes <= self.size

    def take(self, nbytes: int) -> np.ndarray:
        """The next bytes, at which the file now stands."""
        array = np.frombuffer(self.map, np.uint8, nbytes, self.used)
        self.file.seek(self.used)
        self.used += nbytes + -nbytes % _ALIGN
        return array

    def write(self, data: memoryview) -> None:
        while data:
            data = data[self.file.write(data) :]


class _Store:
    """The segment that is being filled, and the maps of all that are still read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segment: _Segment | None = None
        self._maps: weakref.WeakSet[_Map] = weakref.WeakSet()
        self._since = 0  # bytes written since pages were dropped

    def begin_anew(self) -> None:
        """In a forked process, which shares the open file's end, and has the lock as it was."""
        self._lock = threading.Lock()
        self._segment = None

    def write(self, data: memoryview) -> np.ndarray:
        """The bytes in a file. Raises OSError."""
        with self._lock:
            segment = self._with_room(data.nbytes)
            there = segment.take(data.nbytes)
            segment.write(data)
            self._count(data.nbytes)
        return there

    def copy(self, source: BinaryIO, nbytes: int) -> np.ndarray:
        """The next bytes of a file. Raises EOFError when it has fewer, or OSError."""
        with self._lock:
            segment = self._with_room(nbytes)
            there = segment.take(nbytes)
            for begin in range(0, nbytes, _CHUNK):
                segment.write(memoryview(_exactly(source, min(nbytes - begin, _CHUNK))))
            self._count(nbytes)
        return there

    def _with_room(self, nbytes: int) -> _Segment:
        if self._segment is None or not self._segment.has_room(nbytes):
            self._segment = None
            file = tempfile.TemporaryFile(prefix="tvmrt-", buffering=0)
            self._segment = _Segment(cast("FileIO", file), nbytes)
            self._maps.add(self._segment.map)
        return self._segment

    def _count(self, nbytes: int) -> None:
        self._since += nbytes
        if self._since >= _SEGMENT // 4:
            self._drop()

    def drop(self) -> None:
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        self._since = 0
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        for each in list(self._maps):
            each.madvise(mmap.MADV_DONTNEED)


_store = _Store()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_store.begin_anew)


def stowed(array: np.ndarray) -> np.ndarray:
    """The same elements, read-only, in a file where they are many; as they are where they lie in
    one already, or where no file can be written.

    ``array`` must have its elements in order.
    """
    if array.nbytes < LARGE or array.dtype.hasobject or _lies_in_file(array):
        return array
    try:
        there = _store.write(memoryview(array.reshape(-1).view(np.uint8)))
    except OSError:
        return array
    return there.view(array.dtype).reshape(array.shape)


def stowed_from(source: BinaryIO, nbytes: int) -> np.ndarray:
    """The next bytes of a file, stowed. Raises EOFError where it has fewer."""
    begin = source.tell()
    if nbytes >= LARGE:
        try:
            return _store.copy(source, nbytes)
        except OSError:
            source.seek(begin)
    return np.frombuffer(_exactly(source, nbytes), np.uint8)


def drop_pages() -> None:
    """Let go of the memory by which stowed arrays have been read; it is back where they are read
    again."""
    _store.drop()


def _exactly(source: BinaryIO, nbytes: int) -> bytes:
    data = source.read(nbytes)
    if len(data) < nbytes:
        raise EOFError
    return data


def _lies_in_file(array: np.ndarray) -> bool:
    base: object = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return isinstance(base, _Map)
