"""A graph executor that runs and measures single operators, under its name in TVM."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.contrib.graph_executor import _text, device_numbers
from tvmrt.runtime.device import Device
from tvmrt.runtime.executor.graph_executor import GraphModule
from tvmrt.runtime.module import Module
from tvmrt.runtime.ndarray import NDArray, empty
from tvmrt.runtime.packed_func import get_global_func
from tvmrt.runtime.params import save_param_dict_to_file

__all__ = ["GraphModuleDebug", "create"]


def create(
    graph_json_str: str,
    libmod: Module,
    device: Device | str | list[Device | str],
    dump_root: str | None = None,
) -> GraphModuleDebug:
    """Return a debug executor for a graph and the library of its operators.

    Parameters
    ----------
    graph_json_str
        The graph as JSON text.
    libmod
        The library.
    device
        The device, or one per device type of the graph.
    dump_root
        Folder for the graph and the outputs of all nodes, written by run(); None to write
        nothing.
    """
    text = _text(graph_json_str)
    make = get_global_func("tvm.graph_executor_debug.create")
    return GraphModuleDebug(make(text, libmod, *device_numbers(device)), device, text, dump_root)


class GraphModuleDebug(GraphModule):
    """A graph executor whose operators can be run, measured and inspected one by one.

    Parameters
    ----------
    module
        The debug executor's module.
    device
        Its device or devices.
    graph_json_str
        The graph as JSON text.
    dump_root
        Folder for the outputs of all nodes, written by run(); or None.
    """

    def __init__(
        self, module: Module, device: Any, graph_json_str: str, dump_root: str | None = None
    ) -> None:
        super().__init__(module)
        self.device = device
        self._dump_root = None if dump_root is None else Path(dump_root)
        graph = json.loads(graph_json_str)
        self._graph_text = graph_json_str
        self._nodes = graph["nodes"]
        self._row = graph["node_row_ptr"]
        self._shapes = graph["attrs"]["shape"][1]
        self._types = graph["attrs"]["dltype"][1]

    def run(self, **input_dict: Any) -> None:
        """Run the network; with a dump folder, also write the outputs of all nodes."""
        super().run(**input_dict)
        if self._dump_root is not None:
            self._dump(self._dump_root)

    def _dump(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "_tvmdbg_graph_dump.json").write_text(self._graph_text)
        tensors = {}
        for index, node in enumerate(self._nodes):
            name = f"{node['name']}____{index}"
            tensors[name] = self._node_output(index)
            for output in range(1, self._row[index + 1] - self._row[index]):
                tensors[f"{name}:{output}"] = self.module["get_node_output"](index, output)
        save_param_dict_to_file(tensors, folder / "output_tensors.params")

    def _node_output(self, index: int) -> NDArray:
        entry = self._row[index]
        out = self.debug_get_output(index, empty(tuple(self._shapes[entry]), self._types[entry]))
        if entry == self._row[index + 1]:
            return out
        # The graph may describe only storage; the node knows the tensor in it.
        return self.module["get_node_output"](index)

    def get_node_output(self, node: str | int) -> NDArray:
        """Run up to a node and return a copy of its first output.

        Raises
        ------
        KeyError
            If there is no such node.
        """
        names = [entry["name"] for entry in self._nodes]
        index = names.index(node) if node in names else node
        if not isinstance(index, int) or not 0 <= index < len(names):
            raise KeyError(f"the graph has no node {node!r}")
        return self._node_output(index)

    def execute_node(self, node: str | int) -> NDArray:
        """Run a single node on the current values of its inputs and return a copy of its output."""
        names = [entry["name"] for entry in self._nodes]
        index = names.index(node) if isinstance(node, str) else node
        self.module["execute_node"](index)
        return self._node_output(index)

    def run_individual(
        self,
        number: int,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """Measure each node on its own.

        The parameters are those of Module.time_evaluator().

        Returns
        -------
        list
            For each node, a list with the seconds of each repeat; 0 for inputs.
        """
        data = self.module["run_individual"](
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
        )
        (count,) = struct.unpack_from("=q", data)
        return np.frombuffer(data, dtype=np.float64, offset=8).reshape(count, -1).tolist()

    def exit(self) -> None:
        """Do nothing; kept for compatibility."""
