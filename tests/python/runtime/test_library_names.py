"""The two names of the runtime library: one file, one registry, and an ABI number for programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tvmrt import libinfo

RUNTIME = Path(libinfo.find_lib_path()[0])
VERSIONED = RUNTIME.with_name("libtvm_runtime.so.0")

PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    void* library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return printf("%s\n", dlerror()), 1;
    if (dlsym(library, "TVMFuncCall") != (void*)TVMFuncCall) return printf("two copies\n"), 1;
  }
  puts("one copy");
  return 0;
}
"""


def dynamic(path: Path, kind: str) -> list[str]:
    text = subprocess.run(
        ["readelf", "-d", path], capture_output=True, text=True, check=True
    ).stdout
    return re.findall(rf"\({kind}\).*\[(.*?)\]", text)


def build(folder: Path, source: str, *flags: str) -> Path:
    (folder / "source.c").write_text(source)
    command = ["cc", "source.c", *flags]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def build_program(folder: Path, libraries: str) -> Path:
    """Build the program above, which searches its libraries in the folder `libraries`."""
    include = libinfo.find_include_path()[0]
    links = [f"-L{RUNTIME.parent}", f"-Wl,-rpath,{libraries}", "-ltvm_runtime", "-ldl"]
    return build(folder, PROGRAM, f"-I{include}", *links, "-o", "program") / "program"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_program(tmp_path_factory.mktemp("program"), str(RUNTIME.parent))


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, env=environment, check=False
    )


def test_programs_ask_for_the_number_of_the_abi(program):
    assert dynamic(RUNTIME, "SONAME") == ["libtvm_runtime.so.0"]
    assert "libtvm_runtime.so.0" in dynamic(program, "NEEDED")


@pytest.mark.parametrize(
    "names",
    [
        ["libtvm_runtime.so"],
        ["libtvm_runtime.so.0"],
        [str(RUNTIME)],
        [str(VERSIONED), str(RUNTIME)],
    ],
    ids=["plain-name", "versioned-name", "path", "both-paths"],
)
def test_every_name_is_the_same_library(program, names):
    result = run(program, *names)
    assert result.stdout == "one copy\n"


def test_python_opens_the_library_that_it_has_loaded():
    code = (
        "import ctypes, tvmrt.runtime; from tvmrt import libinfo\n"
        "opened = ctypes.CDLL(libinfo.find_lib_path()[0])\n"
        "here = ctypes.CDLL('libtvm_runtime.so.0')\n"
        "def address(library): return ctypes.cast(library.TVMFuncCall, ctypes.c_void_p).value\n"
        "assert address(opened) == address(here)\n"
    )
    result = run(sys.executable, "-c", code)
    assert result.returncode == 0, result.stderr


def test_plug_in_that_asks_for_the_plain_name_is_loaded(program, tmp_path):
    build(tmp_path, "", "-shared", "-fPIC", "-o", "libtvm_runtime.so")
    source = "int TVMFuncCall(); void* plug_in(void) { return (void*)TVMFuncCall; }"
    flags = ["-Wl,--no-as-needed", "-shared", "-fPIC", "libtvm_runtime.so", "-o", "plug_in.so"]
    plug_in = build(tmp_path, source, *flags) / "plug_in.so"
    (tmp_path / "libtvm_runtime.so").unlink()
    assert dynamic(plug_in, "NEEDED")[0] == "libtvm_runtime.so"
    assert run(program, plug_in).stdout == "one copy\n"


def test_program_of_another_abi_is_not_started(tmp_path):
    program = build_program(tmp_path, "$ORIGIN")
    shutil.copy(RUNTIME, tmp_path / "libtvm_runtime.so")
    shutil.copy(VERSIONED, tmp_path / "libtvm_runtime.so.0")
    assert run(program).returncode == 0
    (tmp_path / "libtvm_runtime.so.0").rename(tmp_path / "libtvm_runtime.so.1")
    result = run(program)
    assert result.returncode != 0
    assert "libtvm_runtime.so.0: cannot open shared object file" in result.stderr
