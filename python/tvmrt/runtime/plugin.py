"""Devices of the runtime: plug-ins that bring them, and their names."""

from __future__ import annotations

import json
import os
from typing import Any

from tvmrt import plugin
from tvmrt.runtime.packed_func import get_global_func, register_func

__all__ = ["device_fallbacks", "list_devices", "load_device_plugin", "set_device_options"]


def load_device_plugin(path: str | os.PathLike[str]) -> None:
    """Load a C plug-in: a shared object made with ``TVMRT_DEVICE_PLUGIN()`` of device.h.

    Its device is then known by name to networks that are loaded and to the compiler. A plug-in that
    is loaded already is left as it is, unless its device was unregistered: then it registers again.
    A file that has taken its place since is another plug-in.
    Plug-ins are never unloaded.

    Raises
    ------
    TVMError
        If it is no plug-in, is made for another version, or does not register.
    """
    get_global_func("tvmrt.device.load_plugin")(os.path.abspath(os.fsdecode(path)))


def list_devices() -> list[str]:
    """Return the names of the devices that are registered, in the order of registration."""
    return [str(name) for name in get_global_func("tvmrt.device.list")()]


def set_device_options(name: str, options: str) -> None:
    """Give a device options for the regions that are loaded from now on.

    Parameters
    ----------
    name
        The device.
    options
        A JSON object, which ``pre_run`` of the device gets.
    """
    get_global_func("tvmrt.device.set_options")(name, options)


def device_fallbacks(module: Any) -> list[dict[str, Any]]:
    """Tell what became of the regions of a library that was compiled with ``device_fallback``.

    Parameters
    ----------
    module
        The library, its factory, or an executor over it.

    Returns
    -------
    list of dict
        For each region ``region`` and ``device``; ``runs``: how many calls of it the CPU has taken
        over, in all executors of the library; ``reason``: of the first of them, or why the device
        was not there when the library was loaded; empty if there is none.
    """
    said = get_global_func("tvmrt.device.fallbacks")(getattr(module, "module", module))
    return json.loads(str(said))


@register_func("tvmrt.device.find_installed", override=True)
def _find_installed(name: str) -> None:
    """Bring a device that the runtime lacks, if a plug-in or an installed package offers it: the
    path of a C plug-in is loaded, else a class or device of Python enters its run-time half."""
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
