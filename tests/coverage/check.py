"""Check C line coverage: a minimum per folder, and a reason for every line that no test runs.

Usage: check.py GCOVR_JSON...

Fails where a folder is below its limit, or more than a few lines have no reason in reasons.txt
or a plug-in's coverage_reasons.txt; names them, and reasons that fit no line any more.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# Files of plug-ins are in their folders and are read first.
REASONS = (
    *sorted(ROOT.glob("plugins/*/tests/coverage_reasons.txt")),
    Path(__file__).with_name("reasons.txt"),
)
# In percent, including subfolders.
LIMITS = dict.fromkeys(("src_backend", "src_runtime", "plugins", "python/src"), 95)
# Allowed lines without a reason: coverage of threads and foreign libraries varies slightly between
# runs and machines.
MAX_UNEXPLAINED = 20


class Line(NamedTuple):
    """A line that no test runs."""

    file: str
    function: str
    number: int
    text: str


class Reason(NamedTuple):
    """A line of reasons.txt: file or file:function, pattern of the line, reason."""

    place: str
    pattern: str
    why: str

    def fits(self, line: Line) -> bool:
        place = f"{line.file}:{line.function}" if ":" in self.place else line.file
        return fnmatch(place, self.place) and re.search(self.pattern, line.text) is not None


def read_reasons(text: str) -> list[Reason]:
    rows = (line for line in text.splitlines() if line and not line.startswith("#"))
    return [Reason(*(part.strip() for part in row.split(" | "))) for row in rows]


class Count(NamedTuple):
    """Execution count of a line: the maximum over all reports."""

    function: str
    runs: int


def read_counts(paths: Iterable[str]) -> dict[str, dict[int, Count]]:
    """Return the lines of each file of LIMITS by number."""
    counts: dict[str, dict[int, Count]] = {}
    for path in paths:
        for entry in json.loads(Path(path).read_text())["files"]:
            lines = counts.setdefault(entry["file"], {})
            for line in entry["lines"]:
                number, function = line["line_number"], line.get("function_name", "")
                runs = lines[number].runs if number in lines else 0
                lines[number] = Count(function, max(runs, line["count"]))
    return {k: v for k, v in counts.items() if any(k.startswith(f"{f}/") for f in LIMITS)}


def uncovered(counts: dict[str, dict[int, Count]]) -> Iterator[Line]:
    for file, lines in sorted(counts.items()):
        source = (ROOT / file).read_text().splitlines()
        for number, count in sorted(lines.items()):
            if count.runs == 0:
                yield Line(file, count.function, number, source[number - 1].strip())


def check_reasons(lines: Iterable[Line], reasons: list[Reason]) -> int:
    """Print the lines with their reasons; return how many have none."""
    used = set()
    unexplained = 0
    for line in lines:
        reason = next((r for r in reasons if r.fits(line)), None)
        used.add(reason)
        unexplained += reason is None
        why = reason.why if reason else "no reason: write a test, or a reason in reasons.txt"
        print(f"{line.file}:{line.number}: {line.function}: {line.text}  [{why}]")
    for reason in reasons:
        if reason not in used:
            print(f"reasons.txt: no line without a test fits: {reason.place} | {reason.pattern}")
    return unexplained


def check_shares(counts: dict[str, dict[int, Count]]) -> bool:
    """Print the coverage of each folder; return True if all reach their limits."""
    reached = True
    for folder, limit in LIMITS.items():
        runs = [
            n.runs for k, of in counts.items() if k.startswith(f"{folder}/") for n in of.values()
        ]
        share = 100 * sum(n > 0 for n in runs) / max(len(runs), 1)
        reached &= share >= limit
        print(f"{folder}: {share:.1f} % of {len(runs)} lines; at least {limit} %")
    return reached


def main() -> int:
    counts = read_counts(sys.argv[1:])
    reasons = [reason for file in REASONS for reason in read_reasons(file.read_text())]
    unexplained = check_reasons(uncovered(counts), reasons)
    reached = check_shares(counts)
    print(f"lines without a test and without a reason: {unexplained} (at most {MAX_UNEXPLAINED})")
    return int(not reached or unexplained > MAX_UNEXPLAINED)


if __name__ == "__main__":
    sys.exit(main())
