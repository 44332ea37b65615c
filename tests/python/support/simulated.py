"""Networks on simulated devices: each device waits and adds up its inputs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import numpy as np

import tvmrt
from tvmrt.runtime import get_global_func, register_func
from tvmrt.runtime.executor import GraphModule

SHAPE = (4,)


class Crowd:
    """Counter of concurrent device runs and their maximum. Unlike times, it is reliable on a busy
    machine."""

    def __init__(self) -> None:
        self._lock, self._now, self.maximum = threading.Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.maximum = max(self.maximum, self._now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1


def add_device(
    name: str, seconds: float, crowd: Crowd | None = None, until: Callable[[], object] | None = None
) -> None:
    """Add a device whose runs take that long, or until a call returns; results are the sum of the
    inputs plus 1."""

    def run(_symbol, *tensors):
        with crowd or Crowd():
            time.sleep(seconds)
            if until is not None:
                until()
        *inputs, output = tensors
        output.copyfrom(sum((t.numpy() for t in inputs), np.float32(1)))

    register_func(f"device.{name}.run", run, override=True)


def remove_device(name: str) -> None:
    """Remove a device; its loaded regions keep their function."""
    tvmrt.runtime.remove_global_func(f"device.{name}.run")


def load_regions(
    device: str, inputs_of: dict[str, int], options: dict | None = None, op: str = "sum"
):
    """Return a module with a one-node region per symbol, with that number of inputs."""
    regions = []
    for symbol, count in inputs_of.items():
        tensor = {"name": "t", "dtype": "float32", "shape": list(SHAPE)}
        node = {"op": op, "inputs": list(range(count)), "outputs": [count]}
        regions.append(
            {
                "symbol": symbol,
                "tensors": [tensor] * (count + 1),
                "nodes": [node],
                "inputs": list(range(count)),
                "outputs": [count],
            }
        )
    text = {"format": "tvmrt-regions", "version": 1, "device": device, "regions": regions}
    if options:
        text["options"] = options
    return get_global_func("tvmrt.device.load_regions")(json.dumps(text), bytearray())


def graph(steps: list[tuple[str, str, list[int]]]) -> str:
    """Return graph JSON: node 0 is the input "x"; steps are symbol, device, input nodes."""
    nodes = [{"op": "null", "name": "x", "inputs": []}]
    for symbol, device, sources in steps:
        attrs = {
            "func_name": symbol,
            "num_inputs": str(len(sources)),
            "num_outputs": "1",
            "flatten_data": "0",
            "device": device,
            "after": json.dumps([s for s in sources if s != 0]),
        }
        inputs = [[s, 0, 0] for s in sources]
        nodes.append({"op": "tvm_op", "name": symbol, "inputs": inputs, "attrs": attrs})
    count = len(nodes)
    entries = {
        "dltype": ["list_str", ["float32"] * count],
        "storage_id": ["list_int", list(range(count))],
        "shape": ["list_shape", [list(SHAPE)] * count],
    }
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [0],
            "heads": [[count - 1, 0, 0]],
            "attrs": entries,
            "node_row_ptr": list(range(count + 1)),
        }
    )


def library(steps: list[tuple[str, str, list[int]]]):
    """Return a module with the regions of all devices of the steps."""
    modules = {}
    for _, device, _ in steps:
        if device not in modules:
            modules[device] = load_regions(
                device, {s: len(sources) for s, d, sources in steps if d == device}
            )
    root, *others = modules.values()
    for other in others:
        root.import_module(other)
    return root


def executor(steps: list[tuple[str, str, list[int]]], module=None) -> GraphModule:
    create = get_global_func("tvm.graph_executor.create")
    module = library(steps) if module is None else module
    return GraphModule(create(graph(steps), module, tvmrt.cpu(0)))


# Two branches of one step each, added; a chain of three stages.
BRANCHES = [("l", "left", [0]), ("r", "right", [0]), ("sum", "join", [1, 2])]
STAGES = [("one", "left", [0]), ("two", "right", [1]), ("three", "third", [2])]
