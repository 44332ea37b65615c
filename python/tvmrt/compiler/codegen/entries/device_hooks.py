"""Device hooks in firmware: a board prepares an accelerator around the calls of its regions.

For each such device, the caller passes a pointer that only the board interprets. The order in a run
is ``TVMDevice<Name>Activate`` for every device; ``Open``, the region, ``Close`` for each region;
``Deactivate`` at the end. An error ends the run.
"""

from __future__ import annotations

from tvmrt.compiler.ir.program import Program, Step
from tvmrt.compiler.ir.region import region_of

HOOKS = ("Activate", "Open", "Close", "Deactivate")


def hooked_devices(program: Program) -> list[str]:
    """Return the names of devices with hooks, in the order of their first regions."""
    devices = (device_of(step) for step in program.steps)
    return list(dict.fromkeys(name for name in devices if name is not None))


def device_of(step: Step) -> str | None:
    """Return the device of a region step, if it has hooks."""
    region = region_of(step.group.root)
    return region.device if region is not None and region.hooks else None


def variable(device: str) -> str:
    """Return the C variable with the device's pointer in functions that call operators."""
    return f"device_{_member(device)}"


def _member(device: str) -> str:
    return device.replace("-", "_")


def struct(program: Program, prefix: str) -> list[str]:
    """Return header lines: the devices' pointers, and the hooks that the board defines."""
    devices = hooked_devices(program)
    if not devices:
        return []
    return [
        "/*! \\brief Context of the board's hooks; passed to them unchanged. */",
        f"struct {prefix.lower()}_devices {{",
        *(f"  void *{_member(device)};" for device in devices),
        "};",
        "",
        "/*! \\brief Hooks that the board defines. They return 0, or an error to end the run:",
        " * Activate before a run, Open and Close around each region, Deactivate after the run. */",
        *(f"int32_t {_hook(device, hook)}(void *context);" for device in devices for hook in HOOKS),
        "",
    ]


def activate(program: Program) -> list[str]:
    """Return C lines before the first operator."""
    return [_call(device, "Activate") for device in hooked_devices(program)]


def deactivate(program: Program) -> list[str]:
    """Return C lines after the last operator."""
    return [_call(device, "Deactivate") for device in reversed(hooked_devices(program))]


def lines_around(step: Step) -> tuple[list[str], list[str]]:
    """Return C lines before and after the step's call."""
    device = device_of(step)
    if device is None:
        return [], []
    return [_call(device, "Open")], [_call(device, "Close")]


def _hook(device: str, hook: str) -> str:
    camel = "".join(part[:1].upper() + part[1:] for part in _member(device).split("_"))
    return f"TVMDevice{camel}{hook}"


def _call(device: str, hook: str) -> str:
    return f"if ({_hook(device, hook)}({variable(device)}) != 0) return -1;"
