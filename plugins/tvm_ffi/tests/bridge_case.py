"""Helpers for tests of the bridge to apache-tvm-ffi: both sides of a call, arrays."""

from __future__ import annotations

import ctypes
import importlib
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tvmrt

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")

bridge = importlib.import_module("tvmrt.contrib.tvm_ffi")

SOURCE = Path(__file__).with_name("ffi_library.c")
VIEW, ARRAY = 7, 13  # type codes of tensors in the classic ABI


def compile_c(source: Path, output: Path, *flags: str) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    command = [compiler, "-std=gnu11", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, *flags, source, "-o", output], check=True)
    return output


def run_alone(script: str, *arguments: object) -> str:
    """Run a script in its own process, where libtvm_ffi is not loaded, and return its output."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def packed(callable_):
    return tvmrt.runtime.convert_to_tvm_func(callable_)


def to_ffi(callable_) -> tvm_ffi.Function:
    """Wrap a Python callable in the classic ABI and return it as a tvm-ffi function."""
    return bridge.to_tvm_ffi(packed(callable_))


def from_ffi(callable_) -> tvmrt.runtime.PackedFunc:
    """Wrap a Python callable in tvm-ffi and return it as a function of the classic ABI."""
    return bridge.from_tvm_ffi(tvm_ffi.convert(callable_))


both_sides = pytest.mark.parametrize("side", [to_ffi, from_ffi])


def aligned(shape, dtype=np.float32, offset=0):
    """Return an array whose memory starts `offset` bytes after a multiple of 64."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.zeros(size + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + size].view(dtype).reshape(shape)


def address_of(tensor: tvm_ffi.Tensor) -> int:
    return np.from_dlpack(tensor).ctypes.data


def ffi_tensor(array) -> tvm_ffi.Tensor:
    return tvm_ffi.from_dlpack(array)


def strong_references(ffi_object) -> int:
    return ctypes.c_uint32.from_address(ffi_object.__chandle__()).value
