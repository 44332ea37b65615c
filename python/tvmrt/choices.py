"""Which options of ``tvmrt.compile`` go together.

Each function raises ValueError, or UnsupportedError, with a sentence that names what to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmrt.devices import Device
from tvmrt.error import UnsupportedError
from tvmrt.ir import Region

EXECUTORS = ("graph", "aot")
PARAMS = ("embed", "file", "flash")


def check_interface(
    executor: str, interface_api: str, unpacked_api: bool, runtime: str, params: str
) -> None:
    """Who runs the network, and how it is called."""
    for value, what, known in (
        (executor, "executor", EXECUTORS),
        (params, "params", PARAMS),
        (runtime, "runtime", ("host", "crt")),
        (interface_api, "interface-api", ("packed", "c")),
    ):
        if value not in known:
            raise ValueError(f"{what} {value} is not known; choose {' or '.join(known)}")
    if runtime == "host" and (interface_api != "packed" or unpacked_api):
        raise ValueError(
            "the host runtime calls networks by packed functions only; "
            "choose runtime crt for interface-api c or unpacked-api"
        )
    if runtime == "crt" and interface_api == "c" and not unpacked_api:
        raise ValueError("interface-api c passes raw pointers; it needs unpacked-api")
    if runtime == "crt" and executor == "graph" and (interface_api != "packed" or unpacked_api):
        raise ValueError(
            "the graph executor calls operators by packed functions; "
            "choose executor aot for interface-api c or unpacked-api"
        )
    if runtime == "crt" and executor == "aot" and params == "file":
        raise UnsupportedError(
            "ahead-of-time networks of the crt runtime read weights in place, not from a file; "
            "choose params flash, or executor graph"
        )


def check_hooks(regions: Sequence[Region], interface_api: str) -> None:
    """Hooks of devices."""
    for region in regions:
        if region.hooks and interface_api != "c":
            raise UnsupportedError(
                f"device {region.device} has hooks, whose pointers are members of a C struct; "
                "choose interface-api c with unpacked-api"
            )


def check_schedule(schedule: str, executor: str, runtime: str) -> None:
    """Whether steps may run at the same time."""
    if schedule not in ("sync", "async"):
        raise ValueError(f"schedule {schedule} is not known; choose sync or async")
    if schedule == "async" and (executor != "graph" or runtime != "host"):
        raise ValueError(
            "schedule async is the graph executor's on a host; choose executor graph, runtime host"
        )


def check_required(rules: Sequence[str], devices: Sequence[Device]) -> None:
    """Rules of what devices must take."""
    known = {"cpu", *(device.name for device in devices)}
    for rule in rules:
        name = rule.partition(":")[0]
        if name not in known:
            raise ValueError(
                f"require-device {rule}: {name} is none of the devices "
                f"({', '.join(sorted(known))}); name it with --device, too"
            )


def check_trace(
    profile: bool, record: bool, trace_records: int | None, runtime: str, unpacked_api: bool
) -> None:
    """What a board notes while the network runs."""
    if not (profile or record):
        if trace_records is not None:
            raise ValueError("trace-records counts what profile or record note; choose one of them")
        return
    if runtime != "crt":
        raise ValueError(
            "profile and record are for networks of the crt runtime; "
            "on this machine, tvmrt run --profile times operators and tvmrt verify checks them"
        )
    if not unpacked_api:
        raise ValueError("profile and record note what plain calls are passed; use unpacked-api")
    if trace_records is not None and not 1 <= trace_records <= 1 << 24:
        raise ValueError(f"trace-records is {trace_records}; choose 1 to {1 << 24}")


def check_pools(pools: Any, place: Any, executor: str, runtime: str) -> None:
    """Several memories."""
    if runtime == "crt" and executor == "graph" and (pools or place):
        raise UnsupportedError(
            "the graph executor has one memory, which the program gives it; "
            "choose executor aot for pools"
        )


def check_place(place: Any, runtime: str) -> None:
    """Which tensor lies in which memory."""
    if place and runtime != "crt":
        raise ValueError("place chooses among memories of a board; it needs runtime crt")


def check_workspace_io(workspace_io: bool, runtime: str, interface_api: str) -> None:
    """Inputs and outputs in the pools."""
    if workspace_io and (runtime != "crt" or interface_api != "c"):
        raise ValueError(
            "workspace-io maps inputs and outputs to C structs; it needs runtime crt and "
            "interface-api c"
        )
