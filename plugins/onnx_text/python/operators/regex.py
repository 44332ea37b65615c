"""Regular expressions as finite automata; RE2's syntax, except what needs more than a full match.

A pattern is parsed to a tree, and converted to a nondeterministic automaton over UTF-8 bytes, then
to a deterministic one. Its states are sets of the former's, plus the preceding kind of character.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from tvmrt.error import UnsupportedError

MAX_DFA_STATES = 2000
MAX_NFA_STATES = 20000
MAX_REPEATS = 1000
_LAST = 0x10FFFF

Ranges = list  # sorted, disjoint (first, last) code points

_DIGIT = [(48, 57)]
_WORD = [(48, 57), (65, 90), (95, 95), (97, 122)]
_SPACE = [(9, 10), (12, 13), (32, 32)]
_CONTROLS = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_POSIX = {
    "alnum": [(48, 57), (65, 90), (97, 122)],
    "alpha": [(65, 90), (97, 122)],
    "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)],
    "cntrl": [(0, 31), (127, 127)],
    "digit": _DIGIT,
    "graph": [(33, 126)],
    "lower": [(97, 122)],
    "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)],
    "upper": [(65, 90)],
    "word": _WORD,
    "xdigit": [(48, 57), (65, 70), (97, 102)],
}


def _merge_ranges(ranges: Ranges) -> Ranges:
    result: Ranges = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


def _complement(ranges: Ranges) -> Ranges:
    found, start = [], 0
    for first, last in _merge_ranges(ranges):
        if start < first:
            found.append((start, first - 1))
        start = last + 1
    return found + ([(start, _LAST)] if start <= _LAST else [])


class _Parser:
    """Parser from a pattern to a tree of tuples: ("chars", ranges), ("join", parts),
    ("either", parts), ("repeat", part, least, most or None), ("assert", which)."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0

    def parse(self):
        tree = self._alternation()
        if self.at < len(self.pattern):
            raise self._error("a ) without a (")
        return tree

    def _error(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            f"the pattern {self.pattern!r} has {what} at {self.at}, which is not supported; use "
            "characters, classes, groups, |, *, +, ?, {m,n} and assertions"
        )

    def _peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def _take(self, text: str) -> bool:
        result = self._peek(text)
        self.at += len(text) * result
        return result

    def _next(self) -> str:
        if self.at >= len(self.pattern):
            raise self._error("an end")
        self.at += 1
        return self.pattern[self.at - 1]

    def _alternation(self):
        parts = [self._sequence()]
        while self._take("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else ("either", parts)

    def _sequence(self):
        parts = []
        while self.at < len(self.pattern) and not self._peek("|") and not self._peek(")"):
            parts.append(self._repetition(self._atom()))
        return ("join", parts)

    def _repetition(self, part):
        bounds = self._bounds()
        while bounds is not None:
            self._take("?")  # lazy repetition matches the same whole strings
            part = ("repeat", part, *bounds)
            bounds = self._bounds()
        return part

    def _bounds(self):
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._take(sign):
                return bounds
        end = self.pattern.find("}", self.at)
        if not self._peek("{") or end < 0:
            return None
        low, comma, high = self.pattern[self.at + 1 : end].partition(",")
        if not low.isdecimal() or not (high.isdecimal() or not high):
            return None  # a literal brace
        min_count, max_count = int(low), int(high) if high else (None if comma else int(low))
        if min_count > MAX_REPEATS or (
            max_count is not None and not min_count <= max_count <= MAX_REPEATS
        ):
            raise self._error("bounds of a repetition")
        self.at = end + 1
        return min_count, max_count

    def _atom(self):
        start = self._next()
        if start == "(":
            return self._group()
        if start == "[":
            return ("chars", self._class())
        if start == ".":
            return ("chars", _complement([(10, 10)]))
        if start == "^":
            return ("assert", "begin")
        if start == "$":
            return ("assert", "end")
        if start == "\\":
            return self._escape()
        if start in "*+?":
            raise self._error(f"{start} after nothing")
        return ("chars", [(ord(start), ord(start))])

    def _group(self):
        if self._take("?"):
            if self._take("P<") or self._take("<"):
                end = self.pattern.find(">", self.at)
                if end < 0 or not self.pattern[self.at : end].isidentifier():
                    raise self._error("a group of a kind")
                self.at = end + 1
            elif not self._take(":"):
                raise self._error("flags or a lookaround")
        tree = self._alternation()
        if not self._take(")"):
            raise self._error("a ( without a )")
        return tree

    def _escape(self):
        asserts = {"b": "word", "B": "inside", "A": "begin", "z": "end"}
        kind = self.pattern[self.at : self.at + 1]
        if kind in asserts and kind:
            self.at += 1
            return ("assert", asserts[kind])
        return ("chars", self._escaped_class())

    def _escaped_class(self) -> Ranges:
        """Return the code points of an escape sequence, inside or outside of a class."""
        kind = self._next()
        sets = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
        if kind.lower() in sets:
            return sets[kind] if kind in sets else _complement(sets[kind.lower()])
        if kind == "x":
            return self._parse_hex()
        if kind in _CONTROLS:
            return [(_CONTROLS[kind], _CONTROLS[kind])]
        if kind.isascii() and kind.isalnum():
            raise self._error(f"\\{kind}")
        return [(ord(kind), ord(kind))]

    def _parse_hex(self) -> Ranges:
        digits = self.pattern[self.at : self.at + 2]
        length = 2
        if self._peek("{") and "}" in self.pattern[self.at :]:
            length = self.pattern.index("}", self.at) - self.at + 1
            digits = self.pattern[self.at + 1 : self.at + length - 1]
        try:
            code = int(digits, 16)
        except ValueError:
            raise self._error("\\x") from None
        if code > _LAST:
            raise self._error("\\x")
        self.at += length
        return [(code, code)]

    def _class(self) -> Ranges:
        negated, ranges, first = self._take("^"), [], True
        while first or not self._take("]"):
            first = False
            if self._peek("[:"):
                ranges += self._posix()
                continue
            low = self._member()
            single = len(low) == 1 and low[0][0] == low[0][1]
            if single and self._peek("-") and not self._peek("-]"):
                self.at += 1
                high = self._member()
                if len(high) != 1 or high[0][0] != high[0][1] or high[0][0] < low[0][0]:
                    raise self._error("a range")
                low = [(low[0][0], high[0][0])]
            ranges += low
        return _complement(ranges) if negated else _merge_ranges(ranges)

    def _member(self) -> Ranges:
        character = self._next()
        if character == "\\":
            return self._escaped_class()
        return [(ord(character), ord(character))]

    def _posix(self) -> Ranges:
        end = self.pattern.find(":]", self.at)
        name = self.pattern[self.at + 2 : end]
        if end < 0 or name.lstrip("^") not in _POSIX:
            raise self._error("a character class")
        self.at = end + 2
        found = _POSIX[name.lstrip("^")]
        return _complement(found) if name.startswith("^") else found


def _utf8(first: int, last: int) -> Iterator[list[tuple[int, int]]]:
    """Yield sequences of byte ranges that together encode a range of code points in UTF-8."""
    for limit in (0x7F, 0x7FF, 0xFFFF):
        if first <= limit < last:
            yield from _utf8(first, limit)
            yield from _utf8(limit + 1, last)
            return
    for bits in (6, 12, 18):
        low = (1 << bits) - 1
        if last > 0x7F and first >> bits != last >> bits:
            if first & low:
                yield from _utf8(first, first | low)
                yield from _utf8((first | low) + 1, last)
                return
            if last & low != low:
                yield from _utf8(first, (last & ~low) - 1)
                yield from _utf8(last & ~low, last)
                return
    a, b = (chr(c).encode("utf-8", "surrogatepass") for c in (first, last))
    yield list(zip(a, b))


class _Nfa:
    """Nondeterministic automaton: ``steps`` consume a byte, ``jumps`` none and may have an
    assertion."""

    def __init__(self, tree) -> None:
        self.steps: list[list[tuple[int, int, int]]] = []
        self.jumps: list[list[tuple[str, int]]] = []
        self.start = self._state()
        self.end = self._add(tree, self.start)

    def _state(self) -> int:
        if len(self.steps) >= MAX_NFA_STATES:
            raise UnsupportedError(
                f"the pattern needs more than {MAX_NFA_STATES} positions; use fewer repetitions"
            )
        self.steps.append([])
        self.jumps.append([])
        return len(self.steps) - 1

    def _add(self, tree, start: int) -> int:
        """Add a tree that begins at state ``start``; return its end state."""
        kind = tree[0]
        if kind == "join":
            for part in tree[1]:
                start = self._add(part, start)
            return start
        if kind == "repeat":
            return self._repeat(start, *tree[1:])
        end = self._state()
        if kind == "either":
            for part in tree[1]:
                self.jumps[self._add(part, start)].append(("", end))
        elif kind == "assert":
            self.jumps[start].append((tree[1], end))
        else:
            for first, last in tree[1]:
                for parts in _utf8(first, last):
                    self._chain(start, parts, end)
        return end

    def _chain(self, start: int, parts: list[tuple[int, int]], end: int) -> None:
        for low, high in parts[:-1]:
            target = self._state()
            self.steps[start].append((low, high, target))
            start = target
        self.steps[start].append((*parts[-1], end))

    def _repeat(self, start: int, part, min_count: int, max_count: int | None) -> int:
        for _ in range(min_count):
            start = self._add(part, start)
        if max_count is None:
            around, end = self._state(), self._state()
            self.jumps[start].append(("", around))
            self.jumps[self._add(part, around)].append(("", around))
            self.jumps[around].append(("", end))
            return end
        end = self._state()
        for _ in range(max_count - min_count):
            self.jumps[start].append(("", end))
            start = self._add(part, start)
        self.jumps[start].append(("", end))
        return end

    def epsilon_closure(self, states, before: str, after: str) -> set[int]:
        """Return all states reachable without a byte; ``before`` and ``after`` are the kinds of
        the surrounding characters: "" (none), "word" or "other"."""
        at_boundary = (before == "word") != (after == "word")
        conditions = {"": True, "begin": not before, "end": not after, "word": at_boundary}
        conditions["inside"] = not at_boundary
        found, pending = set(states), list(states)
        while pending:
            for condition, state in self.jumps[pending.pop()]:
                if conditions[condition] and state not in found:
                    found.add(state)
                    pending.append(state)
        return found


def _kind(byte: int) -> str:
    return "word" if any(a <= byte <= b for a, b in _WORD) else "other"


def _classes(nfa: _Nfa) -> tuple[np.ndarray, list[int]]:
    """Return the equivalence class of each byte, and one byte of each class."""
    cuts = {0, 256}
    ranges = [(low, high) for steps in nfa.steps for low, high, _ in steps] + _WORD
    for low, high in ranges:
        cuts |= {low, high + 1}
    starts = sorted(cuts)[:-1]
    classes = np.searchsorted(starts, np.arange(256), side="right") - 1
    return classes.astype(np.uint8), starts


_BEFORE = ("", "other", "word")  # kinds of the characters before and after a match


def _automaton(pattern: str, befores: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the class of each byte; for each state, the next state per class, then whether it
    accepts before the end, before a non-word byte, and before a word byte.

    A match that follows ``befores[i]`` begins in state i.
    """
    try:
        nfa = _Nfa(_Parser(pattern).parse())
    except RecursionError:
        raise UnsupportedError("the pattern nests too many groups; use fewer") from None
    classes, starts = _classes(nfa)
    pending = [(frozenset([nfa.start]), before) for before in befores]
    index_of, rows = {key: i for i, key in enumerate(pending)}, []
    for states, before in pending:
        epsilon_closure = {kind: nfa.epsilon_closure(states, before, kind) for kind in _BEFORE}
        row = []
        for byte in starts:
            kind = _kind(byte)
            successors = frozenset(
                to
                for state in epsilon_closure[kind]
                for low, high, to in nfa.steps[state]
                if low <= byte <= high
            )
            key = (successors, kind if successors else "other")
            if key not in index_of:
                index_of[key] = len(index_of)
                pending.append(key)
            row.append(index_of[key])
        rows.append([*row, *(int(nfa.end in epsilon_closure[kind]) for kind in _BEFORE)])
        if len(index_of) > MAX_DFA_STATES:
            raise UnsupportedError(
                f"the pattern needs more than {MAX_DFA_STATES} states; use fewer repetitions"
            )
    return classes, np.array(rows, np.int32)


@lru_cache(maxsize=64)
def search_automaton(pattern: str) -> tuple[np.ndarray, np.ndarray]:
    """Return an automaton for matches anywhere: the class of each byte, and int32[states,
    classes + 3]: next states, then whether a match may end at the end of the text, before a
    non-word byte, and before a word byte. A match begins in state 0 at the start of the text, in 1
    after a non-word byte, in 2 after a word byte."""
    return _automaton(pattern, _BEFORE)


@lru_cache(maxsize=64)
def match_automaton(pattern: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the class of each byte, uint8[256], and the automaton, int32[states, classes + 1].

    A row has the next state per class, then whether the state accepts. The start state is 0.

    Raises UnsupportedError for unsupported syntax or too many states.
    """
    classes, table = _automaton(pattern, ("",))
    return classes, np.ascontiguousarray(table[:, :-2])
