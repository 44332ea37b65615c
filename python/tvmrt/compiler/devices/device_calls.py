"""Calls of a device's methods: the compiler calls devices and checks their results only here.

A method without ``return`` returns None. If None is not a valid result, the error names the device
and the method, instead of a failure in later code that uses the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

from tvmrt.compiler.ir import CSource, ModuleBlob, Region
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
