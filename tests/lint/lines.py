"""Print the lines of the product by folder, and the change since the last release:
``python tests/lint/lines.py [REVISION]``.

The product is ``include/``, ``plugins/``, ``python/``, ``src_backend/`` and ``src_runtime/``
without tests; ``budget.toml`` has the most lines that it may have. The last release is the last
commit that changed ``python/tvmrt/VERSION``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
BUDGET = ROOT / "tests" / "lint" / "budget.toml"
TOPS = ("include", "plugins", "python", "src_backend", "src_runtime")
SUFFIXES = (".c", ".css", ".h", ".html", ".js", ".mjs", ".py")
VERSION = "python/tvmrt/VERSION"


def folder_of(place: PurePosixPath) -> str | None:
    """Return the folder that a file counts for: two levels deep, packages of the compiler apart;
    None if it is not part of the product."""
    if {"tests", "__pycache__", "build"} & {*place.parts} or place.suffix not in SUFFIXES:
        return None
    if place.parts[0] not in TOPS:
        return None
    depth = 4 if place.parts[:3] == ("python", "tvmrt", "compiler") else 3
    return "/".join(place.parent.parts[: depth if place.parts[0] == "python" else 2])


def count(files: Iterable[tuple[PurePosixPath, bytes]]) -> Counter[str]:
    """Return the lines by folder."""
    lines: Counter[str] = Counter()
    for place, text in files:
        folder = folder_of(place)
        if folder is not None:
            lines[folder] += text.count(b"\n")
    return lines


def files_here() -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the files of the sources, with their contents."""
    for path in (path for top in TOPS for path in (ROOT / top).rglob("*")):
        if path.suffix in SUFFIXES:
            yield PurePosixPath(path.relative_to(ROOT)), path.read_bytes()


def files_at(revision: str) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Yield the files of a revision, with their contents."""
    names = _git("ls-tree", "-r", "--name-only", "-z", revision).decode().split("\0")[:-1]
    wanted = [name for name in names if folder_of(PurePosixPath(name)) is not None]
    asked = "".join(f"{revision}:{name}\n" for name in wanted).encode()
    answer, at = _git("cat-file", "--batch", input=asked), 0
    for name in wanted:
        head = answer.index(b"\n", at)
        size = int(answer[at:head].split()[-1])
        yield PurePosixPath(name), answer[head + 1 : head + 1 + size]
        at = head + size + 2


def ceiling() -> int:
    """Return the most lines that the product may have."""
    (found,) = re.findall(r"^lines = (\d+)$", BUDGET.read_text(encoding="utf-8"), re.MULTILINE)
    return int(found)


def table(now: Counter[str], then: Counter[str]) -> str:
    """Return the lines by folder, the largest first, with the change from ``then``."""
    rows = [(now[folder], now[folder] - then[folder], folder) for folder in {*now, *then}]
    rows.sort(key=lambda row: (-row[0], row[2]))
    lines = sum(now.values())
    total = (lines, lines - sum(then.values()), f"of at most {ceiling():,}")
    return "\n".join(
        f"{lines:9,} {change:+8,}  {folder}" for lines, change, folder in [*rows, total]
    )


def _git(*words: str, input: bytes | None = None) -> bytes:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, input=input, capture_output=True, check=True).stdout


def main() -> None:
    given = sys.argv[1:] or [_git("log", "-1", "--format=%h", "--", VERSION).decode().strip()]
    day = _git("show", "-s", "--format=%as", given[0]).decode().strip()
    print(f"lines, and the change since {given[0]} of {day}")
    print(table(count(files_here()), count(files_at(given[0]))))


if __name__ == "__main__":
    main()
