"""Rules for options of ``tvmrt.compile``: one row per invalid combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvmrt.compiler.codegen.target import LEVELS
from tvmrt.compiler.request import Request, all_options
from tvmrt.error import UnsupportedError

if TYPE_CHECKING:
    from tvmrt.compiler.devices import Device
    from tvmrt.compiler.ir import Region


@dataclass(frozen=True)
class Rule:
    """Invalid combination: ``refused`` tests a request with its defaults resolved. ``sentence`` is
    the error text with a valid alternative; it may contain options in braces."""

    sentence: str
    refused: Callable[[Request], Any]
    error: type[Exception] = ValueError


RULES = (
    Rule(
        "the host runtime calls networks by packed functions only; "
        "choose runtime crt for interface-api c or unpacked-api",
        lambda r: r.runtime == "host" and (r.interface_api != "packed" or r.unpacked_api),
    ),
    Rule(
        "interface-api c passes raw pointers; it needs unpacked-api",
        lambda r: r.runtime == "crt" and r.interface_api == "c" and not r.unpacked_api,
    ),
    Rule(
        "the graph executor calls operators by packed functions; "
        "choose executor aot for interface-api c or unpacked-api",
        lambda r: _uses_firmware_graph(r) and (r.interface_api != "packed" or r.unpacked_api),
    ),
    Rule(
        "ahead-of-time networks of the crt runtime read weights in place, not from a file; "
        "choose params flash, or executor graph",
        lambda r: r.runtime == "crt" and r.executor == "aot" and r.params == "file",
        UnsupportedError,
    ),
    Rule(
        "a function of tvm-ffi is one call of the whole network, on this machine's CPU, with its "
        "weights; choose executor aot, runtime host, params embed and no device for abi tvm-ffi",
        lambda r: (
            r.abi == "tvm-ffi"
            and (r.executor != "aot" or r.runtime != "host" or r.params == "file" or r.devices)
        ),
    ),
    Rule(
        "schedule async is for hosts; choose runtime host",
        lambda r: r.schedule == "async" and r.runtime != "host",
    ),
    Rule(
        "trace-records needs profile or record; choose one of them",
        lambda r: r.trace_records is not None and not (r.profile or r.record),
    ),
    Rule(
        "profile and record are for networks of the crt runtime; "
        "on this machine, tvmrt run --profile times operators and tvmrt verify checks them",
        lambda r: (r.profile or r.record) and r.runtime != "crt",
    ),
    Rule(
        "levels need an operating system that loads the library; target {target} needs runtime "
        "host",
        lambda r: r.target in LEVELS and r.runtime == "crt",
    ),
    Rule(
        "profile and record need unpacked-api",
        lambda r: (r.profile or r.record) and not r.unpacked_api,
    ),
    Rule(
        "trace-records is {trace_records}; choose 1 to 16777216",
        lambda r: r.trace_records is not None and r.trace_records > 1 << 24,
    ),
    Rule(
        "the graph executor uses a single memory arena; choose executor aot for pools",
        lambda r: _uses_firmware_graph(r) and (r.pools or r.place),
        UnsupportedError,
    ),
    Rule(
        "memory pools need runtime crt",
        lambda r: r.pools and r.runtime != "crt",
    ),
    Rule(
        "ram needs runtime crt with executor aot",
        lambda r: r.ram is not None and (r.runtime != "crt" or r.executor != "aot"),
    ),
    Rule(
        "place needs runtime crt",
        lambda r: r.place and r.runtime != "crt",
    ),
    Rule(
        "workspace-io needs runtime crt and interface-api c",
        lambda r: r.workspace_io and (r.runtime != "crt" or r.interface_api != "c"),
    ),
    Rule(
        "dynamic dimensions on boards need executor aot with unpacked-api, or executor graph; "
        "or fix them with shapes",
        lambda r: (
            r.runtime == "crt"
            and r.executor == "aot"
            and not r.unpacked_api
            and _has_dynamic_dims(r)
        ),
        UnsupportedError,
    ),
    Rule(
        "record does not support dynamic dimensions; fix them with shapes, or choose profile",
        lambda r: r.record and _has_dynamic_dims(r),
        UnsupportedError,
    ),
    Rule(
        "max-error needs mixed-precision, precision bf16, weights or winograd; calibration "
        "needs mixed-precision or precision bf16",
        lambda r: (
            r.mixed_precision is None
            and r.precision == "float32"
            and (r.calibration or (r.max_error is not None and not _checks_layer_errors(r)))
        ),
    ),
    Rule(
        "max-error is {max_error}; it must be a number above 0",
        lambda r: (
            (_checks_layer_errors(r) or r.precision != "float32")
            and r.max_error is not None
            and not r.max_error > 0
        ),
    ),
    Rule(
        "max-error applies to one of mixed-precision, precision, weights and winograd; use one "
        "of them per compilation",
        lambda r: (
            r.max_error is not None
            and sum([_checks_layer_errors(r), bool(r.mixed_precision), r.precision != "float32"])
            > 1
        ),
    ),
    Rule(
        "max-error of precision {precision} is measured on inputs of the network; give calibration",
        lambda r: r.precision != "float32" and r.max_error is not None and not r.calibration,
    ),
    Rule(
        "precision {precision} needs runtime host; for a board quantise the network",
        lambda r: r.precision != "float32" and r.runtime == "crt",
        UnsupportedError,
    ),
    Rule(
        "winograd needs runtime host",
        lambda r: bool(r.winograd) and r.runtime == "crt",
        UnsupportedError,
    ),
    Rule(
        "row-chains needs runtime host; for a board use ram",
        lambda r: r.row_chains is not None and r.runtime == "crt",
        UnsupportedError,
    ),
)


def uses_winograd(winograd: bool | None, precision: str) -> bool:
    """Return whether hosts use Winograd: if requested, and by default in float32."""
    return precision == "float32" if winograd is None else winograd


def _checks_layer_errors(request: Request) -> bool:
    """Return whether layers are evaluated one by one and not changed above an error."""
    return request.weights is not None or bool(request.winograd)


def _has_dynamic_dims(request: Request) -> bool:
    """Return whether there are dynamic dimensions."""
    shapes = (request.shapes or {}).values()
    return bool(request.dims) or any(isinstance(n, str) for shape in shapes for n in shape)


def _uses_firmware_graph(request: Request) -> bool:
    return request.runtime == "crt" and request.executor == "graph"


def check(request: Request) -> None:
    """Raise ValueError, or UnsupportedError, with a sentence that names valid options.

    The request's options must be resolved.
    """
    table = all_options()
    for name, row in table.items():
        for each in row.each(request.value_of(name)) if row.values else ():
            if each is not None and each not in row.values:
                choices = " or ".join(row.values)
                raise ValueError(f"{name.replace('_', '-')} {each} is not known; choose {choices}")
    for rule in RULES:
        if rule.refused(request):
            raise rule.error(rule.sentence.format(**vars(request)))
    for row in table.values():
        if row.refused is not None and (sentence := row.refused(request)):
            raise ValueError(sentence)


def check_required(rules: Sequence[str], devices: Sequence[Device], here: bool) -> None:
    """Check that the devices in rules of ``require_device`` are selected, and if compiling for this
    machine (``here``) can run on it."""
    device_names = {"cpu", *(device.name for device in devices)}
    for rule in rules:
        name = rule.partition(":")[0]
        if name not in device_names:
            raise ValueError(
                f"require-device {rule}: {name} is not among the devices "
                f"({', '.join(sorted(device_names))}); add it with --device"
            )
        absent = [d.absent() for d in devices if d.name == name and here]
        if any(absent):
            raise UnsupportedError(
                f"require-device {rule}: device {name} cannot run on this machine: {absent[0]}; "
                "to compile for another machine choose target host"
            )


def check_hooks(regions: Sequence[Region], interface_api: str) -> None:
    """Check that the interface supports hooks of devices."""
    for region in regions:
        if region.hooks and interface_api != "c":
            raise UnsupportedError(
                f"device {region.device} has hooks, which need interface-api c with unpacked-api"
            )
