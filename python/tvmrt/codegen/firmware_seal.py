"""Programs and libraries of networks of one name, kept apart.

A linker joins a call and a function because their names are equal, and of two static libraries it
silently takes the first that has the name. So the header of a network lets programs call its
functions by longer names, in which a number of this very network stands: another network's library
does not have them, and what the linker then complains of says so. Under their plain names the
functions are there, too, for programs that declare them by themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from .writer import wrap

_DIGITS = 8


def identity(*parts: str | bytes) -> str:
    """Hexadecimal digits that two networks hardly ever have in common; of all that makes one."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()[:_DIGITS]


def functions_of(options) -> tuple[str, ...]:
    """What programs call to run a network compiled ahead of time, behind its prefix."""
    if options.interface_api == "c":
        return ("run", "run_checked", "step_begin")
    return ("run", "run_checked")


def symbol(function: str, number: str) -> str:
    """The name under which a program's object refers to a function of the network."""
    return f"{function}_needs_the_library_of_this_header_{number}"


def guard_lines(prefix: str, number: str, what: str, remedy: str) -> list[str]:
    """The first lines of a header, of which another by the same name must not be read."""
    upper = prefix.upper()
    return [
        f"#ifdef {upper}_H_",
        f"#if {_number_macro(prefix)} != 0x{number}",
        f'#error "two {what} are called {prefix}: compile one of them with another {remedy}"',
        "#endif",
        "#endif",
        f"#ifndef {upper}_H_",
        f"#define {upper}_H_",
        "",
        f"/*! \\brief Tells it from other {what} of its name. */",
        f"#define {_number_macro(prefix)} 0x{number}",
        "",
    ]


def declaration_lines(
    prefix: str, number: str, functions: Sequence[str], declarations: Sequence[str]
) -> list[str]:
    """The rest of a header: declarations for C and C++ under the names of this network."""
    return [
        *rename_lines(prefix, number, functions),
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        *declarations,
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        f"#endif /* {prefix.upper()}_H_ */",
        "",
    ]


NETWORKS = ("networks", "--module-name")
IMAGES = ("images", "--image-name")


def _number_macro(prefix: str) -> str:
    return f"{prefix.upper()}_NUMBER"


def _own_macro(prefix: str) -> str:
    return f"{prefix.upper()}_OWN_SOURCE"


def rename_lines(prefix: str, number: str, functions: Sequence[str]) -> list[str]:
    """Lines of the header: the names by which programs call the functions."""
    lines = [
        "/* Names that only the library of this header has: no other links with the program. */",
        f"#ifndef {_own_macro(prefix)}",
    ]
    for function in functions:
        name = f"{prefix}_{function}"
        lines.append(f"#define {name} {symbol(name, number)}")
    return [*lines, "#endif", ""]


def own_include(prefix: str, header: str) -> list[str]:
    """Lines that include the header in one of the network's own files: with the plain names."""
    return [f"#define {_own_macro(prefix)}", f'#include "{header}"']


def definition(function: str, number: str, parameters: Iterable[str], result: str = "int32_t"):
    """Lines of C that give a function its second name, at no cost where the compiler can, and a
    symbol whose name is what the linker shall say where two networks have the function.

    ``parameters`` are declarations, each of which ends in its name.
    """
    declared, name = list(parameters), symbol(function, number)
    passed = [p.split()[-1].lstrip("*") for p in declared]
    head = wrap(f"{result} {name}", declared or ["void"], "")
    twice = f"{function}_is_linked_twice_compile_one_with_another_module_name"
    return [
        "/* For programs that include the header. */",
        "#if defined(__GNUC__) && defined(__ELF__)",
        *head,
        f'    __attribute__((alias("{function}")));',
        "#else",
        *head[:-1],
        f"{head[-1]};",
        *head[:-1],
        f"{head[-1]} {{",
        *wrap(f"return {function}", passed, ";", 1),
        "}",
        "#endif",
        "",
        "/* Two networks of one name in a program: the linker complains of this. */",
        f"extern const uint8_t {twice};",
        f"const uint8_t {twice} = 0;",
        "",
    ]
