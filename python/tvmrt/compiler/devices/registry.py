"""Devices by name: of this package, of other packages' entry points, and in C."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Sequence
from typing import Any

from tvmrt import plugin
from tvmrt.entry_points import entry_points
from tvmrt.error import gpu_advice, suggestion

from .base import Device
from .python_device import PythonDevice

# Modules of this package that define the device of their name; all others are plug-ins.
_OWN = ("ccompiler", "cpu")

_DEVICES: dict[str, Device] = {}


def register(device: type[Device] | Device) -> Any:
    """Register a device; usable as a class decorator.

    Raises
    ------
    ValueError
        If its name is taken or invalid.
    TypeError
        If it is not a Device.
    """
    instance = device() if isinstance(device, type) else device
    if not isinstance(instance, Device):
        raise TypeError(f"{type(instance).__name__} is not a tvmrt.devices.Device; subclass it")
    name = instance.name
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name):
        raise ValueError(f"device name {name!r} is not a letter, then letters, digits, '_' and '-'")
    if name in _DEVICES:
        raise ValueError(f"device {name} is registered already; unregister it first")
    if isinstance(instance, PythonDevice):
        instance.enter_runtime()
    _DEVICES[name] = instance
    return device


def unregister(name: str) -> None:
    """Remove a device. Raise KeyError if there is none of that name."""
    if _DEVICES.pop(name, None) is None:
        raise KeyError(f"device {name} is not registered")


def get(name: str) -> Device:
    """Return the device of that name.

    Searches registered devices, this package, plug-ins, the entry points ``tvmrt.devices`` of
    installed packages, and finally devices in C.

    Raises
    ------
    ValueError
        If there is none; the text lists the known devices.
    """
    if name not in _DEVICES and name in _OWN:
        importlib.import_module(f"{__package__}.{name}")
    if name not in _DEVICES:
        _load_offered(name)
    if name in _DEVICES:
        return _DEVICES[name]
    from .c_device import find_c_device

    device = find_c_device(name)
    if device is None:
        if (advice := gpu_advice(name)) is not None:
            raise ValueError(f"device {name} is not known: {advice}; {suggestion('', names())}")
        raise ValueError(
            plugin.why_missing("devices", name)
            or f"device {name} is not known; name the folder of its plug-in in "
            f"TVMRT_DEVICE_PATH, or install its package; {suggestion(name, names())}"
        )
    return device


def names() -> list[str]:
    """Return the names that ``get`` finds in this package, by registration, plug-ins and entry
    points, and the devices of the loaded runtime."""
    from .c_device import c_device_names

    device_names = [
        *_OWN,
        *plugin.keys("devices"),
        *_DEVICES,
        *(p.name for p in entry_points(plugin.DEVICES)),
        *c_device_names(),
    ]
    return sorted(dict.fromkeys(device_names), key=lambda n: (n != "cpu", n))


def resolve(requested: Sequence[str | Device]) -> list[Device]:
    """Return devices given by name or as objects, each once, in order."""
    devices = [w if isinstance(w, Device) else get(w) for w in requested]
    return list(dict.fromkeys(devices))


def _load_offered(name: str) -> None:
    """Register the device that is offered under a name, or load the C plug-in at its path."""
    for offered in plugin.device_offers(name):
        if isinstance(offered, (str, os.PathLike)):
            from tvmrt.runtime.plugin import list_devices, load_device_plugin

            if name not in list_devices():  # else a program loaded one by its path
                load_device_plugin(offered)
        elif name not in _DEVICES:  # its module may have registered it
            register(offered)
        return
