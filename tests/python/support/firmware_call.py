"""Firmware networks as shared libraries, called through ctypes with exact buffers."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tvmrt.libinfo import find_include_path

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-O1"]
GUARD, PATTERN = 64, 0xA5


def build_shared(folder: Path, options: Sequence[str] = ()) -> ctypes.CDLL:
    """Compile the C files of a folder without warnings into one library."""
    flags = [f"-I{path}" for path in [folder, *find_include_path()]]
    command = ["cc", *STRICT, "-fPIC", "-shared", *options, *flags, *sorted(folder.glob("*.c"))]
    done = subprocess.run(
        [*command, "-lm", "-o", folder / "all.so"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "all.so"))


class Memory:
    """A pool of exactly ``nbytes``, aligned to 16, between guard bytes."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._bytes = np.full(nbytes + 2 * GUARD + 16, PATTERN, np.uint8)
        self._begin = -self._bytes.ctypes.data % 16 + GUARD

    @property
    def address(self) -> int:
        return self._bytes.ctypes.data + self._begin

    def is_sound(self) -> bool:
        """Whether the guard bytes are unchanged."""
        around = np.delete(self._bytes, np.s_[self._begin : self._begin + self.nbytes])
        return bool((around == PATTERN).all())


def pointers(addresses: Sequence[int]) -> ctypes.Array:
    """Return a struct of pointers."""
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int), ("device_id", ctypes.c_int),
        ("ndim", ctypes.c_int), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
    )  # fmt: skip


def tensor(address: int, array: np.ndarray) -> DLTensor:
    """Return a DLTensor of an array's type and shape at an address."""
    code = {"i": 0, "u": 1, "f": 2, "b": 1}[array.dtype.kind]
    shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
    return DLTensor(
        address, 1, 0, array.ndim, code, array.itemsize * 8, 1, shape, None, 0
    )  # fmt: skip


def call_packed(function, tensors: Sequence[DLTensor]) -> int:
    """Call a packed function of tensors; return its error code."""
    count = len(tensors)
    values = (ctypes.c_void_p * (count + 8))(*(ctypes.addressof(t) for t in tensors))
    codes = (ctypes.c_int * (count + 8))(*[7] * count)
    result, result_code = ctypes.c_int64(), ctypes.c_int()
    return function(values, codes, count, ctypes.byref(result), ctypes.byref(result_code), None)


class Network:
    """A network of a library that build_shared() made, with caller-provided memory."""

    def __init__(self, library, shared: ctypes.CDLL, pools: Mapping[str, Memory] | None = None):
        self.summary, self.shared = library.summary, shared
        self.prefix = library.sources.prefix
        self.packed = library.options.interface_api == "packed"
        provided = sorted((p for p in self.summary.pools if p.is_external), key=lambda p: p.name)
        self.memories = dict(pools or {p.name: Memory(p.used_bytes) for p in provided})
        self.names = [p.name for p in provided]

    def function(self, name: str):
        return getattr(self.shared, f"{self.prefix}_{name}")

    def pools(self) -> tuple[ctypes.Array, ...]:
        """Return the argument of caller-provided pools, if there are any."""
        return (pointers([self.memories[n].address for n in self.names]),) if self.names else ()

    def run(self, inputs: Mapping[str, np.ndarray], name: str = "run") -> dict[str, np.ndarray]:
        """Run once and return the outputs; check the guard bytes of the pools."""
        given = [np.ascontiguousarray(inputs[t.name], t.dtype) for t in self.summary.inputs]
        results = [np.zeros(t.shape, t.dtype) for t in self.summary.outputs]
        code = self.call(given, results, name)
        assert code == 0, f"code {code:#x}"
        assert all(memory.is_sound() for memory in self.memories.values())
        return {t.name: y for t, y in zip(self.summary.outputs, results)}

    def call(self, given, results, name: str = "run") -> int:
        """Run with arrays and return the error code."""
        if not self.packed:
            structs = [pointers([x.ctypes.data for x in row]) for row in (given, results)]
            return self.function(name)(*structs, *self.pools())
        tensors = [tensor(x.ctypes.data, x) for x in [*given, *results]]
        for pool in self.names:
            memory = self.memories[pool]
            tensors.append(tensor(memory.address, np.zeros(memory.nbytes, np.uint8)))
        return call_packed(self.function(name), tensors)
