"""ELF files: the symbols, dependencies and sizes of a library, read with pyelftools."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section, SymbolTableSection

MACHINES = {"EM_386": "i386", "EM_ARM": "arm", "EM_X86_64": "x86_64", "EM_AARCH64": "aarch64",
            "EM_RISCV": "riscv"}  # fmt: skip
TYPE_SYMBOLS, TYPE_DYNAMIC_SYMBOLS = "SHT_SYMTAB", "SHT_DYNSYM"
BIND_GLOBAL, BIND_WEAK = "STB_GLOBAL", "STB_WEAK"
UNDEFINED = "SHN_UNDEF"
# Exceptions of pyelftools for damaged files; it also raises errors other than its own.
_DAMAGE = (
    ELFError, struct.error, ValueError, LookupError, TypeError, AttributeError, AssertionError,
    OverflowError, MemoryError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True)
class Symbol:
    """A symbol; ``section`` is UNDEFINED if another file must supply it, ``binding`` BIND_..."""

    name: str
    section: int | str
    address: int
    size: int
    binding: str = BIND_GLOBAL


class ElfFile:
    """A parsed ELF file; its bytes are ``data``, or read from ``path``.

    The constructor and the methods raise ValueError if the file is damaged.
    """

    def __init__(self, path: Path, data: bytes | None = None):
        self.path = path
        self.data = path.read_bytes() if data is None else data
        if (system := _system_of(self.data)) is not None:
            raise ValueError(
                f"{path} is a library for {system}, and this command reads libraries for Linux; "
                "compile the network for the default target to a .so file"
            )
        if self.data[:4] != b"\x7fELF":
            raise ValueError(
                f"{path} is not a shared library: it does not start as an ELF file; give one, or "
                "a static library (.a)"
            )
        with self._damage_as_value_error():
            file = ELFFile(io.BytesIO(self.data))
            self.machine = MACHINES.get(file["e_machine"], "unknown machine")
            self.sections = list(file.iter_sections())

    @contextmanager
    def _damage_as_value_error(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as problem:
            raise ValueError(
                f"{self.path} is damaged: {problem or 'it is truncated'}; build or copy it again"
            ) from None

    def symbols(self, table: str = TYPE_DYNAMIC_SYMBOLS) -> list[Symbol]:
        """Return the named symbols of a table: dynamic ones of a library, all of an object."""
        with self._damage_as_value_error():
            return [
                Symbol(
                    each.name,
                    each["st_shndx"],
                    each["st_value"],
                    each["st_size"],
                    each["st_info"]["bind"],
                )
                for section in self.sections
                if isinstance(section, SymbolTableSection) and section["sh_type"] == table
                for each in section.iter_symbols()
                if each.name
            ]

    def needed(self) -> list[str]:
        """Return the libraries that the loader loads together with this one."""
        with self._damage_as_value_error():
            return [
                tag.needed
                for section in self.sections
                if isinstance(section, DynamicSection)
                for tag in section.iter_tags("DT_NEEDED")
            ]

    def bytes_of(self, symbol: Symbol) -> bytes:
        """Return the bytes of a defined symbol."""
        if not isinstance(symbol.section, int) or symbol.section >= len(self.sections):
            return b""
        section = self.sections[symbol.section]
        start = symbol.address - section["sh_addr"]
        if start < 0 or section["sh_type"] == "SHT_NOBITS":
            return b""
        end = min(start + symbol.size, section["sh_size"])
        return self.data[section["sh_offset"] + start : section["sh_offset"] + end]

    def loaded_bytes(self) -> dict[str, int]:
        """Return the bytes of code, constants and variables of the loaded library."""
        sums = {"code": 0, "constants": 0, "variables": 0, "": 0}
        for section in self.sections:
            sums[part_of(section)] += section["sh_size"]
        del sums[""]
        return sums


def _system_of(data: bytes) -> str | None:
    """Return the system of a library in the format of Windows or macOS; None for others."""
    if data[:2] == b"MZ":
        return "Windows"
    magics = ("feedfacf", "feedface", "cffaedfe", "cefaedfe", "cafebabe")
    return "macOS" if data[:4].hex() in magics else None


def part_of(section: Section) -> str:
    """Return the kind of a loaded section: code, constants or variables; "" if not loaded."""
    flags = section["sh_flags"]
    if not flags & SH_FLAGS.SHF_ALLOC:
        return ""
    if flags & SH_FLAGS.SHF_EXECINSTR:
        return "code"
    return "variables" if flags & SH_FLAGS.SHF_WRITE else "constants"
