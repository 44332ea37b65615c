"""Compile each public header alone, in every language that may include it, and pin the layouts.

Usage: check_headers.py INCLUDE_FOLDER LAYOUT_C
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
COMPILERS = [
    ("gcc", "c", ["c99", "c11"]),
    ("clang", "c", ["c99", "c11"]),
    ("g++", "c++", ["c++11", "c++20"]),
    ("clang++", "c++", ["c++11", "c++20"]),
]
# What generated code and headers of tiles say before they include a kernel.
DEFINED = ["-DTVMRT_SLAB_LAYERS=8", "-DTVMRT_MATMUL_BF16_BYTES=65536"]
# Parts of another header, which defines what they need: the form of a tile, or of bytes' products.
PARTS = {
    *(f"board/{name}.h" for name in ("conv_walk_i8", "two_windows_i8", "window_bytes_i8")),
    *(f"tile/{name}.h" for name in ("amx_i8", "amx_bytes_i8", "formats_i8")),
    *(f"tile/{name}_i8.h" for name in ("avx2", "i8mm", "neon", "rvv", "sse", "vnni")),
}
# Freestanding, so that no C library of the target is needed.
TARGETS = ["x86_64-linux-gnu", "i386-linux-gnu", "armv7m-none-eabi", "riscv32-unknown-elf"]


def compile_text(command: list[str], text: str) -> str:
    result = subprocess.run(
        [*command, "-"], input=text, capture_output=True, text=True, check=False
    )
    return "" if result.returncode == 0 else result.stderr


def is_cxx(header: Path) -> bool:
    """Whether a header is for C++ alone."""
    return "\nnamespace tvm {" in header.read_text(encoding="utf-8")


def check_alone(include: Path) -> list[str]:
    failures = []
    headers = sorted(p.relative_to(include) for p in include.rglob("*.h"))
    cxx = {header for header in headers if is_cxx(include / header)}
    for compiler, language, standards in COMPILERS:
        if shutil.which(compiler) is None:
            print(f"skipped: there is no {compiler}")
            continue
        for header in (h for h in headers if "kernels" not in h.parts):
            if language == "c" and header in cxx:
                continue
            # those for C++ alone are long: the oldest dialect by one, the newest by the other
            chosen = standards if header not in cxx else [standards[compiler == "clang++"]]
            for standard in chosen:
                command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, f"-I{include}"]
                text = f"#include <{header}>\ntypedef int tvmrt_header_check;\n"
                error = compile_text(command, text)
                if error:
                    failures.append(f"{header} as {standard} by {compiler}:\n{error}")
    return failures


def check_kernels(include: Path) -> list[str]:
    failures = []
    folder = include / "tvm" / "runtime" / "kernels"
    names = {header.relative_to(folder).as_posix() for header in folder.rglob("*.h")}
    for compiler in filter(shutil.which, ("gcc", "clang")):
        # a file of generated code calls some functions of a kernel, not all
        command = [compiler, "-x", "c", "-std=c99", *WARNINGS, "-Wno-unused-function", *DEFINED]
        for name in sorted(names - PARTS):
            text = f"#include <tvm/runtime/kernels/{name}>\ntypedef int tvmrt_header_check;\n"
            error = compile_text([*command, f"-I{include}"], text)
            if error:
                failures.append(f"kernels/{name} by {compiler}:\n{error}")
    return failures + [f"there is no kernels/{name}" for name in sorted(PARTS - names)]


def check_layouts(include: Path, layout: Path) -> list[str]:
    if shutil.which("clang") is None:
        print("skipped: layouts of other targets need clang")
        return []
    failures = []
    for target in TARGETS:
        command = ["clang", f"--target={target}", "-ffreestanding", "-std=c11", "-x", "c"]
        error = compile_text([*command, *WARNINGS, f"-I{include}"], layout.read_text())
        if error:
            failures.append(f"layout on {target}:\n{error}")
    return failures


def main() -> int:
    include, layout = (Path(argument) for argument in sys.argv[1:])
    failures = check_alone(include) + check_kernels(include) + check_layouts(include, layout)
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
