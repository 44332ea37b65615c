"""The ``tvmrt`` command. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

from collections.abc import Sequence


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
    from tvmrt.cli.app import run

    return run(arguments)
