"""Calls of a device's methods: the only place where the compiler calls them and checks results.

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


class DeviceAnswerError(UnsupportedError, TypeError):
    """Error: a method of a device returned something that is not a valid result."""


def _is_reason(answer: Any) -> bool:
    return answer is None or isinstance(answer, str)


def _is_number(answer: Any) -> bool:
    return isinstance(answer, Real)


def _is_code(answer: Any) -> bool:
    module = hasattr(answer, "type_key") and hasattr(answer, "get_source")
    return isinstance(answer, (CSource, ModuleBlob)) or module


def _are_reasons(answer: Any) -> bool:
    return isinstance(answer, Mapping) and all(map(_is_reason, answer.values()))


# Return type of each method as text, and its check.
ANSWERS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "refuses": ("None, or the reason as str", _is_reason),
    "adopt": ("a list of TensorType", lambda answer: isinstance(answer, Sequence)),
    "prepares_sizes": ("True or False", lambda answer: isinstance(answer, bool)),
    "supports": ("None, or the reason as str", _is_reason),
    "annotate": ("a dict of None or a reason for each node", _are_reasons),
    "cost": ("None, or seconds", lambda answer: answer is None or _is_number(answer)),
    "border_cost": ("seconds", _is_number),
    "evaluate": ("None, or the reason as str", _is_reason),
    "optimize": ("the Region", lambda answer: isinstance(answer, Region)),
    "codegen": ("CSource, ModuleBlob or a runtime module", _is_code),
}


def ask(device: Device, method: str, *arguments: Any) -> Any:
    """Return the checked result of ``device.method(*arguments)``; ``codegen`` is converted to
    CSource or ModuleBlob.

    Raises
    ------
    DeviceAnswerError
        If the result is not as documented, for example None because ``return`` is missing.
    """
    expected, is_answer = ANSWERS[method]
    answer = getattr(device, method)(*arguments)
    if not is_answer(answer):
        if method == "annotate" and type(device).annotate is Device.annotate:
            method, answer = "supports", next(v for v in answer.values() if not _is_reason(v))
            expected, _ = ANSWERS[method]
        missing = "; a 'return' is missing" if answer is None else ""
        raise DeviceAnswerError(
            f"device {device.name}: {method} gave {type(answer).__name__}, expected {expected}"
            f"{missing}"
        )
    return as_code(answer, device.name) if method == "codegen" else answer
