"""Text of the kernels' headers, and the headers that they include."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tvmrt import libinfo

_INCLUDE = re.compile(r'#\s*include\s+[<"]([^>"]+)[>"]')
_TABLE = re.compile(r"^TVMRT_TABLE\([^,()]+, (\w+),", re.MULTILINE)


@cache
def kernel_text(header: str) -> str:
    """Return the text of a kernel's header, or "" for a header of another library."""
    for folder in libinfo.find_include_path():
        path = Path(folder) / "tvm/runtime/kernels" / header
        if path.is_file():
            return path.read_text(encoding="utf-8")
    return ""


def all_headers(headers: Iterable[str]) -> set[str]:
    """Return kernel headers with all that they include, relative to the folder of kernels."""
    found: set[str] = set()
    todo = list(headers)
    while todo:
        header = todo.pop()
        if header not in found:
            found.add(header)
            todo += _included(header)
    return found


@cache
def _included(header: str) -> tuple[str, ...]:
    folder = Path(header).parent
    names = []
    for name in _INCLUDE.findall(kernel_text(header)):
        if name.startswith("tvm/runtime/kernels/"):
            names.append(name.removeprefix("tvm/runtime/kernels/"))
        elif not name.startswith(("tvm/", "dlpack/")):
            names.append(_normal(folder / name))
    return tuple(names)


def _normal(path: Path) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


def tables_in(headers: Iterable[str]) -> list[str]:
    """Return the names of the constant tables (``TVMRT_TABLE``) in headers and those that they
    include."""
    texts = map(kernel_text, all_headers(headers))
    return sorted({name for text in texts for name in _TABLE.findall(text)})
