"""Devices that run parts of a network. A device is one subclass of Device, in one file."""

from tvmrt.compiler.ir import CSource, DeviceMemory, ModuleBlob, Needs, Packaged, Region, Vendor

from .base import Annotation, Context, Device, Refusal
from .expr_visitor import ExprVisitor
from .python_device import PythonDevice, RegionNode
from .region_json import region_blob
from .registry import get, names, register, resolve, unregister

__all__ = [
    "Annotation",
    "CSource",
    "Context",
    "Device",
    "DeviceMemory",
    "ExprVisitor",
    "ModuleBlob",
    "Needs",
    "Packaged",
    "PythonDevice",
    "Refusal",
    "Region",
    "RegionNode",
    "Vendor",
    "get",
    "names",
    "region_blob",
    "register",
    "resolve",
    "unregister",
]
