"""Link-time protection against mixing up networks of one name.

A linker resolves calls by name only, and silently takes the first of two static libraries with that
name. The header of a network therefore declares its functions under longer symbols, which contain a
number that identifies this very network. Another network's library does not define them, and the
linker's error contains the reason. In C the names are unchanged, and the plain symbols exist too,
for programs with their own declarations. Compilers without asm labels skip the check.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ..weight_blob import WeightBlob

_DIGITS = 8


def identity(*parts: str | WeightBlob, digits: int = _DIGITS) -> str:
    """Return hexadecimal digits of a hash over all parts, which identify a network."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        for chunk in [data] if isinstance(data, bytes) else data.chunks():
            digest.update(chunk)
    return digest.hexdigest()[:digits]


def guard_lines(prefix: str, number: str, what: str, remedy: str) -> list[str]:
    """Return the first lines of a header, which reject a different header of the same name."""
    upper = prefix.upper()
    return [
        f"#ifdef {upper}_H_",
        f"#if {_macro(prefix, 'CHECKSUM')} != 0x{number}",
        f'#error "two {what} are called {prefix}: compile one of them with another {remedy}"',
        "#endif",
        "#endif",
        f"#ifndef {upper}_H_",
        f"#define {upper}_H_",
        "",
        f"/*! \\brief Checksum; distinguishes it from other {what} with the same name. */",
        f"#define {_macro(prefix, 'CHECKSUM')} 0x{number}",
        "",
    ]


def declaration_lines(prefix: str, number: str, declarations: Sequence[str]) -> list[str]:
    """Return the rest of a header: declarations for C and C++; functions end with
    ``prototype_end``."""
    macro = _macro(prefix, "SYMBOL")
    return [
        "/* A program links only with the library of the header that it includes: symbols end with",
        " * its checksum. The library defines them as aliases of its functions. */",
        f"#if !{_HAS_LABELS}",
        f"#define {macro}(name)",
        f"#define {_macro(prefix, 'ALIAS')}(name)",
        f"#elif !defined({_macro(prefix, 'OWN_SOURCE')})",
        f'#define {macro}(name) __asm__(name "{_SUFFIX}{number}")',
        "#else",
        f"#define {macro}(name)",
        f"#define {_macro(prefix, 'ALIAS')}(name)" + " \\",
        f'  extern __typeof__(name) name##_alias __asm__(#name "{_SUFFIX}{number}")' + " \\",
        "      __attribute__((alias(#name), nothrow));",
        "#endif",
        f"#ifdef {_macro(prefix, 'OWN_SOURCE')}",
        "/* The linker reports two networks of one name by the symbol with the advice. */",
        f"#define {_macro(prefix, 'GUARD')}(name)" + " \\",
        f"  {_macro(prefix, 'ALIAS')}(name)" + " \\",
        f"  extern const uint8_t name##{_TWICE};" + " \\",
        f"  const uint8_t name##{_TWICE} = 0",
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


_HAS_LABELS = "(defined(__GNUC__) && defined(__ELF__))"
_SUFFIX = "_needs_the_library_of_this_header_"
_TWICE = "_is_linked_twice_compile_one_with_another_module_name"


def prototype_end(prefix: str, function: str) -> str:
    """Return the end of a function's declaration in the header, with its symbol for programs."""
    return f'\n    {_macro(prefix, "SYMBOL")}("{prefix}_{function}");'


NETWORKS = ("networks", "--module-name")
IMAGES = ("images", "--image-name")


def _macro(prefix: str, name: str) -> str:
    return f"{prefix.upper()}_{name}"


def own_include(prefix: str, header: str) -> list[str]:
    """Return lines that include the header in the network's own files, with plain symbols."""
    return [f"#define {_macro(prefix, 'OWN_SOURCE')}", f'#include "{header}"']


def guard(prefix: str, function: str) -> list[str]:
    """Return the C lines of the file that defines a function: its symbol for programs, and one that
    the linker reports if two networks have this function."""
    return [f"{_macro(prefix, 'GUARD')}({prefix}_{function});", ""]
