"""Compile small C files around the header-only kernels and call them through ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvmrt.compiler.codegen.c.formatting import break_lines
from tvmrt.compiler.codegen.window.depthwise_tile_f32 import DepthwiseTile
from tvmrt.compiler.codegen.window.tiles_f32 import Tiles

ROOT = Path(__file__).resolve().parents[3]

# The kernels' view of the runtime: scratch from malloc.
MEMORY = r"""
#include <stdlib.h>
void* TVMBackendAllocWorkspace(int type, int id, uint64_t bytes, int code, int bits) {
  (void)type, (void)id, (void)code, (void)bits;
  return malloc(bytes);
}
int TVMBackendFreeWorkspace(int type, int id, void* memory) {
  (void)type, (void)id;
  free(memory);
  return 0;
}
"""
# And TASKS tasks that run one after the other, so that every work partition is checked without
# threads.
BACKEND = (
    MEMORY
    + r"""
#include <string.h>
#ifndef TASKS
#define TASKS 1
#endif
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
)

WARNINGS = "-std=c99 -Wall -Wextra -Werror -Wmissing-prototypes".split()
PARALLEL = "-DTVMRT_PARALLEL_MIN_MACS=0 -DTVMRT_PARALLEL_MIN_FLOATS=0".split()
UNDEFINED = "-fsanitize=undefined -fno-sanitize-recover=all".split()
CHECKED = ["-O1", "-g", *UNDEFINED]
OPTIMISE = "-O3 -fno-math-errno -fno-trapping-math".split()


@dataclass(frozen=True)
class Machine:
    """A processor described by hand.

    ``splits_wide``: an instruction on full vectors takes as long as two on half vectors, as on AMD
    family 25 with AVX-512. Half vectors then cost nothing extra in layers whose channels do not
    fill full ones.
    """

    lanes: int
    registers: int
    l2_bytes: int = 512 * 1024
    splits_wide: bool = False


def unique_definitions(tiles: Iterable[Tiles | DepthwiseTile]) -> list[str]:
    """Return the definitions that a file with these layers needs, each once, in a stable order."""
    return sorted({str(one) for each in tiles for one in each.definitions()})


def build(folder: Path, source: str, flags: list[str], cc: str = "gcc") -> ctypes.CDLL:
    """Compile `source` and the backend above; equal sources are compiled once per folder."""
    text = "#include <tvm/runtime/c_backend_api.h>\n" + break_lines(source) + BACKEND
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
            # the stubs above, not a library that another test has loaded globally
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


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    """The array's data; NULL for None. The caller keeps the array."""
    return ctypes.c_void_p(None if array is None else array.ctypes.data)
