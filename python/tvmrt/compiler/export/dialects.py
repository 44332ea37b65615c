"""What compilers call the instructions of levels, and which of them knows the latest.

Flags of targets are those of GCC. The ziglang wheel's compiler has names of its own for processors.
Where the compiler at hand does not know the instructions of a level, another one compiles the
functions of that level, which are linked with the rest.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tvmrt.error import CompileError

# What a system's own compilers are called is not always how zig calls the system.
ZIG_TRIPLES = {"x86_64-w64-mingw32": "x86_64-windows-gnu"}
_ZIG = {
    "-march=armv8.2-a+dotprod": "-mcpu=generic+v8_2a+dotprod",
    "-march=armv8.2-a+dotprod+i8mm": "-mcpu=generic+v8_2a+dotprod+i8mm",
    "-march=armv8.2-a+dotprod+i8mm+bf16": "-mcpu=generic+v8_2a+dotprod+i8mm+bf16",
    "-march=armv7-a+fp": "-mcpu=generic+v7a+vfp3d16",
    "-march=armv7-a+simd": "-mcpu=generic+v7a+neon",
    "-march=rv64gcv": "-mcpu=baseline_rv64+v",
}
# GCC takes 128 MB before it first looks for what it no longer needs; a file of kernels takes 63 MB
# for 111 MB if it looks from 8 MB on, in the same time.
FRUGAL = "--param=ggc-min-heapsize=8192"
# What GCC alone has to be told; the second: moves of vectors that may lie anywhere.
_OF_GCC = (FRUGAL, "-Wa,-muse-unaligned-vector-move")
# Flags that many compilers do not know yet, and what is true of one that does. GCC takes the first
# from version 12 on, and has instructions for it from version 14 on; it has AMX from 11 on.
_LATE = {
    "-march=rv64gcv": "defined(__riscv_vector) && (defined(__clang__) || __GNUC__ >= 14)",
    "-mamx-bf16": "defined(__AMX_BF16__)",
}
# Clang before 16 has to be told that vectors of a known size are vectors of the processor.
_CLANG = {"-march=rv64gcv": ("-mabi=lp64d", "-mllvm", "-riscv-v-vector-bits-min=128")}


def zig(triple: str = "") -> list[str]:
    """The command of the ziglang wheel's compiler; empty where it is not installed."""
    if importlib.util.find_spec("ziglang") is None:
        return []
    name = ZIG_TRIPLES.get(triple, triple)
    return [sys.executable, "-m", "ziglang", "cc", *(("-target", name) if name else ())]


def speak(command: Sequence[str], flags: Sequence[str]) -> list[str]:
    """Flags of targets as this compiler calls them."""
    is_zig = "ziglang" in command
    if is_zig or "clang" in Path(command[0]).name:
        flags = [flag for flag in flags if flag not in _OF_GCC]
    return [_ZIG.get(flag, flag) for flag in flags] if is_zig else list(flags)


def for_level(command: Sequence[str], triple: str, flags: Sequence[str]) -> list[str]:
    """A compiler with the flags of a level: the given one, or where it does not know them clang or
    the ziglang wheel. Raises CompileError where none does."""
    late = next((flag for flag in flags if flag in _LATE), None)
    if late is None:
        return [*command, *speak(command, flags)]
    more = tuple(speak(command, flags))
    if _knows((*command, *more), _LATE[late]):
        return [*command, *more]
    clang = [
        "clang",
        *([f"--target={triple}", *_headers(triple)] if triple else []),
        *speak(["clang"], flags),
        *_CLANG.get(late, ()),
    ]
    if shutil.which("clang") and _knows(tuple(clang), _LATE[late]):
        return clang
    if zig(triple):
        return [*zig(triple), *speak(zig(triple), flags)]
    raise CompileError(
        f"C compiler {command[0]} does not know {late}, nor is there clang or the ziglang package; "
        "install one, for example with: pip install ziglang; or leave that level out with levels"
    )


def _headers(triple: str) -> list[str]:
    """Where Debian has the headers of another system."""
    folder = Path("/usr", triple, "include")
    return ["-isystem", str(folder)] if folder.is_dir() else []


@lru_cache(maxsize=16)
def _knows(command: tuple[str, ...], truth: str) -> bool:
    """Whether a compiler takes these flags, and then has what they stand for."""
    text = f"#include <stdint.h>\n#if !({truth})\n#error\n#endif\n"
    try:
        done = subprocess.run(
            [*command, "-x", "c", "-fsyntax-only", "-"],
            input=text, check=False, capture_output=True, text=True,
        )  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0
