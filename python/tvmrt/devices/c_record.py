"""Devices that are written in C alone: the compiler asks them through the runtime's packed functions
``device.<name>.*``. Where no runtime is loaded there are none."""

from __future__ import annotations

from .base import Device


def find_c_device(name: str) -> Device | None:
    """The record of a C device, or None if the runtime has none of that name."""
    return None


def c_device_names() -> list[str]:
    """Names of the devices that the runtime has registered."""
    return []


def load_device_plugin(path: str) -> None:
    """Load a C plug-in: a shared object made with TVMRT_DEVICE_PLUGIN()."""
    from tvmrt.runtime import get_global_func

    get_global_func("tvmrt.device.load_plugin")(path)
