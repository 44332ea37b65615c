"""Large constants of networks, which are memory-mapped from anonymous files.

The compiler holds weights twice: as in the network, and in the order in which kernels read them.
Both are written to a file at once and read through a memory map, so they occupy memory only while
they are used; the system can evict their pages at any time.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Iterable
from io import FileIO
from typing import BinaryIO, cast

import numpy as np

MIN_MMAP_BYTES = 1 << 16  # bytes; smaller constants stay in memory
_SEGMENT = 1 << 26  # minimum bytes of a file; unwritten parts take no space on most disks
_CHUNK = 1 << 22
_ALIGN = 64


class _Map(mmap.mmap):
    """Memory-mapped file; arrays in it keep it alive."""


class _Segment:
    """File of fixed size, filled from its beginning; deleted with the last array in it."""

    def __init__(self, file: FileIO, nbytes: int) -> None:
        self.file = file
        self.size = max(nbytes, _SEGMENT)
        self.used = 0
        self.file.truncate(self.size)
        self.map = _Map(self.file.fileno(), self.size, access=mmap.ACCESS_READ)

    def __del__(self) -> None:
        self.file.close()

    def has_space(self, nbytes: int) -> bool:
        return self.used + nbytes <= self.size

    def take(self, nbytes: int) -> np.ndarray:
        """Reserve the next bytes and set the file position to them."""
        array = np.frombuffer(self.map, np.uint8, nbytes, self.used)
        self.file.seek(self.used)
        self.used += nbytes + -nbytes % _ALIGN
        return array

    def write(self, data: memoryview) -> None:
        while data:
            data = data[self.file.write(data) :]


class _Store:
    """Segment that is being filled, and the maps of all segments in use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._segment: _Segment | None = None
        self._maps: weakref.WeakSet[_Map] = weakref.WeakSet()
        self._since = 0  # bytes written since pages were last dropped

    def reset_after_fork(self) -> None:
        """Reset a forked process, which shares the file position and has a copy of the lock."""
        self._lock = threading.Lock()
        self._segment = None

    def write(self, data: memoryview) -> np.ndarray:
        """Write the bytes to a file and return their map. Raise OSError."""
        return self._write(data.nbytes, [data])

    def copy(self, source: BinaryIO, nbytes: int) -> np.ndarray:
        """Copy the next bytes of a file. Raise EOFError if there are fewer, or OSError."""
        sizes = (min(nbytes - begin, _CHUNK) for begin in range(0, nbytes, _CHUNK))
        return self._write(nbytes, (memoryview(_read_exactly(source, n)) for n in sizes))

    def _write(self, nbytes: int, parts: Iterable[memoryview]) -> np.ndarray:
        with self._lock:
            segment = self._segment_with_space(nbytes)
            array_ = segment.take(nbytes)
            for part in parts:
                segment.write(part)
            self._since += nbytes
            if self._since >= _SEGMENT // 4:
                self._drop()
        return array_

    def _segment_with_space(self, nbytes: int) -> _Segment:
        if self._segment is None or not self._segment.has_space(nbytes):
            self._segment = None
            file = tempfile.TemporaryFile(prefix="tvmrt-", buffering=0)
            self._segment = _Segment(cast("FileIO", file), nbytes)
            self._maps.add(self._segment.map)
        return self._segment

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
    os.register_at_fork(after_in_child=_store.reset_after_fork)


def mmap_array(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy of a large array in a memory-mapped file. Return the array itself if
    it is small, is in such a file already, or no file can be written.

    ``array`` must be contiguous in row-major order.
    """
    if array.nbytes < MIN_MMAP_BYTES or array.dtype.hasobject or _is_memory_mapped(array):
        return array
    try:
        array_ = _store.write(memoryview(array.reshape(-1).view(np.uint8)))
    except OSError:
        return array
    return array_.view(array.dtype).reshape(array.shape)


def mmap_from_file(source: BinaryIO, nbytes: int) -> np.ndarray:
    """Read the next bytes of a file, memory-mapped if many. Raise EOFError if there are fewer."""
    begin = source.tell()
    if nbytes >= MIN_MMAP_BYTES:
        try:
            return _store.copy(source, nbytes)
        except OSError:
            source.seek(begin)
    return np.frombuffer(_read_exactly(source, nbytes), np.uint8)


def drop_pages() -> None:
    """Release the memory of memory-mapped arrays; pages are loaded again when they are read."""
    _store.drop()


def _read_exactly(source: BinaryIO, nbytes: int) -> bytes:
    data = source.read(nbytes)
    if len(data) < nbytes:
        raise EOFError
    return data


def _is_memory_mapped(array: np.ndarray) -> bool:
    base: object = array
    while isinstance(base, (np.ndarray, memoryview)):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return isinstance(base, _Map)
