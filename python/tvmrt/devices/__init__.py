"""Devices: what may run parts of a network. A device is one subclass of Device, in one file."""

from tvmrt.ir import CSource, ModuleBlob, Region

from .base import Context, Device
from .registry import get, names, register, resolve, unregister

__all__ = [
    "CSource",
    "Context",
    "Device",
    "ModuleBlob",
    "Region",
    "get",
    "names",
    "register",
    "resolve",
    "unregister",
]
