"""Helpers that print C: declarations, initialisers and lines of at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvmrt.compiler.ir.op import GAP

LINE = 100  # columns of generated C


@dataclass(frozen=True)
class Declaration:
    """Declaration of a parameter, member or variable: ``const type *restrict name``."""

    type: str
    name: str
    pointer: bool = False
    const: bool = False
    restrict: bool = False

    def __str__(self) -> str:
        qualifier = "const " if self.const else ""
        star = "*restrict " if self.restrict else "*" if self.pointer else ""
        return f"{qualifier}{self.type} {star}{self.name}"

    def aliased(self) -> Declaration:
        """Return this declaration without ``restrict``, for memory that has other pointers."""
        return replace(self, restrict=False, pointer=self.pointer or self.restrict)

    def pointee(self) -> Declaration:
        """Return a declaration of the pointee, under the pointer's name."""
        return Declaration(self.type, self.name)


def wrap(
    head: str,
    parts: Sequence[object],
    end: str,
    depth: int = 0,
    columns: int = LINE,
    brackets: str = "()",
) -> list[str]:
    """Return ``head(part, part)end`` on one line if it fits, else wrapped after the head."""
    margin = "  " * depth
    texts = [str(part) for part in parts]
    first, last = brackets
    text = f"{margin}{head}{first}{', '.join(texts)}{last}{end}"
    if len(text) <= columns:
        return [text]
    lines, line = [f"{margin}{head}{first}"], f"{margin}    "
    closed = [*(f"{part}, " for part in texts[:-1]), f"{texts[-1]}{last}{end}"]
    for part in closed:
        if len(line) + len(part.rstrip()) > columns and line.strip():
            lines.append(line.rstrip())
            line = f"{margin}    "
        line += part
    return [*lines, line.rstrip()]


def members(fields: Mapping[str, object]) -> list[str]:
    """Return designated initialisers; a mapping is a struct, a tuple an array."""
    return [f".{name} = {_member(value)}" for name, value in fields.items()]


def _member(value: object) -> object:
    if isinstance(value, Mapping):
        return nested_initializer(value)
    return braces(value) if isinstance(value, tuple) else value


def initializer(fields: Mapping[str, object]) -> str:
    """Return an initialiser on one line."""
    return braces(members(fields))


def nested_initializer(fields: Mapping[str, object]) -> str:
    """Return an initialiser nested in another, wrapped if necessary."""
    lines, line = [], ""
    for part in (f"{member}, " for member in members(fields)):
        if len(line) + len(part) > 80:
            lines.append(line.rstrip())
            line = ""
        line += part
    return "{" + "\n            ".join([*lines, line.rstrip(", ")]) + "}"


def print_fields(head: str, fields: Mapping[str, object], depth: int = 0) -> list[str]:
    """Return a variable with designated initialisers, on one line or with one member per line."""
    line = f"{head} = {initializer(fields)};"
    if len(line) <= LINE:
        return [line]
    margin = "  " * depth
    return [f"{head} = {{", *(f"{margin}    {m}," for m in members(fields)), f"{margin}}};"]


def counted(name: str, variable: str, elements: Sequence[object]) -> dict[str, object]:
    """Return the initialisers of a pointer to an array, NULL if it is empty, and of its length."""
    return {name: variable if elements else "NULL", f"num_{name}": len(elements)}


def rows(head: str, elements: Sequence[Mapping[str, object]]) -> list[str]:
    """Return an array of structs with designated initialisers, one element after another."""
    lines = [line for each in elements for line in wrap("", members(each), ",", 1, brackets="{}")]
    return [f"{head} = {{", *lines, "};"]


def break_lines(text: str) -> str:
    """Fill the gaps of a file: by a space, or by a line break in lines that are too long.

    Nothing else changes, so the author of a text decides where its lines may break.
    """
    return "\n".join(line for each in text.split("\n") for line in _lines(each))


def _lines(text: str) -> list[str]:
    if len(text) <= LINE:
        return [text.replace(GAP, " ")]
    line, *rest = text.split(GAP)
    margin = line[: len(line) - len(line.lstrip(" "))] + "    "
    lines = []
    for word in rest:
        if len(line) + 1 + len(word) <= LINE:
            line = f"{line} {word}"
        else:
            lines.append(line)
            line = margin + word
    return [*lines, line]


def reject_if(test: str, error: str = "FunctionCallInvalidArg") -> list[str]:
    """Return C lines of a firmware function that return an error code if the test holds."""
    code = f"return kTvmError{error};"
    line = f"  if ({test}) {code}"
    return [line] if len(line) <= LINE else [f"  if ({test}) {{", f"    {code}", "  }"]


OUT_OF_RANGE = "NetworkDimensionOutOfRange"


def bounds_check(size: str, minimum: object, maximum: object) -> list[str]:
    """Return C lines that return an error code if a size is out of bounds."""
    return reject_if(f"{size} < {minimum}{GAP}|| {size} > {maximum}", OUT_OF_RANGE)


def any_null(pointers: Sequence[str]) -> str:
    """Return the C condition that at least one pointer is NULL."""
    return f"{GAP}|| ".join(f"{name} == NULL" for name in pointers)


def wrap_text(text: str, width: int = LINE, first: str = "", more: str = "") -> list[str]:
    """Wrap a text to ``width`` columns; ``first`` and ``more`` begin its first and later lines."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=more, break_on_hyphens=False
    )


def include_guard(guard: str, lines: Sequence[str]) -> str:
    """Return the text of a header with an include guard."""
    head = [f"#ifndef {guard}", f"#define {guard}", ""]
    return "\n".join([*head, *lines, "", f"#endif /* {guard} */", ""])


def comment_lines(text: str) -> list[str]:
    """Return a text wrapped to lines of a C block comment."""
    return wrap_text(text, first=" * ", more=" *     ")


def braces(values: Sequence[object]) -> str:
    """Return ``{a, b}``."""
    return "{" + comma_separated(values) + "}"


def comma_separated(values: Sequence[object]) -> str:
    """Return ``a, b``."""
    return f",{GAP}".join(map(str, values))


def call(function: str, *arguments: object) -> str:
    """Return ``function(a, b)``."""
    return f"{function}({comma_separated(arguments)})"


def byte_size(count: object, ctype: str) -> str:
    """Return ``count * sizeof(ctype)``; ``count`` is an int or a C expression of type int."""
    cast = "" if isinstance(count, int) else "(size_t)"
    return f"{cast}{count} * sizeof({ctype})"


def times(name: str, factor: int) -> str:
    """Return ``name * factor``, or the name alone for a factor of 1."""
    return name if factor == 1 else f"{name} * {factor}"


def minus(name: str, number: int) -> str:
    """Return ``name - number`` with a single sign, or the name alone for 0."""
    sign = "-" if number > 0 else "+"
    return f"{name} {sign} {abs(number)}" if number else name


def plus(pointer: str, *terms: str) -> str:
    """Return ``pointer + terms`` without the terms that are zero."""
    return f"{GAP}+ ".join([pointer, *(t for t in terms if t != "0")])
