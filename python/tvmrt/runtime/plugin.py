"""Devices of the runtime: loading of their plug-ins, their names and their options."""

from __future__ import annotations

import json
import os
from typing import Any

from tvmrt import plugin
from tvmrt.runtime.packed_func import get_global_func, register_func

__all__ = ["device_fallbacks", "list_devices", "load_device_plugin", "set_device_options"]


def load_device_plugin(path: str | os.PathLike[str]) -> None:
    """Load a C plug-in: a shared library built with ``TVMRT_DEVICE_PLUGIN()`` of device.h.

    Loaded networks and the compiler then know its device by name. Loading a plug-in again does
    nothing, unless its device was unregistered: then it is registered again. A file that has been
    replaced counts as another plug-in. Plug-ins are never unloaded.

    Raises
    ------
    TVMError
        If it is not a plug-in, was built for another version, or fails to register.
    """
    get_global_func("tvmrt.device.load_plugin")(os.path.abspath(os.fsdecode(path)))


def list_devices() -> list[str]:
    """Return the names of the registered devices, in the order of registration."""
    return [str(name) for name in get_global_func("tvmrt.device.list")()]


def set_device_options(name: str, options: str) -> None:
    """Set the options of a device for regions that are loaded from now on.

    Parameters
    ----------
    name
        Name of the device.
    options
        A JSON object for ``pre_run`` of the device.
    """
    get_global_func("tvmrt.device.set_options")(name, options)


def device_fallbacks(module: Any) -> list[dict[str, Any]]:
    """Report the CPU fallbacks in a library compiled with ``device_fallback``.

    Parameters
    ----------
    module
        The library, its factory, or an executor over it.

    Returns
    -------
    list of dict
        One per region, with ``region``, ``device``, ``runs`` (calls that ran on the CPU instead, in
        all executors of the library) and ``reason`` (of the first fallback, or why the device was
        unavailable when the library was loaded; empty if neither).
    """
    fallback_reports = get_global_func("tvmrt.device.fallbacks")(getattr(module, "module", module))
    return json.loads(str(fallback_reports))


@register_func("tvmrt.device.find_installed", override=True)
def _find_installed(name: str) -> None:
    """Register a device that the runtime lacks, if a plug-in or an installed package offers it. The
    path of a C plug-in is loaded; otherwise a Python device registers its run-time half."""
    offers = list(plugin.device_offers(name))
    for offered in offers:
        if isinstance(offered, (str, os.PathLike)):
            load_device_plugin(offered)
            return
    for offered in offers:
        device = offered() if isinstance(offered, type) else offered
        if hasattr(device, "enter_runtime"):
            device.enter_runtime()
            return
