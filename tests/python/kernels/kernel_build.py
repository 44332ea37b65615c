"""Compiles small C files around the header-only kernels and calls them through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvmrt.codegen.c.text import laid_out
from tvmrt.codegen.window import packing_f32 as packing

ROOT = Path(__file__).resolve().parents[3]

# The kernels' view of the runtime: scratch from malloc, and TASKS tasks that run one after the
# other, so that every way of sharing the work is checked without threads.
BACKEND = r"""
#include <stdlib.h>
#include <string.h>
#ifndef TASKS
#define TASKS 1
#endif
void* TVMBackendAllocWorkspace(int type, int id, uint64_t bytes, int code, int bits) {
  (void)type, (void)id, (void)code, (void)bits;
  return malloc(bytes);
}
int TVMBackendFreeWorkspace(int type, int id, void* memory) {
  (void)type, (void)id;
  free(memory);
  return 0;
}
static char last_error[256];
const char* last_error_text(void);
const char* last_error_text(void) { return last_error; }
void TVMAPISetLastError(const char* message) {
  strncpy(last_error, message, sizeof(last_error) - 1);
}
int TVMBackendParallelLaunch(FTVMParallelLambda lambda, void* closure, int count) {
  TVMParallelGroupEnv env = {0, TASKS};
  (void)count;
  for (int task = 0; task < TASKS; task++) {
    if (lambda(task, &env, closure) != 0) return -1;
  }
  return 0;
}
"""

WARNINGS = "-std=c99 -Wall -Wextra -Werror -Wmissing-prototypes".split()
PARALLEL = "-DTVMRT_PARALLEL_MIN_MACS=0 -DTVMRT_PARALLEL_MIN_FLOATS=0".split()
UNDEFINED = "-fsanitize=undefined -fno-sanitize-recover=all".split()
CHECKED = ["-O1", "-g", *UNDEFINED]
OPTIMISE = "-O3 -fno-math-errno -fno-trapping-math".split()


@dataclass(frozen=True)
class Machine:
    """A processor described by hand.

    ``splits_wide`` says that an instruction on full vectors takes as long as two on halves, as on
    AMD's family 25 with AVX-512: layers whose channels do not fill full vectors then lose nothing
    on half ones.
    """

    lanes: int
    registers: int
    l2_bytes: int = 512 * 1024
    splits_wide: bool = False


def unique_definitions(tiles: Iterable[packing.Tiles | packing.DepthwiseTile]) -> list[str]:
    """The definitions that a file with these layers needs, each once, in a stable order."""
    return sorted({str(one) for each in tiles for one in each.definitions()})


# name -> (compiler, flags, machine)
BUILDS = {
    "native": ("gcc", [*OPTIMISE, "-march=native"], Machine(16, 32, 1 << 20, True)),
    "native-clang": ("clang", [*OPTIMISE, "-march=native"], Machine(16, 32, 1 << 20)),
    "avx2": ("gcc", [*OPTIMISE, "-mavx2", "-mfma", "-mno-avx512f"], Machine(8, 16)),
    "avx2-clang": (
        "clang",
        [*OPTIMISE, "-mavx2", "-mfma", "-mno-avx512f"],
        Machine(8, 16),
    ),
    "sse2-O2": ("gcc", ["-O2"], Machine(4, 16)),
    "plain-O2": ("gcc", ["-O2"], Machine(1, 12, 0)),
    # the same tiles as native has; what differs is how the work is cut
    "small-cache": ("gcc", ["-O1", "-march=native"], Machine(16, 32, 4096)),
    "three-tasks": (
        "gcc",
        ["-O1", "-march=native", "-DTASKS=3", *PARALLEL],
        Machine(16, 32, 1 << 20),
    ),
    "sanitised": (
        "gcc",
        ["-O1", "-march=native", "-DTASKS=2", *PARALLEL, *UNDEFINED],
        Machine(16, 32, 1 << 20),
    ),
}


def has_compiler(name: str) -> bool:
    return shutil.which(name) is not None


def build(folder: Path, source: str, flags: list[str], cc: str = "gcc") -> ctypes.CDLL:
    """Compiles `source` and the backend above; the same text is compiled once a folder."""
    text = "#include <tvm/runtime/c_backend_api.h>\n" + laid_out(source) + BACKEND
    flags = [*flags, *EXTRA_FLAGS]
    key = hashlib.sha256("\0".join([cc, *flags, text]).encode()).hexdigest()[:16]
    path, library = folder / f"{key}.c", folder / f"{key}.so"
    if not library.exists():
        path.write_text(text)
        command = [
            cc,
            *WARNINGS,
            *flags,
            "-fPIC",
            "-shared",
            # the stand-ins above, not what another test has loaded for all
            "-Wl,-Bsymbolic",
            f"-I{ROOT / 'include'}",
            str(path),
            "-o",
            str(library),
            "-lm",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def triple(values: Iterable[object]) -> str:
    """A C initialiser of an array."""
    return "{" + ", ".join(str(value) for value in values) + "}"


def c_float(value: float) -> str:
    """A float literal, infinities by their C names."""
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return f"{float(value)!r}f"


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    """The array's data; NULL for None. The caller keeps the array."""
    return ctypes.c_void_p(None if array is None else array.ctypes.data)


EXTRA_FLAGS = os.environ.get("TVMRT_TEST_CFLAGS", "").split()
"""More flags for every build; test_sanitised_f32.py sets them."""


def guarded(array: np.ndarray, fill: float = 1e30) -> tuple[np.ndarray, np.ndarray]:
    """A copy of a float array between 64 floats of `fill` on each side, and the whole buffer.

    Under the address sanitiser the copy has an allocation to itself instead.
    """
    if EXTRA_FLAGS:
        return np.array(array, np.float32, copy=True, order="C"), np.full(128, fill, np.float32)
    whole = np.full(array.size + 128, fill, np.float32)
    inner = whole[64:-64].reshape(array.shape)
    inner[...] = array
    return inner, whole


def guards_intact(whole: np.ndarray, fill: float = 1e30) -> bool:
    """Whether nothing was written around an array that `guarded` made."""
    expected = np.float32(fill)
    return bool((whole[:64] == expected).all() and (whole[-64:] == expected).all())
