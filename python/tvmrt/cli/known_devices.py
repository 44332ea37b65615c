"""Descriptions of the devices that the compiler knows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class KnownDevice:
    """Device known to the compiler.

    ``absent``: Reason why this machine cannot run it, or null.
    """

    name: str
    layout: str = "-"
    precisions: Sequence[str] = ()
    text: str = ""
    absent: str | None = None


def described() -> list[KnownDevice]:
    """Describe every device known to the compiler."""
    from tvmrt.compiler import devices

    return [_describe(name) for name in devices.names()]


def _describe(name: str) -> KnownDevice:
    from tvmrt.compiler import devices

    try:
        device = devices.get(name)
        absent = device.absent()
    except Exception as problem:  # third-party code may raise anything
        return KnownDevice(name, text=f"cannot be used: {problem}", absent=str(problem))
    text = _first_sentence(type(device).__doc__ or "")
    return KnownDevice(name, device.layout, list(device.precisions), text, absent)


def _first_sentence(text: str) -> str:
    words = " ".join(text.replace("``", "").split())
    return re.split(r"(?<=\.) (?=[A-Z])", words)[0]
