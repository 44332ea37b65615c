"""Join C texts into one: includes are followed once, conditions are decided where they can be."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tvmrt.plugins.single_file.conditions import UNKNOWN, Macros

DIRECTIVE = re.compile(r"\s*#\s*(\w+)[ \t]*(.*)", re.DOTALL)
_INCLUDE = re.compile(r'[<"]([^>"]+)[>"]')
_DEFINE = re.compile(r"(\w+)(\([^)]*\))?[ \t]*(.*)", re.DOTALL)
# Comments, and strings and characters, which may have marks of comments in them.
_COMMENT = re.compile(
    r"""/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL
)


def without_comments(text: str) -> str:
    """Return C text with a space for each comment."""
    return _COMMENT.sub(lambda match: match.group(1) or " ", text)


@dataclass
class _Block:
    """A conditional block: an active branch is copied; an open block is left to the compiler."""

    active: bool
    taken: bool  # whether no later branch can be reached
    open: bool = False


@dataclass
class Preprocessor:
    """Joins texts in the order of the calls of ``add``.

    Parameters
    ----------
    headers
        Texts of headers by path; any other header is included by the result.
    own
        Prefixes of macros that only these texts define.
    undefined
        Macros of compilers to treat as undefined.
    """

    headers: Mapping[str, str]
    own: tuple[str, ...]
    undefined: tuple[str, ...] = ()
    system: dict[str, None] = field(default_factory=dict)  # unconditionally included, in order
    _lines: list[str] = field(default_factory=list)
    _blocks: list[_Block] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._macros = Macros(self.own, self.undefined)

    @property
    def text(self) -> str:
        """All texts so far."""
        return "\n".join(self._lines) + "\n"

    def add(self, text: str, folder: str = "") -> None:
        """Append a text; ``folder`` is where its relative includes are."""
        for line in _logical_lines(text):
            directive = DIRECTIVE.match(line)
            if directive is None:
                if self._active:
                    self._lines.append(line)
                continue
            kind, rest = directive.group(1), directive.group(2)
            if kind in ("if", "ifdef", "ifndef", "elif", "else", "endif"):
                self._conditional(kind, without_comments(rest).strip())
            elif self._active:
                self._command(kind, rest, line, folder)

    @property
    def _active(self) -> bool:
        return all(block.active for block in self._blocks)

    def _command(self, kind: str, rest: str, line: str, folder: str) -> None:
        certain = not any(block.open for block in self._blocks)
        if kind == "include":
            self._include(rest, line, folder, certain)
            return
        if kind in ("define", "undef") and (match := _DEFINE.match(rest)) is not None:
            body = None if kind == "undef" else without_comments(match.group(3)).strip()
            self._macros.define(match.group(1), body, certain)
        self._lines.append(line)

    def _include(self, rest: str, line: str, folder: str, certain: bool) -> None:
        match = _INCLUDE.match(rest.strip())
        name = match.group(1) if match else rest.strip()
        for path in (os.path.normpath(os.path.join(folder, name)), name):
            if path in self.headers:
                self.add(self.headers[path], os.path.dirname(path))
                return
        if certain:
            self.system[name] = None
        else:
            self._lines.append(line)

    def _conditional(self, kind: str, condition: str) -> None:
        if kind == "endif":
            if self._blocks.pop().open and self._active:
                self._lines.append("#endif")
        elif kind in ("elif", "else"):
            self._next_branch(kind, condition)
        else:
            if kind != "if":
                condition = f"{'!' * (kind == 'ifndef')}defined({condition})"
            self._first_branch(condition)

    def _first_branch(self, condition: str) -> None:
        if not self._active:
            self._blocks.append(_Block(active=False, taken=True))
            return
        value = self._macros.evaluate(condition)
        block = _Block(active=value != 0, taken=value not in (0, UNKNOWN), open=value is UNKNOWN)
        if block.open:
            self._lines.append(f"#if {condition}")
        self._blocks.append(block)

    def _next_branch(self, kind: str, condition: str) -> None:
        block = self._blocks.pop()
        if block.taken or not self._active:
            self._blocks.append(_Block(active=False, taken=True, open=block.open))
            return
        value = 1 if kind == "else" else self._macros.evaluate(condition)
        if not block.open:
            self._first_branch(condition if kind == "elif" else "1")
            return
        if value == 0:
            block.active = False
        else:
            self._lines.append("#else" if value else f"#elif {condition}")
            block.active, block.taken = True, value is not UNKNOWN
        self._blocks.append(block)


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text; a directive with all its continuation lines, and comments over
    several lines as one line of text."""
    pending: list[str] = []
    for line in text.split("\n"):
        pending.append(line)
        joined = "\n".join(pending)
        if line.endswith("\\") or _inside_comment(joined):
            continue
        pending = []
        yield joined
    if pending:
        yield "\n".join(pending)


def _inside_comment(text: str) -> bool:
    return "/*" in _COMMENT.sub(" ", text)
