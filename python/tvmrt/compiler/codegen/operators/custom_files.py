"""C files of custom operators: each body is in its own header, unchanged.

Messages of the C compiler therefore name the operator and the line of the author's text. Functions
that call one body lie in their own file, so that equal names in different bodies do not clash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.compiler.ir.program import Program

from ..c.formatting import include_guard
from ..c.naming import identifier
from ..c.writer import comment_text

_PREFIX = "custom_"


def header_name(operator: Any) -> str:
    """Return the header of an operator's C body; its name contains a hash of the text."""
    digest = hashlib.sha256(operator.c.source.encode()).hexdigest()[:8]
    return f"{_PREFIX}{identifier(operator.name)}_{digest}.h"


def has_custom_files(files: Iterable[str]) -> bool:
    """Return whether these names are those of a network with custom operators."""
    return any(name.startswith(_PREFIX) for name in files)


def header_text(operator: Any) -> str:
    """Return the C body with include guards; functions for other element types may be unused."""
    guard = header_name(operator).replace(".", "_").upper() + "_"
    quoted = comment_text(operator.name).replace("\\", "/").replace('"', "'")
    body = operator.c.source.strip("\n").rstrip()
    head = f"/* The C body of {quoted}, version {operator.version}. */\n"
    lines = [
        "#include <tvm/runtime/kernels/custom.h>",
        "",
        "#if defined(__GNUC__)",
        "/* these warnings of C indicate crashes or reads out of bounds */",
        '#pragma GCC diagnostic error "-Wimplicit-function-declaration"',
        '#pragma GCC diagnostic error "-Wincompatible-pointer-types"',
        '#pragma GCC diagnostic error "-Wint-conversion"',
        "#pragma GCC diagnostic push",
        '#pragma GCC diagnostic ignored "-Wunused-function"',
        "#endif",
        f'#line {_first_line(operator.c.source)} "{quoted}"',
        body,
        "#if defined(__GNUC__)",
        "#pragma GCC diagnostic pop",
        "#endif",
    ]
    return head + include_guard(guard, lines)


def _first_line(source: str) -> int:
    """Return the number of the first non-empty line, from 1."""
    return len(source) - len(source.lstrip("\n")) + 1


def add_custom_files(program: Program, files: dict[str, str]) -> None:
    """Add the headers of all custom operators that the program calls."""
    for step in program.steps:
        operator = kernel_record(step.group.root)
        if operator is not None:
            files[header_name(operator)] = header_text(operator)
