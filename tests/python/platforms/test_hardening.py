"""Hardening of each library of the package, checked by its ELF headers."""

from __future__ import annotations

import io
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from elf_hardening import symbols, weaknesses
from elftools.elf.elffile import ELFFile

from tvmrt.libinfo import find_lib_path
from tvmrt.runtime import _capi, _core

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libraries here are no ELF files")


def libraries() -> list[Path]:
    """Return all shared libraries of the package."""
    folder = Path(find_lib_path()[0]).parent
    modules = [Path(module.__file__) for module in (_capi, _core)]
    found = [*folder.glob("lib*.so*"), *(folder / "devices").glob("*.so"), *modules]
    return sorted({path.resolve() for path in found if path.is_file()})


@pytest.mark.parametrize("path", libraries(), ids=lambda path: path.name.split(".so")[0])
def test_a_shared_library_has_all_defences(path):
    if b"__asan_init" in path.read_bytes() or b"__gcov_" in path.read_bytes():
        pytest.skip("built with sanitizers or counters of lines")
    # build folders reserve space for the installed path
    assert [each for each in weaknesses(path) if not re.search(r"libraries in X+$", each)] == []


# A call from Python runs these functions; the one between them checks the canary of the call.
HOT = ("function_vectorcall", "args_pack", "value_to_python")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads code of x86-64")
@pytest.mark.parametrize("name", HOT)
def test_call_checks_one_canary(name):
    """Locals whose addresses are taken belong in the functions of rare cases."""
    command = ["objdump", "-d", f"--disassemble={name}", _core.__file__]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if f"<{name}>:" not in code:
        pytest.skip("the symbols were stripped, or the compiler has inlined the function")
    assert "%fs:0x28" not in code


@pytest.mark.parametrize("name", ["libtvm_backend.a", "libtvm_firmware.a"])
def test_static_library_has_canaries_and_is_libc_independent(name, tmp_path):
    if shutil.which("ar") is None:
        pytest.skip("needs ar")
    path = Path(find_lib_path(name)[0]).resolve()
    members = subprocess.run(["ar", "t", path], capture_output=True, text=True, check=True).stdout
    needed: set[str] = set()
    for member in members.split():
        data = subprocess.run(["ar", "p", path, member], capture_output=True, check=True).stdout
        needed |= symbols(ELFFile(io.BytesIO(data)), ".symtab")[1]
    assert "__stack_chk_fail" in needed
    assert not {name for name in needed if name.endswith("_chk")}


def test_weaknesses_are_detected(tmp_path):
    """A library that was built without hardening lacks every property."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    source = tmp_path / "weak.c"
    source.write_text("int mine(void) { return 1; }\n")
    weak = tmp_path / "libtvmrt_device_weak.so"
    flags = ["-fno-stack-protector", "-fcf-protection=none", "-Wl,-z,norelro", "-Wl,-z,lazy"]
    more = ["-Wl,-z,execstack", "-Wl,-rpath,/opt/lib", "-Wl,--enable-new-dtags"]
    done = subprocess.run(
        ["cc", "-shared", "-fPIC", source, "-o", weak, *flags, *more], check=False
    )
    if done.returncode != 0:
        pytest.skip("the compiler knows no such flags")
    found = weaknesses(weak)
    for each in ("tables", "bound when", "stack can", "/opt/lib", "no canaries", "no checked",
                 "mine is exported"):  # fmt: skip
        assert any(each in line for line in found), (each, found)
