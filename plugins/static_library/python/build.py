"""Calls of the C compiler and of the archiver."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tvmrt import toolchains
from tvmrt.compiler.sdk.codegen import Target
from tvmrt.compiler.sdk.export import (
    CFLAGS,
    find_compiler,
    further_flags,
    run_compiler,
    scratch_folder,
    tools_of,
)
from tvmrt.error import CompileError
from tvmrt.libinfo import find_include_path
from tvmrt.option_syntax import option

_PICOLIBC = "--specs=picolibc.specs"
_NO_ASSEMBLY = "-DTVMRT_MICRO_ASM=0"
_COMPILER_NAME = re.compile(r"(gcc|clang|cc)(-[\d.]+)?(\.exe)?$")


class Builder:
    """Compiles C files for a target and archives the objects; ``name`` is the file for errors.

    Objects and archives of equal sources by one compiler have equal bytes.
    Raises CompileError if no compiler or archiver is installed.
    """

    def __init__(self, target: Target, cc: str | None, name: str) -> None:
        self._target = target
        command = _find_compiler(target, cc, name)
        self._archiver = _find_archiver(command, name)
        clang = _predefines(command, "__clang__")
        if not _has_math_header(command):
            command.append(_PICOLIBC)
        # kernels in assembly make clang's -Oz as fast as GCC's -Os, as in the archive's Makefile
        assembly = "dsp" in (target.board or ())
        usual = ("-Oz" if clang and assembly and flag == "-Os" else flag for flag in CFLAGS)
        includes = [f"-I{folder}" for folder in find_include_path()]
        shared = ["-fPIC"] if target.hosted else []  # for programs and libraries at any address
        self._command = [*command, "-std=c99", *target.flags, *usual, *shared, "-I.", *includes]
        self._may_lack_assembly = not {"dsp", "rvv"}.isdisjoint(target.board or ())

    def compile(
        self, folder: Path, files: Mapping[str, str], flags: Mapping[str, Sequence[str]]
    ) -> list[str]:
        """Compile C files in a folder, in parallel; return the objects' names, sorted.

        ``files`` maps the name that an object is called after to the path of a C file in the
        folder; ``flags`` are additional options of single files. Raises CompileError with the
        compiler's first error.
        """
        names = sorted(files)
        objects = [f"{Path(name).stem}.o" for name in names]

        further = further_flags()
        if any(flag.startswith("-g") for flag in further):  # debug information has no own paths
            folders = {folder: ".", **dict.fromkeys(find_include_path(), "include")}
            further += [f"-ffile-prefix-map={path}={short}" for path, short in folders.items()]

        def compile_one(name: str, made: str) -> None:
            options = [*flags.get(name, ()), *further]
            self._compile_one([*options, "-c", files[name], "-o", made], folder)

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            list(pool.map(compile_one, names, objects))
        return objects

    def _compile_one(self, arguments: Sequence[str], folder: Path) -> None:
        try:
            run_compiler([*self._command, *arguments], folder)
        except CompileError:
            if not self._may_lack_assembly:
                raise
            try:  # the same results by C in place of assembly
                run_compiler([*self._command, _NO_ASSEMBLY, *arguments], folder)
                return
            except CompileError:
                pass
            raise

    def archive(self, folder: Path, objects: Sequence[str]) -> bytes:
        """Return an archive of objects in a folder, with a symbol table and without dates. Raises
        CompileError with the archiver's error."""
        command = [*self._archiver, "rcsD", "network.a", *objects]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
            stdin=subprocess.DEVNULL, env=toolchains.environment(command, folder),
        )  # fmt: skip
        if done.returncode != 0:
            raise CompileError(
                f"archiver {command[0]} failed with code {done.returncode}: "
                f"{done.stderr.strip() or 'no message'}"
            )
        return (folder / "network.a").read_bytes()


def _find_compiler(target: Target, cc: str | None, name: str) -> list[str]:
    """Return the command of the given compiler, or of the target's usual one."""
    if cc is not None or target.board is None:
        return find_compiler(cc, target.triple)
    command = shlex.split(tools_of(target)[0])
    if shutil.which(command[0]) is None:
        raise CompileError(
            f"{name}: {command[0]} is not installed, which compiles for {target.name}; install it, "
            f"or give another compiler with {option('cc')}"
        )
    return command


def _find_archiver(compiler: Sequence[str], name: str) -> list[str]:
    """Return the command of the compiler's archiver, or of another one that reads its objects."""
    if toolchains.is_zig(compiler):
        return toolchains.zig_tool(compiler, "ar")
    own = _COMPILER_NAME.sub("ar", compiler[0])
    candidates = dict.fromkeys([own, Path(own).name, "llvm-ar", "ar"])
    for candidate in candidates:
        if candidate != compiler[0] and shutil.which(candidate):
            return [candidate]
    raise CompileError(
        f"{name}: no archiver is installed (tried {', '.join(candidates)}); install the binutils "
        f"of {compiler[0]}, or write a folder or a .tar"
    )


def _predefines(command: Sequence[str], macro: str) -> bool:
    """Return whether a compiler defines a macro."""
    done = _preprocess([*command, "-dM"])
    return done.returncode == 0 and re.search(rf"#define {macro}\b", done.stdout) is not None


def _has_math_header(command: Sequence[str]) -> bool:
    """Return whether a compiler finds a C library's headers without options."""
    return _preprocess([*command, "-include", "math.h"]).returncode == 0


def _preprocess(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Preprocess an empty file. Raises CompileError if the compiler cannot be run."""
    try:
        with scratch_folder() as folder:
            return subprocess.run(
                [*command, "-E", "-x", "c", "-"], input="", capture_output=True, text=True,
                errors="replace", check=False, env=toolchains.environment(command, folder),
            )  # fmt: skip
    except OSError as problem:
        name = toolchains.name_of(command)
        raise CompileError(f"C compiler {name} cannot be run: {problem}") from problem
