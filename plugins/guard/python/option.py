"""The option ``guard``: its row of the option table."""

from __future__ import annotations

from typing import Any

from tvmrt.option_syntax import option
from tvmrt.plugin import Option, resolve

RUN, IDLE = "run", "idle"
PRINTERS = {
    RUN: "tvmrt.plugins.guard.lines:RunGuard",
    IDLE: "tvmrt.plugins.guard.idle:IdleGuard",
}


def _refused(request: Any) -> str | None:
    if request.guard is None:
        return None
    if request.runtime != "crt" or request.interface_api != "c" or not request.unpacked_api:
        return (
            f"{option('guard')} needs {option('runtime', 'crt')} with "
            f"{option('interface_api', 'c')} and {option('unpacked_api', True)}; images of boards "
            "(.elf) have another interface, so choose no guard for them"
        )
    if request.params != "flash":
        return f"{option('guard')} knows the weights; choose {option('params', 'flash')}"
    if request.devices:
        return f"{option('guard')} does not check the memory of devices; choose no device"
    if request.record or request.profile:
        return f"{option('guard')} does not check the tables of a recording; record without it"
    return None


GUARD = Option(
    "Firmware: detect weights, other constants and tensors that change in memory, and return an "
    "error code. run: check all in each run. idle: check weights by a function that the program "
    "calls between runs, and the rest in each run.",
    values=(RUN, IDLE),
    group="Boards",
    calls=lambda value: resolve(PRINTERS[value]),
    refused=_refused,
)
