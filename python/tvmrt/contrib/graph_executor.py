"""The graph executor under its name in TVM."""

from __future__ import annotations

from typing import Any

from tvmrt.runtime.device import Device
from tvmrt.runtime.executor.graph_executor import GraphModule
from tvmrt.runtime.module import Module
from tvmrt.runtime.packed_func import get_global_func

__all__ = ["GraphModule", "create", "get_device"]


def create(
    graph_json_str: str | Any, libmod: Module, device: Device | str | list[Device | str]
) -> GraphModule:
    """Return an executor for a graph and the library of its operators.

    Parameters
    ----------
    graph_json_str
        The graph as JSON text.
    libmod
        The library.
    device
        The device, or one per device type of the graph, the host's first.
    """
    make = get_global_func("tvm.graph_executor.create")
    return GraphModule(make(_text(graph_json_str), libmod, *device_numbers(device)))


def get_device(libmod: Module | None, device: Any) -> list[Device]:
    """Return one or several devices as a list.

    Raises
    ------
    ValueError
        If one of them is not a device.
    """
    from tvmrt.runtime.device import device as make

    given = list(device) if isinstance(device, (list, tuple)) else [device]
    devices = [make(one) if isinstance(one, str) else one for one in given]
    for one in devices:
        if not isinstance(one, Device):
            raise ValueError(f"{one!r} is not a device; pass for example tvmrt.cpu(0)")
    return devices


def device_numbers(device: Any) -> list[int]:
    """Return devices as the integers that C functions take: type and id of each."""
    numbers: list[int] = []
    for one in get_device(None, device):
        numbers += (one.device_type, one.device_id)
    return numbers


def _text(graph: Any) -> str:
    """Return a graph as JSON text; accepts text and objects with ``_tvm_graph_json()``."""
    if isinstance(graph, str):
        return graph
    try:
        return str(graph._tvm_graph_json())
    except AttributeError:
        raise ValueError(
            f"a graph is JSON text, not {type(graph).__name__}; pass library.get_graph_json()"
        ) from None
