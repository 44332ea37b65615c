"""The options ``--quiet`` and ``--verbose``, which every command has."""

from __future__ import annotations

import enum
import os
import warnings
from typing import Any

import click


class Level(enum.IntEnum):
    """Amount of output besides results and errors."""

    QUIET = -1
    NORMAL = 0
    VERBOSE = 1


_level = [Level.NORMAL]  # of the command line that runs


def level() -> Level:
    """Return the level of this command line."""
    return _level[0]


def reset() -> None:
    """Start a command line: normal output, or verbose if TVMRT_TRACEBACK is set."""
    _level[0] = Level.VERBOSE if os.environ.get("TVMRT_TRACEBACK") else Level.NORMAL


class VerbosityOption(click.Option):
    """An option that the short help of a long command leaves out."""

    common = False


def _set(ctx: click.Context, option: click.Parameter, given: bool) -> None:
    if given and not ctx.resilient_parsing:
        _level[0] = Level.QUIET if option.name == "quiet" else Level.VERBOSE
        if _level[0] is Level.VERBOSE:
            warnings.simplefilter("default")  # those of other packages, too


def _options() -> list[click.Option]:
    shared: dict[str, Any] = {
        "is_flag": True, "is_eager": True, "expose_value": False, "callback": _set,
    }  # fmt: skip
    quiet, verbose = "Print results and errors only.", (
        "Print the stages of the work, warnings of other packages, and where an error comes from."
    )  # fmt: skip
    return [
        VerbosityOption(["-q", "--quiet"], help=quiet, **shared),
        VerbosityOption(["-v", "--verbose"], help=verbose, **shared),
    ]


def add_options(command: click.Command) -> click.Command:
    """Add the options to a command, unless it has options of these names."""
    taken = {flag for each in command.params for flag in each.opts}
    if not taken & {"-q", "-v", "--quiet", "--verbose"}:
        command.params.extend(_options())
    return command
