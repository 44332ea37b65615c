"""Symbols that object files, archives and libraries define and need, as a linker sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tvmrt.cli.elf import (
    BIND_GLOBAL,
    BIND_WEAK,
    TYPE_DYNAMIC_SYMBOLS,
    TYPE_SYMBOLS,
    UNDEFINED,
    ElfFile,
)

ARCHIVE_MAGIC = b"!<arch>\n"
HEADER_BYTES = 60


@dataclass
class ObjectFile:
    """One object, archive member or shared library. ``defined`` are its strong symbols."""

    name: str
    shared: bool
    defined: set[str] = field(default_factory=set)
    weak: set[str] = field(default_factory=set)
    needed: set[str] = field(default_factory=set)


def read_objects(path: Path) -> list[ObjectFile]:
    """Read the objects in an object file or archive. Raises ValueError for other files."""
    data = path.read_bytes()
    if data.startswith(ARCHIVE_MAGIC):
        members = _members(path, data)
        return [_read(ElfFile(path, body), f"{path.name}({name})") for name, body in members]
    return [_read(ElfFile(path, data), path.name)]


def _members(path: Path, data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of an archive's objects (System V format with long names)."""
    at, long_names = len(ARCHIVE_MAGIC), b""
    while at + HEADER_BYTES <= len(data):
        header = data[at : at + HEADER_BYTES]
        try:
            size = int(header[48:58])
        except ValueError as problem:
            raise ValueError(f"{path} is damaged: no member begins at byte {at}") from problem
        body = data[at + HEADER_BYTES : at + HEADER_BYTES + size]
        name = header[:16].decode("ascii", "replace").strip()
        at += HEADER_BYTES + size + size % 2
        if name == "//":
            long_names = body
        elif name not in ("/", "/SYM64/"):
            yield _member_name(name, long_names), body


def _member_name(name: str, long_names: bytes) -> str:
    if name.startswith("/") and name[1:].isdigit():
        start = int(name[1:])
        return long_names[start:].split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("/")
    return name.rstrip("/")


def _read(elf: ElfFile, name: str) -> ObjectFile:
    shared = any(s["sh_type"] == TYPE_DYNAMIC_SYMBOLS for s in elf.sections)
    result = ObjectFile(name, shared)
    for symbol in elf.symbols(TYPE_DYNAMIC_SYMBOLS if shared else TYPE_SYMBOLS):
        if symbol.binding not in (BIND_GLOBAL, BIND_WEAK):
            continue
        if symbol.section != UNDEFINED:
            (result.weak if symbol.binding == BIND_WEAK else result.defined).add(symbol.name)
        elif symbol.binding == BIND_GLOBAL:
            result.needed.add(symbol.name)
    return result
