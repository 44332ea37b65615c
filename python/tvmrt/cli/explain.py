"""``tvmrt explain``: print cause and remedy of an error code of the firmware library."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click

from tvmrt.cli import console
from tvmrt.cli.error_codes import EXPLANATIONS, PREFIX, Explanation

SYSTEM_MASK = 0x80000000  # TVM_CRT_SYSTEM_ERROR_MASK


@dataclass(frozen=True)
class ExplainedError:
    """Name of an error with its value, and what to do."""

    error: str
    cause: str
    remedy: str


@click.command("explain", context_settings={"ignore_unknown_options": True})
@click.argument("code", metavar="CODE")
@console.json_option
def command(code: str, as_json: bool) -> None:
    """Explain an error CODE of the firmware library and its remedy.

    CODE is a number printed by a board (1283, 0x0503, -1) or a name (kTvmErrorPlatformNoMemory).
    """
    found = explain(code)
    if as_json:
        console.print_json("explain", found)
    else:
        console.print_pairs(asdict(found))


def explain(code: str) -> ExplainedError:
    """Explain an error. Raises ValueError for an unknown code."""
    try:
        number = int(code, 0)
    except ValueError:
        return _row(_by_name(code))
    return _explain_number(number)


def _explain_number(number: int) -> ExplainedError:
    if number == 0:
        return ExplainedError("kTvmErrorNoError (0x0000)", "the call succeeded.", "nothing.")
    number &= 0xFFFFFFFF
    if number == 0xFFFFFFFF:
        return ExplainedError(
            "failure (-1)",
            "a packed function failed and left its reason as text.",
            "read TVMGetLastError() on the thread that made the call.",
        )
    if number & SYSTEM_MASK:
        return ExplainedError(
            "board-specific error",
            "the code has the system mask bit set.",
            "look the low bits up in the board's own documentation.",
        )
    return _row(_by_code(number))


def _by_name(name: str) -> Explanation:
    for row in EXPLANATIONS:
        if row.name == name.removeprefix(PREFIX):
            return row
    raise ValueError(f"unknown error code {name!r}; crt/error_codes.h lists the names")


def _by_code(number: int) -> Explanation:
    for row in EXPLANATIONS:
        if row.code == number:
            return row
    raise ValueError(f"unknown error code 0x{number:04x}; crt/error_codes.h lists the codes")


def _row(found: Explanation) -> ExplainedError:
    return ExplainedError(f"{PREFIX}{found.name} (0x{found.code:04x})", found.cause, found.remedy)
