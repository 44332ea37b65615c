"""Memory bandwidth of reading, measured with a number of threads."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SUM = """
#include <tvm/runtime/c_runtime_api.h>

TVM_DLL long tvmrt_sum(const long* values, long count, long times);

long tvmrt_sum(const long* values, long count, long times) {
  long sums[64] = {0}, all = 0;
  for (long k = 0; k < times; k++)
    for (long i = 0; i + 64 <= count; i += 64)
      for (int j = 0; j < 64; j++) sums[j] += values[i + j];
  for (int j = 0; j < 64; j++) all += sums[j];
  return all;
}
"""
READ_BYTES = 1 << 28  # exceeds the caches
TOGETHER = 64  # values that the loop in SUM adds at a time
PARTS_PER_THREAD = 16  # so that a thread that is interrupted leaves its parts to others


class MemoryReader:
    """Reads a buffer with several threads, as a network reads weights.

    Parameters
    ----------
    folder
        Folder for the compiled loop.
    threads
        Number of threads that read.
    cc
        C compiler; the one that is found by default.
    nbytes
        Size of the buffer, rounded up to whole parts; 256 MiB, which exceed the caches, by default.
        A smaller buffer is read several times, so that starting the threads takes no part of it.

    Raises
    ------
    CompileError
        If there is no C compiler, or it fails.
    """

    def __init__(
        self, folder: Path, threads: int, cc: str | None = None, nbytes: int = READ_BYTES
    ) -> None:
        import numpy as np

        from tvmrt.compiler.codegen.target import get_target
        from tvmrt.compiler.export.toolchain import build_library
        from tvmrt.compiler.ir.rounding import round_up

        source, library = folder / "tvmrt_sum.c", folder / "tvmrt_sum.so"
        source.write_text(SUM)
        build_library([source], library, get_target("native"), cc)
        self._sum = ctypes.CDLL(str(library)).tvmrt_sum
        self._sum.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_long]
        self._sum.restype = ctypes.c_long
        self._times = max(1, READ_BYTES // nbytes)
        parts = threads if self._times > 1 else PARTS_PER_THREAD * threads
        size = ctypes.sizeof(ctypes.c_long)
        self._memory = np.ones(round_up(nbytes, TOGETHER * parts * size) // size, ctypes.c_long)
        self._parts = np.split(self._memory, parts)
        self._pool = ThreadPoolExecutor(threads)

    def read(self, clock: Callable[[], float] = time.perf_counter) -> float:
        """Return the bytes per second of reading about 256 MiB, or the buffer once.

        Parameters
        ----------
        clock
            Clock in seconds: processor time disregards other programs, with one thread.
        """
        start = clock()
        sums = self._pool.map(
            lambda part: self._sum(part.ctypes.data, part.size, self._times), self._parts
        )
        assert sum(sums) == self._memory.size * self._times
        return self._memory.nbytes * self._times / (clock() - start)
