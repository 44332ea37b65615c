"""Devices written only in C: the compiler calls packed functions of the runtime,
``device.<name>.*``. Without a loaded runtime there are none."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from tvmrt.compiler.ir import DeviceMemory, Graph, Node, Region
from tvmrt.error import TVMError, UnsupportedError

from .base import Annotation, Context, Device, Refusal
from .region_json import region_text
from .runtime_support import plugin_names, runtime_function


class CDevice(Device):
    """Device defined by its slots: ``describe`` and ``split_graph`` select nodes, ``evaluation``
    evaluates regions, ``optimize_graph`` selects the nodes in reduced precision."""

    def __init__(self, name: str) -> None:
        self.name = name
        description = json.loads(str(_function(name, "describe")()))
        self.layout = description["layout"]
        self.version = description["version"]
        self.precisions = tuple(description["precisions"])
        self.any_size = bool(description["any_size"])
        self.chips = tuple(description["chips"])
        if "memory" in description:
            self.memory = DeviceMemory(name, *description["memory"])
        self._groups = bool(description["own_split"])
        self._ops = frozenset(description["ops"])
        self._dtypes = frozenset(description["dtypes"])

    def refuses(self, context: Context) -> str | None:
        """Refuse targets without the runtime that loads its module."""
        if context.runtime == "crt":
            return f"{self.name} is a device of runtimes with an operating system"
        return None

    def supports(self, node: Node) -> str | None:
        if self._ops and node.op not in self._ops:
            return f"{self.name} does not support {node.op}"
        for value in [*(v for v in node.inputs if v is not None), *node.outputs]:
            if value.dtype.name not in self._dtypes:
                return f"{self.name} does not support {value.dtype} tensors"
        return None

    def annotate(self, graph: Graph) -> dict[Node, str | None]:
        """Use the device's own split; ``supports`` may give reasons for nodes that are left out."""
        if not graph.nodes:
            return {}
        results = copy(graph)  # a region's outputs are results of nodes, each once
        results.outputs = list(dict.fromkeys(v for v in graph.outputs if v.producer is not None))
        try:
            text, constants = region_text([Region(self.name, "graph", results)], self.name)
        except UnsupportedError:
            return super().annotate(graph)  # a node that a region cannot contain: check each node
        groups = json.loads(str(_function(self.name, "split_graph")(text, bytearray(constants))))
        refusal = f"{self.name}'s split_graph leaves it to the CPU"
        description = {
            node: None if group >= 0 else self.supports(node) or refusal
            for node, group in zip(graph.nodes, groups)
        }
        if not self._groups:
            return description  # the default split has no groups
        return Annotation(description, {n: g for n, g in zip(graph.nodes, groups) if g >= 0})

    def evaluate(self, region: Region) -> str | None:
        text, constants = region_text([region], self.name)
        description = json.loads(str(_function(self.name, "judge")(text, bytearray(constants))))
        if not description["reason"] or description["node"] < 0:
            return description["reason"] or None
        return Refusal(description["reason"], region.nodes[description["node"]])

    def prepare(self, region: Region, chip: str) -> bytes:
        text, constants = region_text([region], self.name)
        return bytes(_function(self.name, "prepare")(text, bytearray(constants), chip))

    def optimize(self, region: Region) -> Region:
        """Mark the nodes that the device computes in the requested precision."""
        precision = region.options.get("precision")
        if precision is None:
            return region
        text, constants = region_text([region], self.name)
        ask = _function(self.name, "optimize_graph")
        chosen = json.loads(str(ask(text, bytearray(constants), precision)))
        for node, reduced in zip(region.nodes, chosen):
            if reduced:
                node.attrs["precision"] = precision
        return region


def find_c_device(name: str) -> Device | None:
    """Return the record of a C device, or None without such a device or plug-in."""
    find = runtime_function("tvmrt.device.find")
    if find is None or not find(name):
        return None
    if runtime_function(f"device.{name}.describe") is None:
        return None  # only a run-time part; its author registers the compile-time part
    return CDevice(name)


def c_device_names() -> list[str]:
    """Return names of devices that are registered in the runtime or have a plug-in."""
    listed = runtime_function("tvmrt.device.list")
    return [] if listed is None else [*(str(name) for name in listed()), *plugin_names()]


def _function(device: str, slot: str) -> Callable[..., Any]:
    function = runtime_function(f"device.{device}.{slot}")
    if function is None:
        raise TVMError(f"device {device} was unloaded; load its plug-in again")
    return function


__all__: Sequence[str] = ["CDevice", "c_device_names", "find_c_device"]
