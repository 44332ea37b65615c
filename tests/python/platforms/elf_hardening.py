"""Hardening properties and exports of a library, read from its ELF headers."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Symbol, SymbolTableSection

ROOT = Path(__file__).parents[3]
X, W = 1, 2
MARKS = {"EM_X86_64": b"\xf3\x0f\x1e\xfa"}
"""What the target of an indirect call begins with, where nothing else may."""
PLUGIN = {"tvmrt_plugin_abi", "tvmrt_plugin_register"}
EXPORTED = {
    r"libtvm_runtime\.so\.\d+": r"",
    r"libtvm_runtime\.so": r"TVM\w+|tvmrt_\w+|String2DLDataType|_ZN3tvm7runtime\w+",
    r"libtvmrt_(?!device_)\w+\.so": "tvmrt_plugin_table",  # and its hardening.ini
    r"libtvmrt_device_\w+\.so": "|".join(sorted(PLUGIN)),
    r"_(core|capi)\..*so": r"PyInit__(core|capi)",
}
"""The names that a library may export, by its own; tests/abi lists the runtime's one by one."""


def read(path: Path) -> ELFFile:
    return ELFFile(path.open("rb"))


def symbols(elf: ELFFile, section: str) -> tuple[dict[str, Symbol], set[str]]:
    """Return the defined symbols with their addresses, and the undefined names."""
    table = elf.get_section_by_name(section)
    assert isinstance(table, SymbolTableSection)
    defined, undefined = {}, set()
    for symbol in table.iter_symbols():
        if symbol.entry.st_shndx == "SHN_UNDEF":
            undefined.add(symbol.name)
        elif symbol.entry.st_info.bind != "STB_LOCAL":
            defined[symbol.name] = symbol
    return defined, undefined


def weaknesses(path: Path) -> list[str]:
    """Return the missing hardening properties of a shared library."""
    elf, found = read(path), []
    segments = {segment.header.p_type: segment for segment in elf.iter_segments()}
    dynamic = list(segments["PT_DYNAMIC"].iter_tags())
    tags = {tag.entry.d_tag: tag for tag in dynamic}
    flags = tags["DT_FLAGS_1"].entry.d_val if "DT_FLAGS_1" in tags else 0
    defined, undefined = symbols(elf, ".dynsym")
    if "PT_GNU_RELRO" not in segments:
        found.append("tables of addresses can be written")
    if not flags & 1 and "DT_BIND_NOW" not in tags:
        found.append("functions are bound when they are called")
    if "PT_GNU_STACK" not in segments or segments["PT_GNU_STACK"].header.p_flags & X:
        found.append("the stack can be executed")
    if any(s.header.p_flags & (X | W) == X | W for s in elf.iter_segments()):
        found.append("a segment can be written and executed")
    if "DT_TEXTREL" in tags:
        found.append("code is changed when it is loaded")
    for tag in dynamic:
        if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
            places = (tag.rpath if tag.entry.d_tag == "DT_RPATH" else tag.runpath).split(":")
            found += [f"it looks for libraries in {p}" for p in places if p[:7] != "$ORIGIN"]
    if not re.fullmatch(r"libtvm_runtime\.so\.\d+", path.name):  # it has no code
        if "__stack_chk_fail" not in undefined:
            found.append("no canaries on the stack")
        checked = any(re.fullmatch(r"__(?!stack)\w+_chk", name) for name in undefined)
        # some call no overflow-prone function
        none = ("_capi", "libtvmrt_named", "libtvmrt_schedules")
        if not checked and not path.name.startswith(none) and _of_plugin(path, "calls") != "none":
            found.append("no checked calls of libc")
    return [*found, *_unmarked(elf, defined), *_exported(path, defined)]


def _unmarked(elf: ELFFile, defined: dict) -> list[str]:
    """Return exported functions that are not marked as targets of indirect calls."""
    mark = MARKS.get(elf.header.e_machine)
    text = elf.get_section_by_name(".text")
    bad = []
    for name, symbol in defined.items() if mark else ():
        if symbol.entry.st_info.type != "STT_FUNC":
            continue
        at = symbol.entry.st_value - text.header.sh_addr
        if text.data()[at : at + len(mark)] != mark:
            bad.append(f"{name} is not a marked target")
    return bad


def _exported(path: Path, defined: dict) -> list[str]:
    (allowed,) = [names for own, names in EXPORTED.items() if re.fullmatch(own, path.name)]
    allowed += f"|{_of_plugin(path, 'exports')}"
    return [f"{name} is exported" for name in sorted(defined) if not re.fullmatch(allowed, name)]


def _of_plugin(path: Path, key: str) -> str:
    """Return an entry of tests/hardening.ini of the library's plug-in, or an empty string."""
    found = ConfigParser()
    name = path.name.removeprefix("libtvmrt_").removesuffix(".so")
    name = "kernel_pack" if name.startswith("kernels_") else name  # a library for each ISA level
    found.read(ROOT / "plugins" / name / "tests" / "hardening.ini", encoding="utf-8")
    return found.get("library", key, fallback="")
