"""The constants of a network as the one block of bytes that its library has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvmrt.compiler.ir.program import ALIGN_BYTES, Buffer
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.stowed import drop_pages

_CHUNK = 1 << 22


class WeightBytes:
    """Arrays one after the other, each at a multiple of ``ALIGN_BYTES``; no copy of them."""

    def __init__(self, arrays: Sequence[np.ndarray] = ()) -> None:
        self.addresses: list[int] = []
        self._arrays = arrays
        self._size = 0
        for array in arrays:
            self.addresses.append(round_up(self._size, ALIGN_BYTES))
            self._size = self.addresses[-1] + array.nbytes

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes | memoryview]:
        """All bytes in order; no more than a few of them are in memory, and none at the end."""
        at = read = 0
        for address, array in zip(self.addresses, self._arrays):
            yield bytes(address - at)
            data = memoryview(array.view(np.uint8))
            for begin in range(0, len(data), _CHUNK):
                part = data[begin : begin + _CHUNK]
                yield part
                read += len(part)
                if read >= _CHUNK:
                    drop_pages()
                    read = 0
            at = address + len(data)
        drop_pages()


def lay_out(buffers: Sequence[Buffer]) -> WeightBytes:
    """The block of these constants, each of which gets its offset in it."""
    for buffer in buffers:
        buffer.data = buffer.data.astype(buffer.data.dtype.newbyteorder("<"), copy=False)
    block = WeightBytes([buffer.data for buffer in buffers])
    for buffer, address in zip(buffers, block.addresses):
        buffer.address = address
    return block
