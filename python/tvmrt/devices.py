"""Devices that compute parts of a network: subclass ``Device`` and register it.

The public names of ``tvmrt.compiler.devices``; see the how-to page "Write a code generator".
"""

from tvmrt.compiler.devices import (
    Annotation,
    Context,
    CSource,
    Device,
    DeviceMemory,
    ExprVisitor,
    ModuleBlob,
    Needs,
    Packaged,
    PythonDevice,
    Refusal,
    Region,
    RegionNode,
    Vendor,
    get,
    names,
    region_blob,
    register,
    resolve,
    unregister,
)

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
