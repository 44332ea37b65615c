"""The commands that work without the packages of the extras: they say what to install."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tvmrt.libinfo import __version__

USAGE = """\
Usage: tvmrt [--version] [doctor]

  Compiled networks run in Python with this installation: tvmrt.load("net.so").

  doctor     list what is installed on this machine, and what to install
  --version  print the version

  All other commands need more packages:
    pip install 'tvmrt[compile]'    to compile networks
    pip install 'tvmrt[cli]'        to run, time and inspect compiled libraries
"""


def run(arguments: Sequence[str]) -> int | None:
    """Run a command without click; return its exit code, or None for a command that needs it."""
    words = [word for word in arguments if word not in ("-q", "--quiet", "-v", "--verbose")]
    if not words or words in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    if words == ["--version"]:
        print(f"tvmrt {__version__}")
        return 0
    return _doctor() if words == ["doctor"] else None


def _doctor() -> int:
    """Print the checks of this machine as a table."""
    from tvmrt.cli import environment

    checks = environment.examine()
    rows = [("item", "state", "found", "remedy")]
    rows += [(c.what, c.state, c.found, c.remedy) for c in checks]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for *cells, remedy in rows:
        text = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths))
        sys.stdout.write(f"{text}  {remedy}".rstrip() + "\n")
    return 1 if any(check.state == "missing" for check in checks) else 0
