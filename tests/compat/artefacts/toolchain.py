"""Compile artefact sources to libraries and programs, and run programs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tvmrt import libinfo

SOURCES = Path(__file__).parent


def find_compiler(*names: str) -> str:
    """Return the first installed compiler of a list; skip the test if there is none."""
    for name in names or (os.environ.get("CC", "cc"), "cc", "gcc", "clang"):
        if shutil.which(name):
            return name
    pytest.skip(f"none of {', '.join(names or ('cc', 'gcc', 'clang'))} is installed")


def includes() -> list[str]:
    """Return the compiler options for this project's headers."""
    return [f"-I{folder}" for folder in libinfo.find_include_path()]


def execute(command: Sequence[object], **options: object) -> str:
    """Run a command and return its output; fail the test with its error text if it fails."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    if done.returncode != 0:
        pytest.fail(f"{command[0]} ended with {done.returncode}: {done.stderr}{done.stdout}")
    return done.stdout


def source(name: str) -> Path:
    """Return a C file of this folder."""
    return SOURCES / name


def blob_source(blob: bytes, symbol: str = "__tvm_dev_mblob") -> str:
    """Return the C text that the packer of the C target writes for a module tree."""
    digits = ", ".join(f"0x{byte:02x}" for byte in blob)
    return (
        "#ifdef __cplusplus\n"
        'extern "C" {\n'
        "#endif\n"
        "#if defined(__GNUC__)\n"
        '#define TVM_EXPORT __attribute__((visibility("default")))\n'
        "#endif\n"
        f"TVM_EXPORT extern const unsigned char {symbol}[];\n"
        f"const unsigned char {symbol}[{len(blob)}] = {{ {digits} }};\n"
        "#ifdef __cplusplus\n"
        "}\n"
        "#endif\n"
    )


def shared_library(
    output: Path,
    *sources: Path,
    blob: bytes | None = None,
    defines: Iterable[str] = (),
    compiler: str | None = None,
    flags: Iterable[str] = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"),
) -> Path:
    """Compile C files to a shared library, with a module tree if there is one."""
    files = list(sources)
    if blob is not None:
        devc = output.with_suffix(".devc.c")
        devc.write_text(blob_source(blob))
        files.append(devc)
    macros = [f"-D{macro}" for macro in defines]
    command = [compiler or find_compiler(), "-O1", "-fPIC", "-shared", *flags, *macros]
    execute([*command, *includes(), "-o", output, *files])
    return output


def object_file(output: Path, source: Path, defines: Iterable[str] = ()) -> Path:
    """Compile one file."""
    macros = [f"-D{macro}" for macro in defines]
    execute([find_compiler(), "-std=c99", "-O1", "-c", *macros, *includes(), "-o", output, source])
    return output


def program(
    output: Path,
    *sources: Path,
    libraries: Iterable[object] = (),
    defines: Iterable[str] = (),
    flags: Iterable[str] = ("-std=c99",),
    headers: Path | None = None,
) -> Path:
    """Compile and link a program, with the project's headers or the given ones."""
    macros = [f"-D{macro}" for macro in defines]
    folders = includes() if headers is None else [f"-I{headers}"]
    command = [find_compiler(), "-O1", *flags, *macros, *folders]
    execute([*command, "-o", output, *sources, *libraries])
    return output


def runtime_archive() -> list[object]:
    """Return the archive for programs that contain the whole runtime."""
    archive = Path(libinfo.find_lib_path("libtvm_runtime.a")[0])
    return [archive, "-pthread", "-ldl", "-lm"]


def backend_archive() -> list[object]:
    """Return the archive for generated code on a board."""
    return [Path(libinfo.find_lib_path("libtvm_backend.a")[0])]
