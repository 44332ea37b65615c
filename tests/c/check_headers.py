"""Compile each public header alone, in every language that may include it, and check the layouts.

Usage: check_headers.py INCLUDE_FOLDER LAYOUT_C
       check_headers.py --kernels INCLUDE_FOLDER    kernels in more dialects, for boards too
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
# Kernels in one dialect of each language, and in all dialects that differ, also for boards.
_PICOLIBC = ["--specs=picolibc.specs", "-mthumb"]
KERNELS = [("gcc", "c", "c99", []), ("g++", "c++", "c++11", [])]
MORE_KERNELS = [
    ("gcc", "c", "c11", ["-march=x86-64-v4"]),
    ("clang", "c", "c99", []),
    ("clang++", "c++", "c++20", ["-march=x86-64-v4"]),
    ("arm-none-eabi-gcc", "c", "c99", [*_PICOLIBC, "-mcpu=cortex-m0plus"]),
    ("arm-none-eabi-gcc", "c", "c11", [*_PICOLIBC, "-mcpu=cortex-m4"]),
    ("arm-none-eabi-g++", "c++", "c++11", [*_PICOLIBC, "-mcpu=cortex-m55", "-mfloat-abi=hard"]),
]
# Headers of tile/ that another header includes after its requirements, or for one processor:
# alone they stop with one error that reports it.
PARTS = {
    *(
        f"tile/{name}.h"
        for name in ("amx", "gemm_bf16_amx", "gemm_i8_amx", "gemm_i8_i8mm", "requantize_i8_amx")
    ),
    *(
        f"tile/simd_i8_{name}.h"
        for name in ("avx2", "avx512vnni", "formats", "neon", "rvv", "sse41", "wasm", "x86_fixed")
    ),
}
# Freestanding, so that no C library of the target is needed.
TARGETS = ["x86_64-linux-gnu", "i386-linux-gnu", "armv7m-none-eabi", "riscv32-unknown-elf"]


def compile_text(command: list[str], text: str) -> str:
    result = subprocess.run(
        [*command, "-"], input=text, capture_output=True, text=True, check=False
    )
    return "" if result.returncode == 0 else result.stderr


def is_cxx(header: Path) -> bool:
    """Return True if a header is for C++ only."""
    text = header.read_text(encoding="utf-8")
    return "\nnamespace tvm {" in text or "#include <tvm/runtime/cxx_" in text


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


def stops(error: str, name: str) -> bool:
    """Return True if the only error of a header is its own, which names the missing definition."""
    lines = [line for line in error.splitlines() if " error: " in line]
    (line,) = lines if len(lines) == 1 else [""]
    said = line.partition(f"{name} ")[2]
    return any(word in said for word in ("define TVMRT_", "defines TVMRT_", "__"))


def check_kernels(include: Path, dialects: list[tuple[str, str, str, list[str]]]) -> list[str]:
    """Compile each kernel header alone, in each dialect of the installed compilers."""
    failures = []
    folder = include / "tvm" / "runtime" / "kernels"
    names = {header.relative_to(folder).as_posix() for header in folder.rglob("*.h")}
    for compiler, language, standard, flags in dialects:
        if shutil.which(compiler) is None:
            print(f"skipped: there is no {compiler}")
            continue
        # generated code calls some functions of a kernel, not all
        command = [compiler, "-x", language, f"-std={standard}", *WARNINGS, *flags]
        command.append("-Wno-unused-function")
        if language == "c++":
            command.remove("-Wpedantic")  # vectors as initialisers
        for name in sorted(names):
            text = f"#include <tvm/runtime/kernels/{name}>\ntypedef int tvmrt_header_check;\n"
            error = compile_text([*command, f"-I{include}"], text)
            if error and not (name in PARTS and stops(error, name)):
                failures.append(f"kernels/{name} as {standard} by {compiler}:\n{error}")
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
    if sys.argv[1] == "--kernels":
        failures = check_kernels(Path(sys.argv[2]), MORE_KERNELS)
        print("\n".join(failures))
        return 1 if failures else 0
    include, layout = (Path(argument) for argument in sys.argv[1:])
    failures = check_alone(include) + check_kernels(include, KERNELS)
    failures += check_layouts(include, layout)
    print("\n".join(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
