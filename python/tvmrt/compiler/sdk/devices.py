"""Devices: what they offer to compute, and how their code is stored."""

from tvmrt.compiler.devices import Context, CSource, Device, ModuleBlob
from tvmrt.compiler.devices import get as find_device
from tvmrt.compiler.devices import names as device_names
from tvmrt.compiler.devices.base import Annotation, Refusal
from tvmrt.compiler.devices.device_calls import call_device
from tvmrt.compiler.devices.expr_visitor import ExprVisitor
from tvmrt.compiler.devices.python_device import PackageDevice
from tvmrt.compiler.devices.region_json import (
    TYPE_KEY,
    Constants,
    constants_of,
    describe_region,
    region_text,
)
from tvmrt.compiler.devices.registry import register
from tvmrt.compiler.devices.runtime_support import missing

__all__ = [
    "Annotation", "CSource", "Constants", "Context", "Device", "ExprVisitor", "ModuleBlob",
    "PackageDevice", "Refusal", "TYPE_KEY", "call_device", "constants_of", "describe_region",
    "device_names", "find_device", "missing", "region_text", "register",
]  # fmt: skip
