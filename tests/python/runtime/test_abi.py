"""The ABI equals the snapshot in tests/abi; incompatible changes are reported."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tools

ABI = Path(__file__).resolve().parents[2] / "abi"
sys.path.insert(0, str(ABI))

pytest.importorskip("elftools", reason="pyelftools reads debug information")

import abi  # noqa: E402

pytestmark = pytest.mark.skipif(sys.maxsize < 2**32, reason="the snapshot is for 64-bit machines")


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    tools.need("nm")
    command = [sys.executable, ABI / "abi.py", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_abi_matches_the_snapshot(compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    result = run("--compiler", compiler)
    assert result.returncode == 0, result.stdout + result.stderr


BREAKS = {
    "removed field": (
        "dlpack/dlpack.h",
        r"  int32_t ndim;",
        "",
        "removed: DLTensor.ndim at 16: int32_t",
    ),
    "narrower field": (
        "tvm/runtime/metadata.h",
        r"int64_t num_shape;",
        "int32_t num_shape;",
        "now:     struct TVMTensorInfo.num_shape at 16: int32_t",
    ),
    "another slot in a device": (
        "tvm/runtime/device.h",
        r"(struct tvmrt_device_interface \{)",
        r"\1 void (*first)(void);",
        "added:   struct tvmrt_device_interface.first at 0: void (*)(void)",
    ),
    "another error code": (
        "tvm/runtime/error_codes.h",
        r"FunctionRegistryFull, FunctionRegistry, 2\)",
        "FunctionRegistryFull, FunctionRegistry, 7)",
        "kTvmErrorFunctionRegistryFull = 263",
    ),
    "another constant": (
        "tvm/runtime/device.h",
        r"#define TVMRT_DEVICE_BUSY 1",
        "#define TVMRT_DEVICE_BUSY 2",
        "now:     macro TVMRT_DEVICE_BUSY = 2",
    ),
    "another type of a parameter": (
        "tvm/runtime/c_runtime_api.h",
        r"(TVMModImport\(TVMModuleHandle \w+, )TVMModuleHandle",
        r"\1const char*",
        "now:     defines int32 TVMModImport(TVMModuleHandle, const char*)",
    ),
    "one parameter more": (
        "tvm/runtime/c_runtime_api.h",
        r"(TVMModFree\(TVMModuleHandle \w+)\)",
        r"\1, int deep)",
        "now:     defines int32 TVMModFree(TVMModuleHandle, int32)",
    ),
    "another result": (
        "tvm/runtime/c_packed_func.h",
        r"const char\* TVMGetLastError\(",
        "char* TVMGetLastError(",
        "now:     defines char* TVMGetLastError(void)",
    ),
}


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", BREAKS)
def test_changed_header_is_reported(name, tmp_path):
    header, pattern, replacement, expected = BREAKS[name]
    include = tmp_path / "include"
    shutil.copytree(abi.installed()[0], include, ignore=shutil.ignore_patterns("kernels"))
    path = include / header
    text, count = re.subn(pattern, replacement, path.read_text())
    assert count > 0
    path.write_text(text)
    result = run("--include", include)
    assert result.returncode == 1, result.stderr
    assert expected in result.stdout
    assert "abi-stability.md" in result.stdout


def stand_in(folder: Path, names: list[str]) -> Path:
    """Build a library that exports `names` and has the runtime's file name."""
    path = folder / "libtvm_runtime.so"
    source = "".join(f"void {name}(void) {{}}\n" for name in names)
    source += "extern char TVMSystemLibEntryPoint __attribute__((weak));\n"
    source += "void* of_program(void) { return &TVMSystemLibEntryPoint; }\n"
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    return path


def test_added_and_removed_symbols_are_reported(tmp_path):
    facts = abi.read_snapshot()["libtvm_runtime.so.txt"]
    names = [f.split("(")[0].split()[-1] for f in facts if f.startswith("defines ")]
    names[names.index("TVMFuncRemoveGlobal")] = "TVMFuncForgetGlobal"
    result = run(stand_in(tmp_path, names))
    assert result.returncode == 1
    assert "removed: defines int32 TVMFuncRemoveGlobal(const char*)" in result.stdout
    assert "added:   defines TVMFuncForgetGlobal: in no public header" in result.stdout


@pytest.mark.skipif(shutil.which("abidiff") is None, reason="libabigail is not installed")
def test_libabigail_agrees_about_the_sizes_of_structs(tmp_path):
    source = tmp_path / "all.c"
    headers = [h for h in abi.public_headers(abi.installed()[0]) if "crt" not in h.parts]
    source.write_text("".join(f"#include <{h}>\n" for h in headers) + "DLManagedTensor managed;\n")
    library = tmp_path / "all.so"
    include = f"-I{abi.installed()[0]}"
    subprocess.run(["cc", "-g", "-shared", "-fPIC", include, source, "-o", library], check=True)
    dump = subprocess.run(["abidw", library], capture_output=True, text=True, check=True).stdout
    facts = abi.read_snapshot()["types.txt"]
    for name in ("DLTensor", "DLManagedTensor", "DLDataType", "DLDevice"):
        bits = re.search(rf"<class-decl name='{name}' size-in-bits='(\d+)'", dump)
        size = next(f for f in facts if re.fullmatch(rf"(struct )?{name}: \d+ bytes", f))
        assert int(bits[1]) == 8 * int(size.split()[-2])
