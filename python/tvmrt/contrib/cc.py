"""Names of ``tvm.contrib.cc``: build libraries and programs with the installed C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, Union

from tvmrt import toolchains

__all__ = ["create_executable", "create_shared", "cross_compiler", "get_cc"]

Objects = Union[str, Sequence[str]]
_COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")


def get_cc() -> str | None:
    """Return the compiler that ``CXX`` or ``CC`` names, or the first that is installed."""
    for variable in ("CXX", "CC"):
        if os.environ.get(variable, "").strip():
            return os.environ[variable]
    return next((name for name in _COMPILERS if shutil.which(name)), None)


def create_shared(
    output: str,
    objects: Objects,
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Link objects and sources to a shared library.

    Parameters
    ----------
    output
        Path of the library.
    objects
        Objects, archives or C sources.
    options
        Further options of the compiler.
    cc
        The compiler; the result of get_cc(), or the ziglang package's, if None.
    cwd
        Its working directory.
    ccache_env
        Variables for ccache; if given, ccache is used.

    Raises
    ------
    ValueError
        If there is no compiler.
    RuntimeError
        If the compiler fails; the text contains its output.
    """
    link(["-shared", "-fPIC"], output, objects, options, cc, cwd, ccache_env)


def create_executable(
    output: str,
    objects: Objects,
    options: Sequence[str] | None = None,
    cc: str | None = None,
    cwd: str | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Link objects and sources to a program; the parameters are those of create_shared()."""
    link([], output, objects, options, cc, cwd, ccache_env)


def get_target_triple_of(cc: str | None = None) -> Callable[[], str | None]:
    """Return a function that returns a compiler's target triple, or None without a compiler."""

    def get_target_triple() -> str | None:
        compiler = cc or get_cc()
        command = _words_of(compiler) if compiler else []
        if not command or not shutil.which(command[0]):
            return None
        done = subprocess.run([*command, "-dumpmachine"], capture_output=True, check=False)
        return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None

    return get_target_triple


def cross_compiler(
    compile_func: str | Callable[..., Any],
    options: Sequence[str] | None = None,
    output_format: str | None = None,
    get_target_triple: Callable[[], str | None] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Return a function like create_shared() for another compiler.

    Parameters
    ----------
    compile_func
        Name of a compiler, or a function like create_shared().
    options
        Options before those of each call.
    output_format
        File suffix of the result; if None, the function's own or "so".
    get_target_triple
        A function that returns the target triple.
    add_files
        Further files to link.
    """
    base = [*(options or [])]
    more = [*(add_files or [])]
    compiler = compile_func if isinstance(compile_func, str) else None

    def compile_objects(
        outputs: str, objects: Objects, options: Sequence[str] | None = None
    ) -> None:
        given = [objects] if isinstance(objects, str) else [*objects]
        both = [*base, *(options or [])]
        if isinstance(compile_func, str):
            create_shared(outputs, [*given, *more], both, compile_func)
        else:
            compile_func(outputs, [*given, *more], options=both)

    known = getattr(compile_func, "output_format", "so")
    triple = get_target_triple_of(compiler) if compiler is not None else None
    made: Any = compile_objects
    made.output_format = output_format or known
    made.get_target_triple = (
        get_target_triple or triple or getattr(compile_func, "get_target_triple", None)
    )
    return compile_objects


def _words_of(compiler: str) -> list[str]:
    """Return the path of a compiler, or the words of a command such as ``ccache gcc``."""
    return [compiler] if shutil.which(compiler) else toolchains.words_of(compiler, "the compiler")


def link(
    kind: Sequence[str],
    output: str,
    objects: Objects,
    options: Sequence[str] | None,
    cc: str | None,
    cwd: str | None = None,
    ccache_env: Mapping[str, str] | None = None,
) -> None:
    """Run a compiler for the functions of this module and of ``ndk``."""
    compiler = cc or get_cc()
    command = _words_of(compiler) if compiler is not None else toolchains.zig()
    if not command:
        raise ValueError(
            f"no C compiler: install gcc or clang, {toolchains.INSTALL_CC}, or set the environment "
            "variable CC"
        )
    command += [*kind, "-o", os.fspath(output)]
    command += [os.fspath(objects)] if isinstance(objects, (str, os.PathLike)) else [*objects]
    command += [*(options or [])]
    try:
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            environment = toolchains.environment(command, Path(folder))
            if ccache_env:
                command = ["ccache", *command]
                environment = {**(environment or os.environ), **ccache_env}
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=cwd,
                env=environment, check=False,
            )  # fmt: skip
    except OSError as error:
        raise RuntimeError(
            f"Compilation error:\n{toolchains.name_of(command)} cannot be run: "
            f"{error.strerror or error}"
        ) from None
    if done.returncode != 0:
        error_text = done.stdout.decode(errors="replace")
        raise RuntimeError(f"Compilation error:\n{error_text}\nCommand line: {' '.join(command)}")


create_shared.output_format = "dll" if sys.platform == "win32" else "so"  # type: ignore[attr-defined]
create_shared.get_target_triple = get_target_triple_of()  # type: ignore[attr-defined]
create_executable.get_target_triple = get_target_triple_of()  # type: ignore[attr-defined]
