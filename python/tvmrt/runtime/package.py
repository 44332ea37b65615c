"""Packages of ``tvmc compile``: archives of a library, its graph and its parameters.

The archive is untrusted: member names are only compared, never used as paths, and sizes are checked
against the size of the file.
"""

from __future__ import annotations

import os
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmrt.runtime.archive_errors import archive_error_text

__all__ = ["NETWORK", "Package", "is_package", "load_package", "read_package"]

GRAPH, PARAMS = "mod.json", "mod.params"
SOURCES = "metadata.json"  # member of archives in the Model Library Format
LIBRARIES = ("mod.so", "mod.tar")  # linked, or object files
VIRTUAL_MACHINE = ("lib.so", "lib.tar")
NETWORK = "default"  # the executor factory function, as in libraries of one network
MAX_BYTES = 4 << 30  # limit for the contents of a compressed archive
_DAMAGED = (tarfile.TarError, EOFError, OSError, ValueError, RecursionError, zlib.error)


@dataclass(frozen=True)
class Package:
    """Contents of a package; the suffix of ``library_name`` is the format of ``library``."""

    library_name: str
    library: bytes
    graph: str
    params: bytes


def _files(tar: tarfile.TarFile) -> dict[str, tarfile.TarInfo]:
    return {m.name.removeprefix("./"): m for m in tar.getmembers() if m.isfile()}


def is_package(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a package for one of TVM's executors, by its member names."""
    try:
        with tarfile.open(path) as tar:
            files = _files(tar)
    except _DAMAGED:
        return False
    machine = any(name in files for name in VIRTUAL_MACHINE) and not any("/" in n for n in files)
    return GRAPH in files or machine


def has_sources(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an archive in the Model Library Format, by its member names."""
    try:
        with tarfile.open(path) as tar:
            files = _files(tar)
    except _DAMAGED:
        return False
    return SOURCES in files and any(name.startswith("codegen/") for name in files)


def read_package(path: str | os.PathLike[str]) -> Package:
    """Read a package.

    Raises
    ------
    ValueError
        If a file is missing or damaged, or the package is for TVM's virtual machine.
    """
    try:
        with tarfile.open(path) as tar:
            return _read(tar, _max_content_bytes(path))
    except _DAMAGED as error:
        text = archive_error_text(error)
        raise ValueError(f"{os.fspath(path)} is not a package of tvmc: {text}") from None


def _max_content_bytes(path: str | os.PathLike[str]) -> int:
    """Return the maximum total size of the files in an archive."""
    try:
        with tarfile.open(path, "r:"):
            return os.path.getsize(path)
    except tarfile.TarError:  # compressed
        return MAX_BYTES


def _read(tar: tarfile.TarFile, max_bytes: int) -> Package:
    files = _files(tar)
    if GRAPH not in files and any(name in files for name in VIRTUAL_MACHINE):
        raise ValueError(
            "it is for TVM's virtual machine, which is not supported; compile the network with "
            "the graph executor"
        )
    library = next((name for name in LIBRARIES if name in files), None)
    if library is None:
        raise ValueError(f"it contains neither {LIBRARIES[0]} nor {LIBRARIES[1]}")
    contents = []
    for name in (library, GRAPH, PARAMS):
        member = files.get(name)
        if member is None:
            raise ValueError(f"it contains no file {name}")
        max_bytes -= member.size
        if max_bytes < 0 or member.issparse():
            raise ValueError(f"{name} has an invalid size in the archive")
        content = tar.extractfile(member)
        contents.append(content.read() if content is not None else b"")
    code, graph, params = contents
    return Package(library, code, graph.decode("utf-8"), params)


def load_package(path: str | os.PathLike[str], load: Callable[[Path], Any]) -> Any:
    """Load a package as the factory Module of a graph library: ``module["default"](device)``.

    Parameters
    ----------
    path
        Path of the package.
    load
        A function that loads the library from a file, as a Module.

    Raises
    ------
    ValueError
        If read_package() raises it.
    TVMError
        If library, graph or parameters are damaged.
    """
    from tvmrt.runtime.packed_func import get_global_func
    from tvmrt.runtime.params import load_param_dict

    package = read_package(path)
    params = load_param_dict(package.params)
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        file = Path(folder, package.library_name)
        file.write_bytes(package.library)
        library = load(file)
    pairs = [part for pair in params.items() for part in pair]
    create = get_global_func("tvm.graph_executor_factory.create")
    return create(package.graph, library, NETWORK, *pairs)
