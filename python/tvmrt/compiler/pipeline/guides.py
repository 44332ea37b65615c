"""The target to compile for, as options of plug-ins change it."""

from __future__ import annotations

from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.request import Request, added_rows


def guided(machine: Target, request: Request) -> Target:
    """The target with what options of plug-ins make of it; raises what they raise."""
    for name, value in request.added:
        change = added_rows()[name].target
        if change is not None:
            machine = change(machine, value)
    return machine
