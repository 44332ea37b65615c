"""Print C types as text, from the debug information of one object file.

Compilers name the basic types differently, so these are identified by kind and size; everything
else by the name that the headers give it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.lineprogram import LineProgram
from elftools.elf.elffile import ELFFile

_BASIC = {2: "bool", 4: "float", 5: "int", 6: "char", 7: "uint", 8: "uchar"}
_QUALIFIERS = {"DW_TAG_const_type": "const", "DW_TAG_volatile_type": "volatile"}
_KINDS = {
    "DW_TAG_structure_type": "struct",
    "DW_TAG_union_type": "union",
    "DW_TAG_enumeration_type": "enum",
}


def _text(die: DIE, attribute: str) -> str:
    return die.attributes[attribute].value.decode() if attribute in die.attributes else ""


def _name(die: DIE) -> str:
    return _text(die, "DW_AT_name")


def _number(die: DIE, attribute: str) -> int:
    return int(die.attributes[attribute].value) if attribute in die.attributes else 0


def _target(die: DIE) -> DIE | None:
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def type_text(die: DIE | None) -> str:
    """Return the type as C text, with its name if it has one."""
    if die is None:
        return "void"
    if die.tag == "DW_TAG_base_type":
        return _basic_text(die)
    if die.tag in _QUALIFIERS:
        text = type_text(_target(die))
        qualifier = _QUALIFIERS[die.tag]
        return f"{text} {qualifier}" if text.endswith("*") else f"{qualifier} {text}"
    if die.tag == "DW_TAG_pointer_type":
        target = _target(die)
        if target is not None and target.tag == "DW_TAG_subroutine_type":
            return function_text(target, "(*)")
        return type_text(target) + "*"
    if die.tag == "DW_TAG_restrict_type":
        return type_text(_target(die))
    if die.tag == "DW_TAG_subroutine_type":
        return function_text(die, "")
    if die.tag == "DW_TAG_array_type":
        return type_text(_target(die)) + "".join(f"[{n}]" for n in _extents(die))
    if die.tag in _KINDS:
        return f"{_KINDS[die.tag]} {_name(die)}".rstrip()
    return _name(die)  # a typedef


def _basic_text(die: DIE) -> str:
    kind = _BASIC.get(_number(die, "DW_AT_encoding"), "basic")
    bits = 8 * _number(die, "DW_AT_byte_size")
    return kind if kind in ("bool", "char") else f"{kind.replace('char', 'int')}{bits}"


def _extents(die: DIE) -> Iterator[int]:
    for child in die.iter_children():
        if "DW_AT_count" in child.attributes:
            yield _number(child, "DW_AT_count")
        elif "DW_AT_upper_bound" in child.attributes:
            yield _number(child, "DW_AT_upper_bound") + 1
        else:
            yield 0


def function_text(die: DIE, name: str) -> str:
    """Return `RESULT name(PARAMETERS)`."""
    kinds = {
        "DW_TAG_formal_parameter": lambda child: type_text(_target(child)),
        "DW_TAG_unspecified_parameters": lambda child: "...",
    }
    parameters = [kinds[c.tag](c) for c in die.iter_children() if c.tag in kinds]
    return f"{type_text(_target(die))} {name}({', '.join(parameters) or 'void'})"


def _layout_facts(label: str, die: DIE) -> Iterator[str]:
    yield f"{label}: {_number(die, 'DW_AT_byte_size')} bytes"
    for child in die.iter_children():
        if child.tag == "DW_TAG_enumerator":
            yield f"{label}.{_name(child)} = {_number(child, 'DW_AT_const_value')}"
        elif child.tag == "DW_TAG_member":
            yield from _member_facts(label, child)


def _member_facts(label: str, member: DIE) -> Iterator[str]:
    offset = _number(member, "DW_AT_data_member_location")
    place = f"{label}.{_name(member) or '(no name)'}"
    bits = _number(member, "DW_AT_bit_size")
    target = _target(member)
    width = f", {bits} bits" if bits else ""
    yield f"{place} at {offset}: {type_text(target)}{width}"
    if target is not None and target.tag in _KINDS and not _name(target):
        yield from _layout_facts(place, target)


def _files(unit: CompileUnit, program: LineProgram) -> dict[int, Path]:
    """Return the paths of the line table's files by number; up to DWARF 4 these count from 1."""
    header = program.header
    first = 0 if header["version"] >= 5 else 1
    start = _text(unit.get_top_DIE(), "DW_AT_comp_dir")
    folders = [Path(start, name.decode()) for name in header["include_directory"]]
    if first == 1:
        folders.insert(0, Path(start))
    entries = enumerate(header["file_entry"], first)
    return {number: folders[entry.dir_index] / entry.name.decode() for number, entry in entries}


def _facts_of(die: DIE) -> Iterator[str]:
    if die.tag in _KINDS and _name(die) and "DW_AT_declaration" not in die.attributes:
        yield from _layout_facts(f"{_KINDS[die.tag]} {_name(die)}", die)
    elif die.tag == "DW_TAG_typedef":
        target, name = _target(die), _name(die)
        if target is not None and target.tag in _KINDS and not _name(target):
            yield from _layout_facts(name, target)
        elif target is None or _name(target) != name:
            yield f"typedef {name}: {type_text(target)}"


def type_facts(path: Path, folder: Path) -> list[str]:
    """Return one line for each fact about the types that headers below `folder` declare."""
    groups: set[tuple[str, ...]] = set()
    with path.open("rb") as file:
        info = ELFFile(file).get_dwarf_info()
        for unit in info.iter_CUs():
            files = _files(unit, info.line_program_for_CU(unit))
            dies = [
                die
                for die in unit.get_top_DIE().iter_children()
                if folder in files.get(_number(die, "DW_AT_decl_file"), Path()).parents
            ]
            groups.update(tuple(_facts_of(die)) for die in dies)
            groups.update(_nameless_enums(dies))
    return [fact for group in sorted(groups) for fact in group]


def _nameless_enums(dies: list[DIE]) -> Iterator[tuple[str, ...]]:
    """Return enumerators of enums without a name or typedef."""
    typedefs = (_target(die) for die in dies if die.tag == "DW_TAG_typedef")
    named = {die.offset for die in typedefs if die is not None}
    for die in dies:
        if die.tag == "DW_TAG_enumeration_type" and not _name(die) and die.offset not in named:
            yield tuple(fact for fact in _layout_facts("enum", die) if "=" in fact)


def pointed_types(path: Path, prefix: str) -> dict[str, str]:
    """Return the types that the variables `prefix` + NAME point to, by NAME."""
    found = {}
    with path.open("rb") as file:
        for unit in ELFFile(file).get_dwarf_info().iter_CUs():
            for die in unit.get_top_DIE().iter_children():
                name = _name(die)
                if die.tag != "DW_TAG_variable" or not name.startswith(prefix):
                    continue
                name = name[len(prefix) :]
                target = _target(_target(die))
                is_function = target is not None and target.tag == "DW_TAG_subroutine_type"
                found[name] = (
                    function_text(target, name) if is_function else f"{type_text(target)} {name}"
                )
    return found
