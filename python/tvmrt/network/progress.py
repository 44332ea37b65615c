"""Progress of a first load on standard error: the stage that is running."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

VARIABLE = "TVMRT_PROGRESS"
Report = Callable[[str, int, int], None]


def format_stage(stage: str, done: int, total: int) -> str:
    """Format the stage that is running, after ``done`` others: ``transform (2/7)``."""
    return f"{stage} ({done + 1}/{total})"


@contextmanager
def shown(requested: Report | None, name: str) -> Iterator[Report | None]:
    """Yield a function ``(stage, done, total)`` that shows the progress of a network; None for no
    display. A requested function replaces the display.

    An interactive session shows one line while it lasts, if it has a terminal. In other programs
    ``TVMRT_PROGRESS=1`` requests a display, which elsewhere than on a terminal is a line for each
    stage; ``TVMRT_PROGRESS=0`` requests none.
    """
    if requested is not None or not _is_displayed():
        yield requested
        return
    stream, on_terminal = sys.stderr, sys.stderr.isatty()
    start, end = ("\r\x1b[K", "") if on_terminal else ("", "\n")
    title = os.path.basename(name)

    def report(stage: str, done: int, total: int) -> None:
        stream.write(f"{start}tvmrt: {title}: {format_stage(stage, done, total)}{end}")
        stream.flush()

    try:
        yield report
    finally:
        if on_terminal:
            stream.write(start)
            stream.flush()


def _is_displayed() -> bool:
    if sys.stderr is None:  # a program without a console
        return False
    requested = os.environ.get(VARIABLE, "")
    if requested:
        return requested != "0"
    is_interactive = hasattr(sys, "ps1") or bool(sys.flags.interactive)
    return is_interactive and sys.stderr.isatty()
