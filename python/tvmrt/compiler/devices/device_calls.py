"""Calls of a device's methods: the compiler calls devices and checks their results only here.

A method without ``return`` returns None. If None is not a valid result, the error names the device
and the method, instead of a failure in later code that uses the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from tvmrt.compiler.ir import CSource, ModuleBlob, Region
from tvmrt.compiler.ir.sizes import symbols_of
from tvmrt.error import UnsupportedError

from .base import Device, as_code


class InvalidDeviceResultError(UnsupportedError, TypeError):
    """Error: a method of a device returned something that is not a valid result."""


def _is_reason(result: Any) -> bool:
    return result is None or isinstance(result, str)


def _is_number(result: Any) -> bool:
    return isinstance(result, Real)


def _is_code(result: Any) -> bool:
    module = hasattr(result, "type_key") and hasattr(result, "get_source")
    return isinstance(result, (CSource, ModuleBlob)) or module


def _are_reasons(result: Any) -> bool:
    return isinstance(result, Mapping) and all(map(_is_reason, result.values()))


# Return type of each method as text, and its check.
RESULT_TYPES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "refuses": ("None, or the reason as str", _is_reason),
    "adopt": ("a list of TensorType", lambda result: isinstance(result, Sequence)),
    "prepares_sizes": ("True or False", lambda result: isinstance(result, bool)),
    "supports": ("None, or the reason as str", _is_reason),
    "annotate": ("a dict of None or a reason for each node", _are_reasons),
    "cost": ("None, or seconds", lambda result: result is None or _is_number(result)),
    "border_cost": ("seconds", _is_number),
    "evaluate": ("None, or the reason as str", _is_reason),
    "optimize": ("the Region", lambda result: isinstance(result, Region)),
    "prepare": ("bytes", lambda result: isinstance(result, (bytes, bytearray))),
    "codegen": ("CSource, ModuleBlob or a runtime module", _is_code),
}


def call_device(device: Device, method: str, *arguments: Any) -> Any:
    """Return the checked result of ``device.method(*arguments)``; ``codegen`` is converted to
    CSource or ModuleBlob.

    Raises
    ------
    InvalidDeviceResultError
        If the result is not as documented, for example None because ``return`` is missing.
    """
    expected, is_valid = RESULT_TYPES[method]
    result = getattr(device, method)(*arguments)
    if not is_valid(result):
        if method == "annotate" and type(device).annotate is Device.annotate:
            method, result = "supports", next(v for v in result.values() if not _is_reason(v))
            expected, _ = RESULT_TYPES[method]
        missing = "; a 'return' is missing" if result is None else ""
        raise InvalidDeviceResultError(
            f"device {device.name}: {method} returned {type(result).__name__}, expected {expected}"
            f"{missing}"
        )
    return as_code(result, device.name) if method == "codegen" else result


def prepare_chips(device: Device, region: Region, options: Mapping[str, Any]) -> None:
    """Compile a region of fixed sizes ahead for the device's chips, or for those of the device
    option ``chips``.

    Raises
    ------
    ValueError
        If a selected chip is not one of the device's.
    """
    chosen = options.get("chips", device.chips)
    chosen = [name.strip() for name in chosen.split(",")] if isinstance(chosen, str) else chosen
    for chip in chosen:
        if chip not in device.chips:
            known = ", ".join(device.chips) or "none"
            raise ValueError(f"it has no chip {chip}; choose of its chips: {known}")
    if not symbols_of(*(v.shape for v in region.inputs)):
        blobs = {chip: call_device(device, "prepare", region, chip) for chip in chosen}
        region.blobs = {chip: bytes(blob) for chip, blob in blobs.items()}
