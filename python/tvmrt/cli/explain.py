"""``tvmrt explain``: cause and remedy of an error code of the firmware library."""

from __future__ import annotations

import click

from tvmrt.cli import console


@click.command("explain")
@click.argument("code", metavar="CODE")
@console.json_option
def command(code: str, as_json: bool) -> None:
    """Tell what an error CODE of the firmware library means and what to do.

    CODE is a number as a board prints it (1283, 0x0503, -1) or a name (kTvmErrorPlatformNoMemory).
    """
    name, cause, remedy = explain(code)
    if as_json:
        console.print_json({"error": name, "cause": cause, "remedy": remedy})
    else:
        console.print_pairs({"error": name, "cause": cause, "remedy": remedy})


def explain(code: str) -> tuple[str, str, str]:
    """Name and value, cause, remedy. Raises ValueError when there is no such code."""
    import tvmrt

    try:
        asked: int | str = int(code, 0)
    except ValueError:
        asked = code if code.startswith("kTvmError") else f"kTvmError{code}"
    if asked == 0:
        return "kTvmErrorNoError (0x0000)", "the call succeeded.", "nothing."
    if isinstance(asked, int):
        asked &= 0xFFFFFFFF
        if asked == 0xFFFFFFFF:
            return (
                "failure (-1)",
                "a packed function failed and left its reason as text.",
                "read TVMGetLastError() on the thread that made the call.",
            )
    text = str(tvmrt.get_global_func("tvmrt.explain_error")(asked))
    name, cause, remedy = text.split("\n")
    return name, cause.partition(": ")[2], remedy.partition(": ")[2]
