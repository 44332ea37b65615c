"""What a compiled network depends on, as one text: the key of its place in the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from tvmrt import plugins
from tvmrt.compiler import processor
from tvmrt.compiler.request import Request, added_rows
from tvmrt.libinfo import __version__, find_include_path

PACKAGE = Path(__file__).parents[1]
# what has no part in the result
NOT_ASKED = ("progress",)


class Unknowable(Exception):
    """An option whose value has no text that tells it from others, such as a function."""


def digest(*parts: bytes | str) -> str:
    """A text of 40 letters that differs where one of the parts does."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()[:40]


def digest_of_file(path: str | os.PathLike[str]) -> str:
    """The digest of a file's bytes. Raises OSError where it cannot be read."""
    found, chunk = hashlib.sha256(), memoryview(bytearray(1 << 18))  # stays in cache
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(chunk):
            found.update(chunk[:count])
    return found.hexdigest()[:40]


def key_of(network: str, request: Request) -> str:
    """The key of a network, given by its digest, that is compiled by a request here and now.

    Raises
    ------
    Unknowable
        If an option is an object of a program, a device or an operator, which has no contents that
        can be compared.
    """
    settled = request.with_target()
    asked = "".join(
        f"{each.name}={_text(getattr(settled, each.name))};"
        for each in fields(settled)
        if each.name not in NOT_ASKED
    )
    files = [_text(Path(each)) for each in request.operators if isinstance(each, str)]
    for name, value in request.added:
        row = added_rows()[name]
        if row.file is not None and (file := row.file(value)) is not None:
            files.append(_text(Path(file)))
    machine = f"{processor.machine()} {' '.join(sorted(processor.flags()))}"
    cc = compiler_of(request.cc) + os.environ.get("TVMRT_CFLAGS", "")
    here = (machine, cc, __version__, _sources(), _installed())
    return digest(network, asked, *files, *here)


def _text(value: Any) -> str:
    """A value as a text that equals another's only where the values do."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    if isinstance(value, os.PathLike):
        return f"{os.fspath(value)!r}:{_stamp(Path(value))}"
    if isinstance(value, Mapping):
        return str([(_text(key), _text(each)) for key, each in value.items()])
    if isinstance(value, Sequence):
        return str([_text(each) for each in value])
    raise Unknowable(type(value).__name__)


def compiler_of(cc: str | None) -> str:
    """Which C compiler compiles, without asking it: its file, and when that was written."""
    wanted = cc or os.environ.get("CC")
    for name in [wanted] if wanted else ["cc", "gcc", "clang"]:
        words = [name]
        if wanted:
            import shlex  # loading what is compiled need not wait for it

            words = shlex.split(wanted)
        found = shutil.which(words[0]) if words else None
        if found:
            path = Path(found).resolve()
            return f"{path} {_stamp(path)} {words[1:]}"
    return ""


def _stamp(path: Path) -> str:
    try:
        about = path.stat()
    except OSError:
        return ""
    return f"{about.st_size} {about.st_mtime_ns}"


@lru_cache(maxsize=1)
def _sources() -> str:
    """This package's own files: what was changed or installed anew is another compiler."""
    roots = [PACKAGE, *_plugin_folders(), *(Path(each) / "tvm" for each in find_include_path())]
    return digest(*(line for root in roots for line in sorted(_files(root))))


def _plugin_folders() -> Iterator[Path]:
    """Folders of plug-ins beside the package, as an editable installation has them."""
    for each in iter_modules(plugins.__path__):
        if not (PACKAGE / "plugins" / each.name).is_dir():
            found = find_spec(f"{plugins.__name__}.{each.name}")
            if found is not None and found.origin is not None:
                yield Path(found.origin).parent


def _installed() -> str:
    """When a package was last installed or removed: some bring operators and devices."""
    folders = [Path(each) for each in sys.path if each.endswith("-packages")]
    return " ".join(f"{folder} {_stamp(folder)}" for folder in folders)


def _files(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(Path(entry.path))
            elif entry.name.endswith((".py", ".h", ".c", ".so")):
                about = entry.stat()
                yield f"{entry.path} {about.st_size} {about.st_mtime_ns}"
