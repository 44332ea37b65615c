"""Files of C that custom operators bring: each body in a header of its own, as its author wrote it.

A message of the C compiler thus names the operator and the line of the author's text. The functions
that call one body are in a file of their own: what two authors call by the same name stays apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from tvmrt.compiler.ir.program import Program

from ..c.naming import identifier
from ..c.text import guarded
from ..c.writer import Function, comment_text


def header_name(operator: Any) -> str:
    """The file of an operator's C body; other text has another name."""
    digest = hashlib.sha256(operator.c.source.encode()).hexdigest()[:8]
    return f"custom_{identifier(operator.name)}_{digest}.h"


def header_text(operator: Any) -> str:
    """The C body between guards; functions of other element types may stay unused."""
    guard = header_name(operator).replace(".", "_").upper() + "_"
    quoted = comment_text(operator.name).replace("\\", "/").replace('"', "'")
    body = operator.c.source.strip("\n").rstrip()
    head = f"/* The C body of {quoted}, version {operator.version}. */\n"
    lines = [
        "#include <tvm/runtime/kernels/custom.h>",
        "",
        "#if defined(__GNUC__)",
        "/* what C only warns of would end the process, or read what is not there */",
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
    return head + guarded(guard, lines)


def _first_line(source: str) -> int:
    """The line, from 1, at which a text begins to say something."""
    return len(source) - len(source.lstrip("\n")) + 1


def split_functions(functions: Sequence[Function], count: int) -> list[list[Function]]:
    """Functions by file: at most ``count`` in each, those of one custom operator by themselves."""
    own: dict[str, list[Function]] = {}
    others = []
    for function in functions:
        root = function.step.group.root
        if root.op == "custom":
            own.setdefault(header_name(root.attrs["operator"]), []).append(function)
        else:
            others.append(function)
    return [*(others[i : i + count] for i in range(0, len(others), count)), *own.values()]


def add_custom_files(program: Program, files: dict[str, str]) -> None:
    """The headers of all custom operators that the program calls."""
    for step in program.steps:
        if step.group.root.op == "custom":
            operator = step.group.root.attrs["operator"]
            files[header_name(operator)] = header_text(operator)
