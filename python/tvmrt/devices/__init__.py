"""Devices: what may run parts of a network. A device is one subclass of Device, in one file."""

from tvmrt.ir import CSource, ModuleBlob, Region

from .base import Context, Device
from .expr_visitor import ExprVisitor
from .python_device import PythonDevice, RegionNode
from .region_json import region_blob
from .registry import get, names, register, resolve, unregister

__all__ = [
    "CSource",
    "Context",
    "Device",
    "ExprVisitor",
    "ModuleBlob",
    "PythonDevice",
    "Region",
    "RegionNode",
    "get",
    "names",
    "region_blob",
    "register",
    "resolve",
    "unregister",
]
