"""Helpers for tests of the bridge to apache-tvm-ffi: both sides of a call, arrays."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import _core

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")

bridge = importlib.import_module("tvmrt.contrib.tvm_ffi")


VIEW, ARRAY = 7, 13  # type codes of tensors in the classic ABI


def compile_c(source: Path, output: Path, *flags: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    command = [compiler, "-std=gnu99", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*command, *flags, source, "-o", output], check=True)
    return output


def packed(callable_):
    return tvmrt.runtime.convert_to_tvm_func(callable_)


def to_ffi(callable_) -> tvm_ffi.Function:
    """Wrap a Python callable in the classic ABI and return it as a tvm-ffi function."""
    return bridge.to_tvm_ffi(packed(callable_))


def from_ffi(callable_) -> tvmrt.runtime.PackedFunc:
    """Wrap a Python callable in tvm-ffi and return it as a function of the classic ABI."""
    return bridge.from_tvm_ffi(tvm_ffi.convert(callable_))


def aligned(shape, dtype=np.float32, offset=0):
    """Return an array whose memory starts `offset` bytes after a multiple of 64."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + size].view(dtype).reshape(shape)


def call_packed(callable_):
    """Call a TVMCPackedFunc without arguments; return its result's bits and type code."""
    call = bridge.packed_call(callable_)
    value, code = ctypes.c_int64(), ctypes.c_int(4)
    kind = ctypes.PYFUNCTYPE(
        ctypes.c_int, *[ctypes.c_void_p] * 2, ctypes.c_int, *[ctypes.c_void_p] * 3
    )
    rc = kind(call.address)(
        None, None, 0, ctypes.addressof(value), ctypes.addressof(code), call.handle
    )
    assert rc == 0, "failed"
    return value.value, code.value


def address_of(tensor: tvm_ffi.Tensor) -> int:
    return np.from_dlpack(tensor).ctypes.data


def string_object(text):
    """Return a classic String that Python does not convert to str."""
    handle, code = call_packed(lambda: text)
    assert code == 8
    return _core.adopt(_core.Object, handle)


def ffi_tensor(array) -> tvm_ffi.Tensor:
    return tvm_ffi.from_dlpack(array)


class Payload:
    """Callable whose lifetime can be observed."""

    def __call__(self, *args):
        return len(args)


def strong_references(ffi_object) -> int:
    return ctypes.c_uint32.from_address(ffi_object.__chandle__()).value
