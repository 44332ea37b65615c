"""Programs and libraries of networks of one name, kept apart.

A linker joins a call and a function because their names are equal, and of two static libraries it
silently takes the first that has the name. So the header of a network gives its functions, as
programs refer to them, longer symbols, in which a number of this very network stands: another
network's library does not have them, and what the linker then complains of says so. In C the names
stay as they are, and under these the functions are there, too, for programs that declare them by
themselves. Where compilers cannot give a function another symbol nothing is checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from ..c.text import LINE, wrap
from ..weight_bytes import WeightBytes

_DIGITS = 8


def identity(*parts: str | WeightBytes) -> str:
    """Hexadecimal digits that two networks hardly ever have in common; of all that makes one."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        for chunk in [data] if isinstance(data, bytes) else data.chunks():
            found.update(chunk)
    return found.hexdigest()[:_DIGITS]


def _suffix(number: str) -> str:
    """What a program's object has behind the name of a function of the network."""
    return f"_needs_the_library_of_this_header_{number}"


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


def declaration_lines(prefix: str, number: str, declarations: Sequence[str]) -> list[str]:
    """The rest of a header: declarations for C and C++, functions with the ends of ``linked``."""
    macro = _symbol_macro(prefix)
    return [
        "/* Symbols that only the library of this header has: no other links with the program. */",
        f"#if {_HAS_LABELS} && !defined({_own_macro(prefix)})",
        f'#define {macro}(name) __asm__(name "{_suffix(number)}")',
        "#else",
        f"#define {macro}(name)",
        "#endif",
        "",
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


_HAS_LABELS = "defined(__GNUC__) && defined(__ELF__)"


def linked(prefix: str, function: str) -> str:
    """The end of a function's declaration in the header: the symbol that it has for programs."""
    return f'\n    {_symbol_macro(prefix)}("{prefix}_{function}");'


NETWORKS = ("networks", "--module-name")
IMAGES = ("images", "--image-name")


def _number_macro(prefix: str) -> str:
    return f"{prefix.upper()}_NUMBER"


def _own_macro(prefix: str) -> str:
    return f"{prefix.upper()}_OWN_SOURCE"


def _symbol_macro(prefix: str) -> str:
    return f"{prefix.upper()}_SYMBOL"


def own_include(prefix: str, header: str) -> list[str]:
    """Lines that include the header in one of the network's own files: with the plain names."""
    return [f"#define {_own_macro(prefix)}", f'#include "{header}"']


def definition(function: str, number: str, parameters: Iterable[str], result: str = "int32_t"):
    """Lines of C that give a function its second symbol, where that is possible at no cost, and one
    whose name is what the linker shall say where two networks have the function.

    ``parameters`` are declarations.
    """
    twice = f"{function}_is_linked_twice_compile_one_with_another_module_name"
    long = len(f"extern const uint8_t {twice};") > LINE
    return [
        "/* The symbol by which programs that include the header call it. */",
        f"#if {_HAS_LABELS}",
        "#ifdef __cplusplus",
        'extern "C"',
        "#endif",
        *wrap(f"{result} {function}{_suffix(number)}", list(parameters) or ["void"], ""),
        f'    __attribute__((alias("{function}"), nothrow));',
        "#endif",
        "",
        "/* Two networks of one name in a program: the linker complains of this. */",
        *(
            ["extern const uint8_t", f"    {twice};"]
            if long
            else [f"extern const uint8_t {twice};"]
        ),
        f"const uint8_t {twice} = 0;",
        "",
    ]
