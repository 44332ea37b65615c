"""The ``tvmrt`` command. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tvmrt import extras


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        What follows the command's name; ``sys.argv[1:]`` if None.

    Returns
    -------
    int
        0 done, 1 the result is wrong (``verify``), 2 the request cannot be met; then one sentence
        on standard error says what, where and what to do next.
    """
    try:
        from tvmrt.cli.app import run
    except ModuleNotFoundError as error:
        print(f"tvmrt: error: {extras.told(error)}", file=sys.stderr)
        return 2
    return run(arguments)
