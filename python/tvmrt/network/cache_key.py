"""The cache key of a compiled network, made from everything that it depends on."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from tvmrt import plugins, toolchains
from tvmrt.compiler import processor
from tvmrt.compiler.request import Request
from tvmrt.libinfo import __version__, own_include_path
from tvmrt.option_syntax import option

PACKAGE = Path(__file__).parents[1]


class UncacheableOptionError(Exception):
    """An option whose value has no textual identity, such as a function."""


def digest(*parts: bytes | str) -> str:
    """Return a digest of 40 hexadecimal digits of some byte strings and texts."""
    hasher = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()[:40]


def digest_of_file(path: str | os.PathLike[str]) -> str:
    """Return the digest of a file. Raises OSError if it cannot be read."""
    hasher, chunk = hashlib.sha256(), memoryview(bytearray(1 << 18))  # fits the CPU cache
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(chunk):
            hasher.update(chunk[:count])
    return hasher.hexdigest()[:40]


def key_of(network: str, request: Request) -> str:
    """Return the cache key for a network digest, a request, this machine and its tools.

    Raises
    ------
    UncacheableOptionError
        If an option is a Python object, such as a device or an operator, whose contents cannot be
        compared.
    """
    resolved = request.with_target()
    option_text = "".join(
        f"{name}={_text(value)};" for name, row, value in resolved.options() if row.cached
    )
    operators = request.operators
    listed = operators if isinstance(operators, (list, tuple)) else (operators,)
    files = [_text(Path(each)) for each in listed if isinstance(each, str)]
    return key_here(digest(network, option_text, *files), request.cc)


def key_here(content: str, cc: str | None = None) -> str:
    """Return the cache key for a digest of all that was asked for, this machine and its tools."""
    machine = f"{processor.machine()} {' '.join(sorted(processor.flags()))}"
    compiler = compiler_of(cc) + os.environ.get("TVMRT_CFLAGS", "")
    return digest(content, machine, compiler, __version__, _sources(), _installed())


def _text(value: Any) -> str:
    """Return a text that is equal for two values only if they are equal."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, os.PathLike):
        return f"{os.fspath(value)!r}:{_stamp(Path(value))}"
    if isinstance(value, Mapping):
        return str([(_text(key), _text(each)) for key, each in value.items()])
    if isinstance(value, Sequence):
        return str([_text(each) for each in value])
    raise UncacheableOptionError(type(value).__name__)


def compiler_of(cc: str | None) -> str:
    """Identify the C compiler, without running it, by its path, size and modification time."""
    compiler = cc or toolchains.named_by_environment()
    source = option("cc") if cc else "CC"
    for name in [compiler] if compiler else toolchains.SYSTEM_COMPILERS:
        words = toolchains.words_of(name, source) if compiler else [name]
        found = shutil.which(words[0])
        if found:
            path = Path(found).resolve()
            return f"{path} {_stamp(path)} {words[1:]}"
    zig = None if compiler else toolchains.zig_package()
    return "" if zig is None else f"{zig} {_stamp(zig)}"


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns}"


@lru_cache(maxsize=1)
def _sources() -> str:
    """Return the digest of the package's files, since a changed file is another compiler."""
    roots = [PACKAGE, *_plugin_folders(), Path(own_include_path(), "tvm")]
    return digest(*(line for root in roots for line in sorted(_files(root))))


def _plugin_folders() -> Iterator[Path]:
    """Return the folders of plug-ins outside of the package, as in an editable installation."""
    for each in iter_modules(plugins.__path__):
        if not (PACKAGE / "plugins" / each.name).is_dir():
            spec = find_spec(f"{plugins.__name__}.{each.name}")
            if spec is not None and spec.origin is not None:
                yield Path(spec.origin).parent


def _installed() -> str:
    """Identify the installed packages, since some bring operators and devices."""
    folders = [Path(each) for each in sys.path if each.endswith("-packages")]
    return " ".join(f"{folder} {_stamp(folder)}" for folder in folders)


def _files(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(Path(entry.path))
            elif entry.name.endswith((".py", ".h", ".c", ".so")):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
