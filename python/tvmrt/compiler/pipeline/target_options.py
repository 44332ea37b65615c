"""Changes of the target by options of plug-ins."""

from __future__ import annotations

from tvmrt.compiler.codegen.target import Target
from tvmrt.compiler.request import Request, plugin_options


def apply_plugin_options(machine: Target, request: Request) -> Target:
    """Return the target after changes by options of plug-ins; their errors are passed on."""
    for name, value in request.added:
        change = plugin_options()[name].target
        if change is not None:
            machine = change(machine, value)
    return machine
