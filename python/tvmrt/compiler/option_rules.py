"""Rules for options of ``tvmrt.compile``: one row per invalid combination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvmrt.compiler.codegen.target import LEVELS
from tvmrt.compiler.request import Request, all_options
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option, options, value_text

if TYPE_CHECKING:
    from tvmrt.compiler.devices import Device
    from tvmrt.compiler.ir import Region


@dataclass(frozen=True)
class Rule:
    """Invalid combination: ``refused`` tests a request with its defaults resolved. ``sentence`` is
    the error text with a valid alternative. Its options are in braces (``option_syntax.options``):
    ``{ram}``, ``{executor=aot}``, or ``{ram=*}`` for the value of the request."""

    sentence: str
    refused: Callable[[Request], Any]
    error: type[Exception] = ValueError


RULES = (
    Rule(
        "the host runtime calls networks by packed functions only; "
        "choose {runtime=crt} with {executor=aot} for {interface_api=c} or {unpacked_api}",
        lambda r: r.runtime == "host" and (r.interface_api != "packed" or r.unpacked_api),
    ),
    Rule(
        "{interface_api=c} passes raw pointers; it needs {unpacked_api}",
        lambda r: (
            r.runtime == "crt"
            and r.executor == "aot"
            and r.interface_api == "c"
            and not r.unpacked_api
        ),
    ),
    Rule(
        "the graph executor calls operators by packed functions; "
        "choose {executor=aot} for {interface_api=c} or {unpacked_api}",
        lambda r: _uses_firmware_graph(r) and (r.interface_api != "packed" or r.unpacked_api),
    ),
    Rule(
        "weights in a file of their own are read by plain C calls on the CPU of the board; choose "
        "{params=flash}, or {unpacked_api} without devices and without weights in linker sections",
        lambda r: (
            r.runtime == "crt"
            and r.executor == "aot"
            and r.params == "file"
            and (
                not r.unpacked_api
                or r.devices
                or any(str(place).startswith("flash@") for place in (r.place or {}).values())
            )
        ),
        UnsupportedError,
    ),
    Rule(
        "a function of tvm-ffi is one call of the whole network, on this machine's CPU, with its "
        "weights; choose {executor=aot}, {runtime=host}, {params=embed} and no device for "
        "{abi=tvm-ffi}",
        lambda r: (
            r.abi == "tvm-ffi"
            and (r.executor != "aot" or r.runtime != "host" or r.params == "file" or r.devices)
        ),
    ),
    Rule(
        "{real_time} excludes other threads and memory that a run allocates; choose "
        "{schedule=sync} and {abi=packed}",
        lambda r: r.real_time and (r.schedule == "async" or r.abi == "tvm-ffi"),
        UnsupportedError,
    ),
    Rule(
        "the graph executor schedules regions of devices with locks; choose {executor=aot} for "
        "{real_time} with {devices}",
        lambda r: r.real_time and r.devices and r.runtime == "host" and r.executor == "graph",
        UnsupportedError,
    ),
    Rule(
        "{schedule=async} is for hosts; choose {runtime=host}",
        lambda r: r.schedule == "async" and r.runtime != "host",
    ),
    Rule(
        "{trace_records} needs {profile} or {record}; choose one of them",
        lambda r: r.trace_records is not None and not (r.profile or r.record),
    ),
    Rule(
        "{profile} and {record} are for networks of the crt runtime; on this machine, "
        "'tvmrt bench' times operators and 'tvmrt verify' checks them",
        lambda r: (r.profile or r.record) and r.runtime != "crt",
    ),
    Rule(
        "ISA levels need an operating system that loads the library; choose {target=host} for "
        "{runtime=crt}, or {runtime=host} for {target=*}",
        lambda r: r.target in LEVELS and r.runtime == "crt",
    ),
    Rule(
        "{profile} and {record} need {executor=aot} with {unpacked_api}",
        lambda r: (r.profile or r.record) and not r.unpacked_api,
    ),
    Rule(
        "{trace_records=*} is too large; choose 1 to 16777216",
        lambda r: r.trace_records is not None and r.trace_records > 1 << 24,
    ),
    Rule(
        "the graph executor uses a single memory arena; choose {executor=aot} for {pools}",
        lambda r: _uses_firmware_graph(r) and (r.pools or r.place),
        UnsupportedError,
    ),
    Rule(
        "{pools} needs {runtime=crt}",
        lambda r: r.pools and r.runtime != "crt",
    ),
    Rule(
        "{ram} needs {runtime=crt} with {executor=aot}",
        lambda r: r.ram is not None and (r.runtime != "crt" or r.executor != "aot"),
    ),
    Rule(
        "{place} needs {runtime=crt}",
        lambda r: r.place and r.runtime != "crt",
    ),
    Rule(
        "{workspace_io} needs {runtime=crt} and {interface_api=c}",
        lambda r: r.workspace_io and (r.runtime != "crt" or r.interface_api != "c"),
    ),
    Rule(
        "dynamic dimensions on boards need {executor=aot} with {unpacked_api}, or "
        "{executor=graph}; or fix them with {shapes}",
        lambda r: (
            r.runtime == "crt"
            and r.executor == "aot"
            and not r.unpacked_api
            and _has_dynamic_dims(r)
        ),
        UnsupportedError,
    ),
    Rule(
        "{record} does not support dynamic dimensions; fix them with {shapes}, or choose {profile}",
        lambda r: r.record and _has_dynamic_dims(r),
        UnsupportedError,
    ),
    Rule(
        "{max_error} needs {mixed_precision}, {precision}, {weights} or {winograd}; "
        "{calibration} needs {mixed_precision} or {precision}",
        lambda r: (
            r.mixed_precision is None
            and r.precision == "float32"
            and (r.calibration or (r.max_error is not None and not _checks_layer_errors(r)))
        ),
    ),
    Rule(
        "{max_error=*}: it must be a number above 0",
        lambda r: (
            (_checks_layer_errors(r) or r.precision != "float32")
            and r.max_error is not None
            and not r.max_error > 0
        ),
    ),
    Rule(
        "{max_error} of {precision=*} is measured on inputs of the network; give {calibration}",
        lambda r: r.precision != "float32" and r.max_error is not None and not r.calibration,
    ),
    Rule(
        "{precision=*} needs {runtime=host}; for a board quantise the network",
        lambda r: r.precision != "float32" and r.runtime == "crt",
        UnsupportedError,
    ),
    Rule(
        "{winograd} needs {runtime=host}",
        lambda r: bool(r.winograd) and r.runtime == "crt",
        UnsupportedError,
    ),
    Rule(
        "{winograd} sums in another order than boards do; omit it for {reproducible}",
        lambda r: r.reproducible and r.winograd,
    ),
    Rule(
        "{reproducible} needs the arithmetic that all processors have; omit {precision}, "
        "{mixed_precision} and {devices}",
        lambda r: r.reproducible and (r.precision != "float32" or r.mixed_precision or r.devices),
    ),
    Rule(
        "vectors of 32-bit ARM round the smallest numbers to zero, those of other processors do "
        "not; choose {levels=vfp} for {reproducible}",
        lambda r: r.reproducible and r.target == "armv7-linux" and [*r.levels] != ["vfp"],
        UnsupportedError,
    ),
    Rule(
        "{row_chains} needs {runtime=host}; for a board use {ram}",
        lambda r: r.row_chains is not None and r.runtime == "crt",
        UnsupportedError,
    ),
)


def uses_winograd(request: Request) -> bool:
    """Return whether hosts use Winograd: if requested, and by default for float32 layers."""
    if request.winograd is None:
        return request.precision != "bf16" and not request.reproducible
    return request.winograd


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
                choices = " or ".join(map(value_text, row.values))
                raise ValueError(f"{option(name, each)} is not known; choose {choices}")
    for rule in RULES:
        if rule.refused(request):
            raise rule.error(options(rule.sentence, request))
    for row in table.values():
        if row.refused is not None and (sentence := row.refused(request)):
            raise ValueError(options(sentence, request))


def check_required(rules: Sequence[str], devices: Sequence[Device], here: bool) -> None:
    """Check that the devices in rules of ``require_device`` are selected, and if compiling for this
    machine (``here``) can run on it."""
    device_names = {"cpu", *(device.name for device in devices)}
    for rule in rules:
        name = rule.partition(":")[0]
        given = option("require_device", [rule])
        if name not in device_names:
            raise ValueError(
                f"{given}: {name} is not among the devices "
                f"({', '.join(sorted(device_names))}); add it with {option('devices')}"
            )
        absent = [d.absent() for d in devices if d.name == name and here]
        if any(absent):
            raise UnsupportedError(
                f"{given}: device {name} cannot run on this machine: {absent[0]}; to compile for "
                f"another machine choose {option('target', 'host')}"
            )


def check_real_time(regions: Sequence[Region], devices: Sequence[Device]) -> None:
    """Check that the devices of all regions state that these only compute."""
    stated = {device.name for device in devices if device.real_time}
    problems = [
        f"{', '.join(region.onnx_nodes) or region.symbol}: device {region.device} does not state "
        "that its regions only compute"
        for region in regions
        if region.device not in stated
    ]
    if problems:
        raise UnsupportedError(
            f"{option('real_time', True)} does not support these layers: {'; '.join(problems)}; "
            f"leave the option out, or the device out of {option('devices')}"
        )


def check_hooks(regions: Sequence[Region], interface_api: str) -> None:
    """Check that the interface supports hooks of devices."""
    for region in regions:
        if region.hooks and interface_api != "c":
            raise UnsupportedError(
                f"device {region.device} has hooks, which need {option('interface_api', 'c')} with "
                f"{option('unpacked_api', True)}"
            )
