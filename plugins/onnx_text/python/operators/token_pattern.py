"""Patterns of tokens as finite automata: one class of characters, repeated.

``[a-zA-Z0-9_]+``, ``\\b[a-z]{3,}\\b``, ``.``: what scikit-learn's vectorizers have. The classes are
those of RE2, whose ``\\w`` and ``\\b`` know ASCII letters only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tvmrt.error import UnsupportedError

MAX_REPEATS = 1000
_ITEM = re.compile(
    r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[\](){}|^$*+?])([*+?]|\{(\d+)(,?)(\d*)\})?"
)
_TIMES = {None: (1, 1), "*": (0, None), "+": (1, None), "?": (0, 1)}
_SPACE = r"\t\n\f\r "  # of RE2: without the vertical tab
_WORD = frozenset(range(128)) & {ord(c) for c in map(chr, range(128)) if c == "_" or c.isalnum()}
# Classes of bytes: a member, other ASCII, a continuation, the first of 2, 3 or 4 bytes.
_FIRST_OF_2 = 3
STARTS, DEAD = 3, 3  # states: after the start, a non-word byte, a word byte; no match is possible


@dataclass(frozen=True)
class _Token:
    """``low`` to ``high`` characters of ``members`` (ASCII), and of all others if ``is_wide``.

    ``begin``, ``end``: whether words end at the token's begin and end.
    """

    members: frozenset[int]
    is_wide: bool
    low: int
    high: int | None
    begin: bool
    end: bool


def _parse(pattern: str) -> _Token:
    inner = pattern.removeprefix(r"\b")
    body = inner.removesuffix(r"\b")
    low, high, classes, at = 0, 0, set(), 0
    for item in _ITEM.finditer(body):
        if item.start() != at:
            break
        at = item.end()
        least, most = _bounds(item)
        low, high = low + least, None if high is None or most is None else high + most
        classes.add(_class(item[1], pattern))
    begin, end = inner != pattern, body != inner
    if at != len(body) or len(classes) != 1 or not 0 < low <= (high or low) <= MAX_REPEATS:
        raise _unsupported(pattern)
    ((members, is_wide),) = classes
    if (begin or end) and (is_wide or not members <= _WORD):
        raise _unsupported(pattern)
    return _Token(members, is_wide, low, high, begin, end)


def _bounds(item: re.Match[str]) -> tuple[int, int | None]:
    if item[3] is None:
        return _TIMES[item[2]]
    return int(item[3]), int(item[5]) if item[5] else None if item[4] else int(item[3])


def _class(text: str, pattern: str) -> tuple[frozenset[int], bool]:
    """Return the ASCII members of a class, and whether it has all other characters."""
    if not text.isascii() or "[:" in text or (r"\S" in text and text != r"\S"):
        raise _unsupported(pattern)
    spaces = {r"\s": f"[{_SPACE}]", r"\S": f"[^{_SPACE}]"}
    try:
        has = re.compile(spaces.get(text, text.replace(r"\s", _SPACE)), re.ASCII).fullmatch
    except re.error:
        raise _unsupported(pattern) from None
    return frozenset(code for code in range(1, 128) if has(chr(code))), bool(has("\u0416"))


def _unsupported(pattern: str) -> UnsupportedError:
    return UnsupportedError(
        f"the pattern {pattern!r} is not one class of characters that is repeated, such as "
        r"[a-zA-Z0-9_]+, \b[a-z]{3,}\b or a dot; split the text before the network runs"
    )


def search_automaton(pattern: str) -> tuple[np.ndarray, np.ndarray]:
    """Return an automaton for tokens anywhere: the class of each byte, and int32[states,
    classes + 3]: next states, then whether a token may end at the end of the text, before a
    non-word byte, and before a word byte. A token begins in state 0 at the start of the text, in 1
    after a non-word byte, in 2 after a word byte.

    Raises UnsupportedError for other patterns.
    """
    token = _parse(pattern)
    classes = np.ones(256, np.uint8)
    classes[sorted(token.members)] = 0
    for number, first in enumerate((0x80, 0xC0, 0xE0, 0xF0), _FIRST_OF_2 - 1):
        classes[first:] = number
    last = token.low if token.high is None else token.high

    def after(count: int) -> int:
        """Return the state after so many characters; unbounded tokens stay in the last one."""
        if count > last:
            return DEAD if token.high is not None else DEAD + last
        return DEAD + count

    def inside(count: int, left: int) -> int:
        """Return the state inside the next character, with ``left`` bytes to come."""
        return DEAD + last + 1 + 3 * count + left - 1 if token.is_wide else DEAD

    def row(count: int, accepts: bool = False) -> list[int]:
        parts = [inside(count, left) for left in (1, 2, 3)]
        ends = [accepts, accepts, accepts and not token.end]
        return [after(count + 1), DEAD, DEAD, *parts, *map(int, ends)]

    dead = [DEAD] * 6 + [0] * 3
    table = [row(0), row(0), dead if token.begin else row(0), dead]
    table += [row(count, count >= token.low) for count in range(1, last + 1)]
    if token.is_wide:
        for count in range(last + 1):
            for left in (1, 2, 3):
                following = after(count + 1) if left == 1 else inside(count, left - 1)
                table.append([DEAD, DEAD, following, *dead[3:]])
    return classes, np.array(table, np.int32)
