"""Link object files and C sources to a shared library, for load_module()."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

from tvmrt import toolchains
from tvmrt.file_suffix import suffix_of
from tvmrt.install_paths import find_include_path
from tvmrt.runtime.archive_errors import archive_error_text

__all__ = ["link_shared", "unpack"]

_COMPILED = (".c", ".cc", ".cpp", ".o")


def link_shared(file: str) -> str:
    """Link an object file, or an archive of objects and C sources, to ``<path>.so``.

    Raises
    ------
    OSError
        If the file cannot be read, there is no C compiler, or linking fails.
    ValueError
        If the archive has nothing to compile or contains paths outside of it.
    """
    path, library = Path(file), Path(f"{file}.so")
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        inputs = _to_compile(path, Path(folder)) if suffix_of(path) == ".tar" else [path]
        output = Path(folder) / library.name
        headers = sorted({header.parent for header in Path(folder).rglob("*.h")})
        includes = [f"-I{include}" for include in [*headers, *find_include_path()]]
        flags = ["-shared", "-fPIC", "-O2", *includes, "-o", str(output)]
        _run([*_compiler(), *flags, *map(str, inputs)], Path(folder))
        staged = library.with_name(f"{library.name}.{os.getpid()}.part")
        shutil.copy(output, staged)
        staged.replace(library)
    return str(library)


def unpack(archive: str | os.PathLike[str], folder: Path) -> None:
    """Extract an archive into a folder, which is created if necessary.

    Raises
    ------
    ValueError
        If a member is neither a file nor a folder, or has a path outside of the archive.
    OSError, tarfile.TarError
        If the archive cannot be read, or the files cannot be written.
    """
    try:
        _unpack(archive, folder)
    except (tarfile.TarError, EOFError, RecursionError, zlib.error) as error:
        text = archive_error_text(error)
        raise tarfile.ReadError(f"{os.fspath(archive)} cannot be read: {text}") from None


def _unpack(archive: str | os.PathLike[str], folder: Path) -> None:
    root = folder.resolve()
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            path = (root / member.name).resolve()
            if not path.is_relative_to(root):
                raise ValueError(f"{archive}: the member {member.name} points outside the archive")
            if not (member.isfile() or member.isdir()):
                raise ValueError(
                    f"{archive}: the member {member.name} is neither a file nor a folder; pack "
                    "the file itself"
                )
            (path if member.isdir() else path.parent).mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            if source is not None:
                with source, open(path, "wb") as out:
                    shutil.copyfileobj(source, out)


def _to_compile(archive: Path, folder: Path) -> list[Path]:
    try:
        unpack(archive, folder)
    except tarfile.TarError as error:
        raise ValueError(str(error)) from None
    inputs = sorted(path for path in folder.rglob("*") if path.suffix in _COMPILED)
    if not inputs:
        raise ValueError(f"{archive} has neither objects nor C sources to link")
    return inputs


def _compiler() -> list[str]:
    if named := toolchains.named_by_environment():
        command = toolchains.words_of(named, "CC")
        if shutil.which(command[0]):
            return toolchains.completed(command)
    if compiler := toolchains.installed():
        return compiler
    raise OSError(
        f"no C compiler: install gcc or clang, {toolchains.INSTALL_CC}, or set the environment "
        "variable CC"
    )


def _run(command: list[str], folder: Path) -> None:
    try:
        variables = toolchains.environment(command, folder)
    except OSError as problem:
        raise OSError(f"zig cannot link the library: {problem}") from None
    done = subprocess.run(command, capture_output=True, check=False, env=variables)
    if done.returncode != 0:
        error_text = done.stderr.decode(errors="replace").strip()
        raise OSError(f"{command[0]} cannot link the library: {error_text}")
