"""Network state that persists between runs on a board. It lies in the workspace, which is not
zeroed at start-up, so a flag records whether a run has initialised it."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.program import Program

from .pool_functions import pool_address


def _flag(prefix: str) -> str:
    return f"{prefix}_state_begun"


def declarations(program: Program, prefix: str) -> list[str]:
    """Return header lines with the function that resets the state."""
    if not program.states:
        return []
    nbytes = sum(b.nbytes for b in program.states)
    return [
        "/*!",
        " * \\brief Reset the state: the next run starts as the first one did.",
        " *",
        f" * Each run reads {nbytes} bytes of state that the last run left in the workspace. From",
        " * run to run the workspace must not move or be written. Do not call this during a run.",
        " */",
        f"void {prefix}_reset_state(void);",
        "",
    ]


def definitions(program: Program, prefix: str) -> list[str]:
    """Return lines of the entry file: the flag and the reset function."""
    if not program.states:
        return []
    return [
        "/* Whether the workspace contains state for the next run. */",
        f"uint8_t {_flag(prefix)};",
        "",
        f"void {prefix}_reset_state(void) {{ {_flag(prefix)} = 0; }}",
        "",
    ]


def flag_declarations(program: Program, prefix: str) -> list[str]:
    """Return C lines of files with functions that begin runs."""
    if not program.states:
        return []
    return [f"TVMGEN_LOCAL extern uint8_t {_flag(prefix)};", ""]


def begin(program: Program, prefix: str, options, place=None) -> list[str]:
    """Return C lines before a run. ``place`` maps caller-provided pools to expressions in functions
    without structs."""
    if not program.states:
        return []
    mark = program.states[0]
    pool = program.pools[mark.pool]
    where = (place or {}).get(pool.name) or pool_address(pool, prefix, options)
    flag = _flag(prefix)
    return [
        f"  if ({flag} == 0) ((uint8_t *){where})[{mark.address}] = 0;",
        f"  {flag} = 1;",
    ]


def reject_shared_workspace(programs: Sequence[Program], live: Sequence[Sequence[int]]) -> None:
    """Raise ValueError if a network with state would share its workspace with another network.

    ``live``: groups of network indices that do not share memory.
    """
    if any(len(group) == len(programs) for group in (*live, [0])):
        return
    named = [program.name for program in programs if program.states]
    if named:
        raise ValueError(
            f"the network {named[0]} keeps state in the workspace, which another network would "
            "overwrite; list all of the networks in concurrent"
        )
