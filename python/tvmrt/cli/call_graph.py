"""Compute the maximum stack depth of compiled C from the compiler's call graph files.

GCC's ``-fcallgraph-info=su`` writes the stack frame and the callees of each function. The
relocations of the objects show which functions have their address taken. An indirect call is
assumed to reach each of those in its file, so the bound may be too high but never too low.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_NODE = re.compile(r'^node: \{ title: "([^"]+)" label: "[^"]*?(?:\\n(\d+) bytes \(([\w,]+)[^"]*)?"')
_EDGE = re.compile(r'^edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')
_SECTION = re.compile(r"^RELOCATION RECORDS FOR \[([^\]]+)\]")
_RELOCATION = re.compile(r"^[0-9a-f]+ +R_\w+?_(\w+) +([\w.$]+)")
_CALLS = re.compile(r"CALL|JUMP|JAL|BRANCH|PLT|PC24|PREL31")
_CONTENTS = (".text", ".rodata", ".data", ".srodata", ".sdata")
POINTER = "__indirect_call"


@dataclass
class Frame:
    """One function: the size of its stack frame, and whether the compiler could bound it."""

    name: str
    nbytes: int
    bounded: bool = True
    calls: list[str] = field(default_factory=list)
    by_pointer: bool = False
    unit: str = ""


@dataclass(frozen=True)
class Depth:
    """The maximum stack depth of a function, None if unbounded, and the call path to it."""

    nbytes: int | None
    path: tuple[str, ...]


class CallGraph:
    """The functions of several files, which :meth:`add` adds before any query."""

    def __init__(self) -> None:
        self.frames: dict[str, Frame] = {}
        self.outside: set[str] = set()  # names of called functions that have no frame
        self._taken: dict[str, set[str]] = {}
        self._depths: dict[str, Depth] = {}

    def add(
        self, unit: str, info: str, relocations: str, same: Mapping[str, str] | None = None
    ) -> None:
        """Add a file by the text of its .ci file and the ``objdump -r`` output of its object.

        ``same`` maps the name of each function whose code is that of another to the latter: the
        compiler merges equal functions, and writes a frame for one of them only.
        """
        same = same or {}
        for line in info.splitlines():
            node = _NODE.match(line)
            if node and node[2] is not None:
                bounded = node[3] in ("static", "dynamic,bounded")
                name = node[1]
                self.frames[name] = Frame(_c_name(name), int(node[2]), bounded, unit=unit)
        titles = {frame.name: t for t, frame in self.frames.items() if frame.unit == unit}
        for line in info.splitlines():
            edge = _EDGE.match(line)
            if edge and edge[1] in self.frames:
                frame, callee = self.frames[edge[1]], edge[2]
                if callee not in self.frames:
                    callee = titles.get(same.get(_c_name(callee), ""), callee)
                if callee == POINTER:
                    frame.by_pointer = True
                elif callee not in frame.calls:
                    frame.calls.append(callee)
        calls = {(f.name, _c_name(c)) for f in self.frames.values() for c in f.calls}
        taken = _addresses_taken(relocations, calls)
        self._taken[unit] = taken | {same[name] for name in taken & same.keys()}

    def depth(self, name: str) -> Depth:
        """Return the maximum stack depth of a C function. KeyError if there is none."""
        titles = [t for t, frame in self.frames.items() if frame.name == name]
        if not titles:
            raise KeyError(name)
        return max((self._depth(t, ()) for t in titles), key=_order)

    def reachable_functions(self, name: str) -> set[str]:
        """Return the C names of a function and of all functions that it may call."""
        waiting = [title for title, frame in self.frames.items() if frame.name == name]
        found: set[str] = set()
        while waiting:
            title = waiting.pop()
            if title in found or title not in self.frames:
                continue
            found.add(title)
            waiting += self._callees(self.frames[title])
        return {self.frames[title].name for title in found}

    def names(self) -> list[str]:
        """Return the names of the C functions in the order of their files."""
        return list(dict.fromkeys(frame.name for frame in self.frames.values()))

    def _depth(self, title: str, above: tuple[str, ...]) -> Depth:
        if title in above:
            return Depth(None, (_c_name(title),))
        if title in self._depths:
            return self._depths[title]
        frame = self.frames[title]
        below = [Depth(0, ())]
        for callee in self._callees(frame):
            if callee in self.frames:
                below.append(self._depth(callee, (*above, title)))
            else:
                self.outside.add(_c_name(callee))
        deepest = max(below, key=_order)
        path = (frame.name, *deepest.path)
        if deepest.nbytes is None or not frame.bounded:
            result = Depth(None, path)
        else:
            result = Depth(frame.nbytes + deepest.nbytes, path)
        self._depths[title] = result
        return result

    def _callees(self, frame: Frame) -> Iterable[str]:
        yield from frame.calls
        if frame.by_pointer:
            taken = self._taken[frame.unit]
            yield from (
                t for t, f in self.frames.items() if f.unit == frame.unit and f.name in taken
            )


def frame_names(info: str) -> set[str]:
    """Return the names of the C functions with a stack frame in the text of a .ci file."""
    nodes = (_NODE.match(line) for line in info.splitlines())
    return {_c_name(node[1]) for node in nodes if node and node[2] is not None}


def _c_name(title: str) -> str:
    """Return the C name of a function; titles of static functions start with their file."""
    return title.rpartition(":")[2]


def _order(depth: Depth) -> float:
    return float("inf") if depth.nbytes is None else depth.nbytes


def _addresses_taken(relocations: str, calls: set[tuple[str, str]]) -> set[str]:
    """Return the functions whose address is taken, that is, referenced other than by a call.

    References from a function's own sections are jump tables and do not count. On x86, addresses
    and calls may have the same relocation type; there ``calls``, pairs of names, decides.
    """
    found, section = set(), ""
    for line in relocations.splitlines():
        head = _SECTION.match(line)
        if head:
            section = head[1]
            continue
        row = _RELOCATION.match(line)
        if not row or _CALLS.search(row[1]) or not section.startswith(_CONTENTS):
            continue
        name, inside = row[2].removeprefix(".text."), section.removeprefix(".text.")
        known_call = row[1].endswith("_PC32") and (inside, name) in calls
        if not section.endswith(f".{name}") and not known_call:
            found.add(name)
    return found
