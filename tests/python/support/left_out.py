"""A table of skipped tests and the reasons, printed at the end of a test run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import PurePath
from typing import Any

LONG = "not slow"  # set by ./run test
NO_PACKAGE = "could not import"  # how pytest.importorskip begins; all packages include xdist
FOLDERS_SHOWN = 3


def reason_of(report: Any) -> str:
    """Return why a test was skipped or expected to fail."""
    text = getattr(report, "wasxfail", "")
    if not text and isinstance(report.longrepr, tuple):
        text = report.longrepr[2]
    return " ".join(text.removeprefix("Skipped: ").split()) or "no reason given"


def table(skipped: Iterable[Any], marks: str) -> list[str]:
    """Return table lines of count, folders and reason, most frequent first."""
    folders: dict[str, Counter[str]] = defaultdict(Counter)
    for report in skipped:
        folders[reason_of(report)][PurePath(report.nodeid.split("::")[0]).parent.name] += 1
    rows = [(str(sum(found.values())), _shown(found), reason) for reason, found in folders.items()]
    rows.sort(key=lambda row: -int(row[0]))
    if find_spec("xdist") is None and any(row[2].startswith(NO_PACKAGE) for row in rows):
        rows.append(("all", "these", "./run test, without a path, installs all packages"))
    if LONG in marks and "or" not in marks.split():
        rows.append(("all", "long ones", "-m 'slow or not slow' runs them too"))
    if not rows:
        return ["nothing"]
    rows.insert(0, ("tests", "of", "why"))
    counts, names = (max(len(row[column]) for row in rows) for column in (0, 1))
    return [f"{count:>{counts}}  {name:<{names}}  {why}" for count, name, why in rows]


def _shown(found: Counter[str]) -> str:
    names = [name for name, _ in found.most_common()]
    more = len(names) - FOLDERS_SHOWN
    return ", ".join(names[:FOLDERS_SHOWN]) + (f" and {more} more" if more > 0 else "")
