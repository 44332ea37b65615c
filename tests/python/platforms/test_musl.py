"""The runtime with musl, for Alpine wheels; its loader differs from that of glibc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Thread-local variables are in the first of them.
SOURCES = ["base/error.c", "base/memory.c", "base/stream.c", "platform/posix_files.c"]
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  void* library = dlopen(argv[argc - 1], RTLD_LAZY);
  const char* (*text)(void) = NULL;
  if (library != NULL) *(void**)&text = dlsym(library, "TVMGetLastError");
  printf("%s\\n", text == NULL ? dlerror() : text()[0] == 0 ? "loaded" : text());
  return text == NULL;
}
"""


def test_libraries_are_loaded_by_a_program_that_runs(tmp_path):
    """Unlike glibc, musl reserves no static TLS space for libraries that are loaded later."""
    if shutil.which("musl-gcc") is None:
        pytest.skip("musl-gcc is not installed")
    compiler = ["musl-gcc", "-O1", f"-I{ROOT / 'include'}", "-D_POSIX_C_SOURCE=200809L"]
    files = [str(ROOT / "src_runtime" / name) for name in SOURCES]
    files.append(str(ROOT / "src_runtime" / "platform" / "posix_system.c"))
    library = str(tmp_path / "libpart.so")
    subprocess.run([*compiler, "-std=c11", "-shared", "-fPIC", *files, "-o", library], check=True)
    (tmp_path / "main.c").write_text(PROGRAM)
    subprocess.run([*compiler, tmp_path / "main.c", "-o", tmp_path / "main"], check=True)
    done = subprocess.run([tmp_path / "main", library], capture_output=True, text=True, check=False)
    assert done.stdout == "loaded\n"
