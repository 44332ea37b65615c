"""The parts of an ELF file that tell what a shared library offers, needs and costs.

Covers 64-bit and 32-bit files of both byte orders. Every offset is checked against the file.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
SECTION_FLAG_ALLOCATED, SECTION_FLAG_WRITABLE, SECTION_FLAG_CODE = 2, 1, 4
TYPE_SYMBOLS, TYPE_NO_BITS, TYPE_DYNAMIC, TYPE_DYNAMIC_SYMBOLS = 2, 8, 6, 11
BIND_GLOBAL, BIND_WEAK = 1, 2
TAG_NEEDED = 1
UNDEFINED = 0


@dataclass(frozen=True)
class Section:
    """A row of the section table."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int


@dataclass(frozen=True)
class Symbol:
    """A symbol; ``section`` is 0 where another file must supply it, ``binding`` BIND_..."""

    name: str
    section: int
    address: int
    size: int
    binding: int = BIND_GLOBAL


class ElfFile:
    """A parsed file; ``data`` are its bytes, read from ``path`` unless given.

    Raises ValueError if they are no sound ELF file.
    """

    def __init__(self, path: Path, data: bytes | None = None):
        self.path = path
        self.data = path.read_bytes() if data is None else data
        if self.data[:4] != b"\x7fELF" or len(self.data) < 52:
            raise ValueError(f"{path} is not a shared library: it does not start as an ELF file")
        self.wide = self.data[4] == 2
        self.order = "<" if self.data[5] == 1 else ">"
        self.machine = MACHINES.get(self._unpack("H", 18)[0], "unknown machine")
        self.sections = self._read_sections()

    def _unpack(self, form: str, offset: int) -> tuple:
        size = struct.calcsize(self.order + form)
        if not 0 <= offset <= len(self.data) - size:
            raise ValueError(f"{self.path} is damaged: it points to byte {offset} beyond its end")
        return struct.unpack_from(self.order + form, self.data, offset)

    def _string(self, table: Section, at: int) -> str:
        start = table.offset + at
        end = self.data.find(b"\0", start, table.offset + table.size)
        return self.data[start:end].decode("utf-8", "replace") if end >= 0 else ""

    def _read_sections(self) -> list[Section]:
        table = self._unpack("Q", 40)[0] if self.wide else self._unpack("I", 32)[0]
        stride, count, names = self._unpack("HHH", 58 if self.wide else 46)
        form = "IIQQQQI" if self.wide else "IIIIIII"
        rows = [self._unpack(form, table + i * stride) for i in range(count)]
        sections = [Section("", *row[1:]) for row in rows]
        if names >= len(sections):
            return sections
        return [Section(self._string(sections[names], row[0]), *row[1:]) for row in rows]

    def content(self, section: Section) -> bytes:
        """Return the bytes of a section as far as the file has them."""
        if section.kind == TYPE_NO_BITS:
            return b""
        return self.data[section.offset : section.offset + section.size]

    def _linked_strings(self, section: Section) -> Section:
        if section.link >= len(self.sections):
            raise ValueError(f"{self.path} is damaged: section {section.name} has no string table")
        return self.sections[section.link]

    def symbols(self, table: int = TYPE_DYNAMIC_SYMBOLS) -> list[Symbol]:
        """Return the symbols that have a name: a library's dynamic ones, an object's all."""
        found = []
        form, stride = ("IBBHQQ", 24) if self.wide else ("IIIBBH", 16)
        for section in self.sections:
            if section.kind != table:
                continue
            strings = self._linked_strings(section)
            for at in range(0, len(self.content(section)) - stride + 1, stride):
                row = self._unpack(form, section.offset + at)
                if self.wide:
                    name, info, _other, index, address, size = row
                else:
                    name, address, size, info, _other, index = row
                text = self._string(strings, name)
                if text:
                    found.append(Symbol(text, index, address, size, info >> 4))
        return found

    def needed(self) -> list[str]:
        """Return the libraries that the loader brings in with this one."""
        found = []
        form, stride = ("QQ", 16) if self.wide else ("II", 8)
        for section in self.sections:
            if section.kind != TYPE_DYNAMIC:
                continue
            for at in range(0, len(self.content(section)) - stride + 1, stride):
                tag, value = self._unpack(form, section.offset + at)
                if tag == TAG_NEEDED:
                    found.append(self._string(self._linked_strings(section), value))
        return found

    def bytes_of(self, symbol: Symbol) -> bytes:
        """Return what lies at a defined symbol."""
        if symbol.section >= len(self.sections):
            return b""
        section = self.sections[symbol.section]
        start = symbol.address - section.address
        return self.content(section)[start : start + symbol.size] if start >= 0 else b""

    def loaded_bytes(self) -> dict[str, int]:
        """Return how many bytes of code, constants and variables the loaded library takes."""
        sums = {"code": 0, "constants": 0, "variables": 0}
        for section in self.sections:
            if not section.flags & SECTION_FLAG_ALLOCATED:
                continue
            if section.flags & SECTION_FLAG_CODE:
                sums["code"] += section.size
            elif section.flags & SECTION_FLAG_WRITABLE:
                sums["variables"] += section.size
            else:
                sums["constants"] += section.size
        return sums
