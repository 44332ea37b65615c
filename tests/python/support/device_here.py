"""Devices that may be unavailable on this machine."""

from __future__ import annotations

import pytest

import tvmrt
from tvmrt.error import TVMError


def have(device: str) -> None:
    """Skip the test if the device is not built or cannot run."""
    try:
        found = tvmrt.get_global_func("tvmrt.device.find")(device)
    except (TVMError, OSError) as problem:
        pytest.skip(f"the device {device} cannot run here: {problem}")
    if not found:
        pytest.skip(f"the device {device} is not built")
