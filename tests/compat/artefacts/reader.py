"""Strict reader of library contents, written from the format descriptions; excess bytes are
errors."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np

KINDS = {0: "i", 1: "u", 2: "f"}


@dataclass
class Entry:
    """One module: its kind, its payload, the numbers of its imports."""

    kind: str
    content: dict[str, Any]
    imports: list[int] = field(default_factory=list)


class Stream:
    """Bytes that are read once in order."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        assert 0 <= count <= len(self.data) - self.at, f"{count} bytes at {self.at} are too many"
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, text: str) -> tuple:
        return struct.unpack("<" + text, self.take(struct.calcsize("<" + text)))

    def u64(self) -> int:
        return self.unpack("Q")[0]

    def string(self) -> str:
        return self.take(self.u64()).decode()

    def strings(self) -> list[str]:
        return [self.string() for _ in range(self.u64())]

    def numbers(self) -> list[int]:
        return [self.u64() for _ in range(self.u64())]

    def end(self) -> None:
        assert self.at == len(self.data), f"{len(self.data) - self.at} bytes are left over"

    def ndarray(self) -> np.ndarray:
        magic, reserved, device_type, device_id, ndim = self.unpack("QQiii")
        assert (magic, reserved) == (0xDD5E40F096B4A13F, 0)
        assert (device_type, device_id) == (1, 0), "written for the CPU always"
        code, bits, lanes = self.unpack("BBH")
        shape = self.unpack(f"{ndim}q")
        (size,) = self.unpack("q")
        assert lanes == 1
        assert size == (bits + 7) // 8 * int(np.prod(shape, dtype=np.int64))
        dtype = np.bool_ if bits == 1 else np.dtype(f"<{KINDS[code]}{bits // 8}")
        return np.frombuffer(self.take(size), dtype).reshape(shape)


def _factory_params(stream: Stream) -> dict[str, np.ndarray]:
    count = stream.u64()
    names = stream.strings()
    assert len(names) == count
    return {name: stream.ndarray() for name in names}


def _graph_factory(stream: Stream) -> dict[str, Any]:
    json = stream.string()
    return {"json": json, "params": _factory_params(stream), "name": stream.string()}


def _aot_factory(stream: Stream) -> dict[str, Any]:
    return {"params": _factory_params(stream), "name": stream.string()}


PAYLOADS: dict[str, Callable[[Stream], dict[str, Any]]] = {
    "_lib": lambda _: {},
    "metadata_module": lambda _: {},
    "GraphExecutorFactory": _graph_factory,
    "AotExecutorFactory": _aot_factory,
}


def read_blob(data: bytes) -> list[Entry]:
    """Read `__tvm_dev_mblob` including its length, as the loaders of all releases do."""
    whole = Stream(data)
    stream = Stream(whole.take(whole.u64()))
    whole.end()
    entries: list[Entry] = []
    rows: list[int] = []
    children: list[int] = []
    for _ in range(stream.u64()):
        kind = stream.string()
        if kind == "_import_tree":
            assert not rows, "there are two trees"
            rows, children = stream.numbers(), stream.numbers()
        else:
            entries.append(Entry(kind, PAYLOADS[kind](stream)))
    stream.end()
    assert len(rows) == len(entries) + 1
    assert rows[0] == 0
    assert rows[-1] == len(children)
    for i, entry in enumerate(entries):
        entry.imports = children[rows[i] : rows[i + 1]]
        assert entry.imports == sorted(set(entry.imports))
        assert all(i < child < len(entries) for child in entry.imports)
    return entries


def read_params(data: bytes) -> dict[str, np.ndarray]:
    """Read a params file."""
    stream = Stream(data)
    assert stream.unpack("QQ") == (0xF7E58D4F05049CB7, 0)
    names = stream.strings()
    assert stream.u64() == len(names)
    arrays = {name: stream.ndarray() for name in names}
    stream.end()
    return arrays
