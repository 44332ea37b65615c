"""Run-time parts of devices: whether the runtime of this machine has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def runtime_function(name: str) -> Callable[..., Any] | None:
    """Return a global function of the runtime; None without it."""
    try:
        from tvmrt.runtime import get_global_func
    except (ImportError, OSError):
        return None
    return get_global_func(name, allow_missing=True)


def plugin_names() -> list[str]:
    """Return the names of devices with plug-ins in the folders that the runtime searches."""
    listed = runtime_function("tvmrt.device.list_plugins")
    return [] if listed is None else str(listed()).split()


def missing(name: str) -> str | None:
    """Return why regions of this device, or modules of this kind, cannot be loaded on this machine;
    None if they can, or without a runtime to check.

    A plug-in that is not loaded yet is loaded, because only this shows whether it works.
    """
    find = runtime_function("tvmrt.device.find")
    if find is None:
        return None
    try:
        loader = find(name) or runtime_function(f"runtime.module.loadbinary_{name}")
    except Exception as problem:  # plug-ins and packages' entry points may fail in any way
        return f"its plug-in cannot be used: {problem}"
    if loader:
        return None
    if name in plugin_names():
        return f"libtvmrt_device_{name}.so exists, but registers no device {name}"
    return (
        f"the runtime has no device {name}; put libtvmrt_device_{name}.so into a folder that "
        "TVMRT_DEVICE_PATH names, load its plug-in before, or install its package"
    )
