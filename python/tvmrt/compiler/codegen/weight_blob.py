"""Constants of a network as one block of bytes, as stored in its library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvmrt.compiler.ir.mmap_constants import drop_pages
from tvmrt.compiler.ir.program import ALIGN_BYTES, Buffer
from tvmrt.compiler.ir.rounding import round_up

_CHUNK = 1 << 22


class WeightBlob:
    """Concatenation of arrays, each aligned to ``align`` bytes, without copying them."""

    def __init__(self, arrays: Sequence[np.ndarray] = (), align: int = ALIGN_BYTES) -> None:
        self.addresses: list[int] = []
        self._arrays = arrays
        self._size = 0
        for array in arrays:
            self.addresses.append(round_up(self._size, align))
            self._size = self.addresses[-1] + array.nbytes

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes | memoryview]:
        """Yield all bytes in order, with only a few of the mapped pages in memory at a time."""
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


def pack_blob(buffers: Sequence[Buffer], align: int = ALIGN_BYTES) -> WeightBlob:
    """Return the block of these constants and set the offset of each, a multiple of ``align``."""
    for buffer in buffers:
        buffer.data = buffer.data.astype(buffer.data.dtype.newbyteorder("<"), copy=False)
    block = WeightBlob([buffer.data for buffer in buffers], align)
    for buffer, address in zip(buffers, block.addresses):
        buffer.address = address
    return block
