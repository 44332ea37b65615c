"""Names that compilers use for the instruction sets of ISA levels, and selection of a compiler.

Flags of targets are those of GCC. The compiler of the ziglang package has its own names of
processors. If the selected compiler does not support the instructions of a level, another one
compiles the functions of that level, which are linked with the others.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tvmrt import toolchains
from tvmrt.error import CompileError
from tvmrt.option_syntax import option

_ZIG = {
    "-march=armv8.2-a+dotprod": "-mcpu=generic+v8_2a+dotprod",
    "-march=armv8.2-a+dotprod+i8mm": "-mcpu=generic+v8_2a+dotprod+i8mm",
    "-march=armv8.2-a+dotprod+i8mm+bf16": "-mcpu=generic+v8_2a+dotprod+i8mm+bf16",
    "-march=armv7-a+fp": "-mcpu=generic+v7a+vfp3d16",
    "-march=armv7-a+simd": "-mcpu=generic+v7a+neon",
    "-march=rv64gcv": "-mcpu=baseline_rv64+v",
}
# By default GCC allocates 128 MB before its first garbage collection. Starting at 8 MB, a file of
# kernels takes 63 MB instead of 111 MB, in the same time.
GCC_SMALL_HEAP = "--param=ggc-min-heapsize=8192"
# Without copies of unrolled loops, kernels for float32 compile in 0.8 of the time and are as fast;
# those for int8 would be 1 to 2 % slower.
GCC_FEW_COPIES = "-fno-thread-jumps"
# Flags only for GCC; the last allows vector moves of any alignment.
_GCC_ONLY = (GCC_SMALL_HEAP, GCC_FEW_COPIES, "-Wa,-muse-unaligned-vector-move")
# Flags that many compilers do not support yet, and a condition for full support. GCC accepts the
# first from version 12, and has its intrinsics from version 14; it has AMX from version 11.
_RECENT_FLAGS = {
    "-march=rv64gcv": "defined(__riscv_vector) && (defined(__clang__) || __GNUC__ >= 14)",
    "-mamx-bf16": "defined(__AMX_BF16__)",
}
# Clang before 16 needs a flag to map vectors of fixed size to vectors of the processor.
_CLANG = {"-march=rv64gcv": ("-mabi=lp64d", "-mllvm", "-riscv-v-vector-bits-min=128")}
# Macros of compilers for other systems and processors, by their triples.
_MACROS = {
    "aarch64-linux-gnu": ("__linux__", "__aarch64__"),
    "riscv64-linux-gnu": ("__linux__", "__riscv"),
    "arm-linux-gnueabihf": ("__linux__", "__arm__"),
    "x86_64-w64-mingw32": ("_WIN32", "__x86_64__"),
    "x86_64-macos": ("__APPLE__", "__x86_64__"),
    "aarch64-macos": ("__APPLE__", "__aarch64__"),
}


def check_system(command: Sequence[str], triple: str) -> None:
    """Raise CompileError for a compiler that compiles for another system than a triple names.

    Zig is called with the triple.
    """
    truth = " && ".join(f"defined({macro})" for macro in _MACROS.get(triple, ()))
    if truth and not toolchains.is_zig(command) and not _accepts_flags(tuple(command), truth):
        raise CompileError(
            f"C compiler {toolchains.name_of(command)} does not compile for {triple}; give a "
            f"cross compiler with {option('cc')}, or omit that option"
        )


def translate_flags(command: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Translate flags of targets for this compiler."""
    is_zig = toolchains.is_zig(command)
    if is_zig or "clang" in Path(command[0]).name:
        flags = [flag for flag in flags if flag not in _GCC_ONLY]
    return [_ZIG.get(flag, flag) for flag in flags] if is_zig else list(flags)


def short_compile(command: Sequence[str]) -> list[str]:
    """Return flags that save time and memory of GCC, and none for other compilers."""
    flags = [GCC_SMALL_HEAP, GCC_FEW_COPIES]
    if toolchains.is_zig(command):
        return []
    return flags if _accepts_flags((*command, *flags), "!defined(__clang__)") else []


def flags_of_file(flags: Sequence[str], source: Path) -> list[str]:
    """Return the flags of ``short_compile`` that a C file should have."""
    is_float = b"_f32.h" in source.read_bytes()
    return [flag for flag in flags if is_float or flag != GCC_FEW_COPIES]


def compiler_for_level(command: Sequence[str], triple: str, flags: Sequence[str]) -> list[str]:
    """Return a compiler with the flags of a level: the given one, or if it does not support them
    clang or the ziglang package. Raise CompileError if none does."""
    flag = next((flag for flag in flags if flag in _RECENT_FLAGS), None)
    if flag is None or toolchains.is_zig(command):  # zig has all of them
        return [*command, *translate_flags(command, flags)]
    more = tuple(translate_flags(command, flags))
    if _accepts_flags((*command, *more), _RECENT_FLAGS[flag]):
        return [*command, *more]
    clang = [
        "clang",
        *([f"--target={triple}", "-isystem", f"/usr/{triple}/include"] if triple else []),
        *translate_flags(["clang"], flags),
        *_CLANG.get(flag, ()),
    ]
    if shutil.which("clang") and _accepts_flags(tuple(clang), _RECENT_FLAGS[flag]):
        return clang
    if zig := toolchains.zig(triple):
        return [*zig, *translate_flags(zig, flags)]
    advice = toolchains.INSTALL_CROSS if triple else toolchains.INSTALL_CC
    raise CompileError(
        f"C compiler {command[0]} does not support {flag}, and neither clang nor the "
        f"ziglang package is installed; install one, for example with: {advice}; or "
        "choose levels without that one"
    )


@lru_cache(maxsize=16)
def _accepts_flags(command: tuple[str, ...], truth: str) -> bool:
    """Return whether a compiler accepts these flags and ``truth`` holds with them."""
    text = f"#include <stdint.h>\n#if !({truth})\n#error\n#endif\n"
    try:
        done = subprocess.run(
            [*command, "-x", "c", "-fsyntax-only", "-"],
            input=text, check=False, capture_output=True, text=True,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0
