"""C as data until it is printed: declarations, initialisers, lines of at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvmrt.compiler.ir.op import GAP

LINE = 100  # columns of generated C


@dataclass(frozen=True)
class Declaration:
    """A parameter, a member or a variable: ``const type *restrict name``."""

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
        """The same, that others may point to as well."""
        return replace(self, restrict=False, pointer=self.pointer or self.restrict)

    def pointee(self) -> Declaration:
        """What a pointer points to, under its name."""
        return Declaration(self.type, self.name)


def wrap(
    head: str,
    parts: Sequence[object],
    end: str,
    depth: int = 0,
    columns: int = LINE,
    brackets: str = "()",
) -> list[str]:
    """``head(part, part)end`` on one line if it fits, else the parts below each other."""
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
    """The members of an initialiser, each by its name; a mapping is a struct, a tuple an array."""
    return [f".{name} = {_member(value)}" for name, value in fields.items()]


def _member(value: object) -> object:
    if isinstance(value, Mapping):
        return nested(value)
    return braces(value) if isinstance(value, tuple) else value


def initializer(fields: Mapping[str, object]) -> str:
    """An initialiser on one line."""
    return braces(members(fields))


def nested(fields: Mapping[str, object]) -> str:
    """An initialiser as a member of another, on as many lines as it takes."""
    lines, line = [], ""
    for part in (f"{member}, " for member in members(fields)):
        if len(line) + len(part) > 80:
            lines.append(line.rstrip())
            line = ""
        line += part
    return "{" + "\n            ".join([*lines, line.rstrip(", ")]) + "}"


def print_fields(head: str, fields: Mapping[str, object], depth: int = 0) -> list[str]:
    """A variable with its initialiser by names: on one line if it fits, else a member a line."""
    line = f"{head} = {initializer(fields)};"
    if len(line) <= LINE:
        return [line]
    margin = "  " * depth
    return [f"{head} = {{", *(f"{margin}    {m}," for m in members(fields)), f"{margin}}};"]


def rows(head: str, elements: Sequence[Mapping[str, object]]) -> list[str]:
    """An array of structs whose members go by their names, an element after the other."""
    lines = [line for each in elements for line in wrap("", members(each), ",", 1, brackets="{}")]
    return [f"{head} = {{", *lines, "};"]


def laid_out(text: str) -> str:
    """A file with its gaps filled: by a space, or in lines that are too long by the next line.

    Nothing else is changed, so that who makes a text says where it may be broken.
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


def refusal(test: str, error: str = "FunctionCallInvalidArg") -> list[str]:
    """Lines of C in a firmware's function that return an error code where the test holds."""
    code = f"return kTvmError{error};"
    line = f"  if ({test}) {code}"
    return [line] if len(line) <= LINE else [f"  if ({test}) {{", f"    {code}", "  }"]


OUT_OF_RANGE = "NetworkDimensionOutOfRange"


def bounds_check(size: str, least: object, most: object) -> list[str]:
    """The same of a size that is not within its bounds."""
    return refusal(f"{size} < {least}{GAP}|| {size} > {most}", OUT_OF_RANGE)


def any_null(pointers: Sequence[str]) -> str:
    """The C condition that one of the pointers is NULL."""
    return f"{GAP}|| ".join(f"{name} == NULL" for name in pointers)


def broken(text: str, width: int = LINE, first: str = "", more: str = "") -> list[str]:
    """The words of a text in lines of at most so many columns, which begin with these."""
    return textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=more, break_on_hyphens=False
    )


def guarded(guard: str, lines: Sequence[str]) -> str:
    """The text of a header that is read once."""
    head = [f"#ifndef {guard}", f"#define {guard}", ""]
    return "\n".join([*head, *lines, "", f"#endif /* {guard} */", ""])


def comment_lines(text: str) -> list[str]:
    """Lines inside a comment."""
    return broken(text, first=" * ", more=" *     ")


def braces(values: Sequence[object]) -> str:
    """``{a, b}``."""
    return "{" + listed(values) + "}"


def listed(values: Sequence[object]) -> str:
    """``a, b``."""
    return f",{GAP}".join(map(str, values))


def call(function: str, *arguments: object) -> str:
    """``function(a, b)``."""
    return f"{function}({listed(arguments)})"


def bytes_of(count: object, ctype: str) -> str:
    """``count * sizeof(ctype)``; a count that is no number is an expression of int."""
    cast = "" if isinstance(count, int) else "(size_t)"
    return f"{cast}{count} * sizeof({ctype})"


def times(name: str, factor: int) -> str:
    """``name * factor``, without a factor of 1."""
    return name if factor == 1 else f"{name} * {factor}"


def minus(name: str, number: int) -> str:
    """``name - number`` without two signs in a row, or the name alone."""
    sign = "-" if number > 0 else "+"
    return f"{name} {sign} {abs(number)}" if number else name


def plus(pointer: str, *terms: str) -> str:
    """``pointer + terms``, without the terms that are zero."""
    return f"{GAP}+ ".join([pointer, *(t for t in terms if t != "0")])
