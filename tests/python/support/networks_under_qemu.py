"""Networks on emulated machines, run by RPC servers. Tests are skipped without an RPC plug-in.

The index of the folder assigns networks to machines: the cheapest first, in turn. The other
networks run the same code on the machine of the tests.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt import plugin

sys.path.insert(0, str(Path(__file__).parents[1] / "networks"))
import golden_case

# The target, and the default level of its emulated processor: others have separate tests,
# and code for all of them would double the compile time here.
MACHINES = {"aarch64-linux": "i8mm", "armv7-linux": "neon", "riscv64-linux": "rv64"}
COUNT = 6


def turns(target: str) -> list[str]:
    """Return the networks assigned to that machine; none without the folder."""
    names = golden_case.names()
    if not names:
        return []
    index = json.loads((Path(os.environ["TVMRT_MODELS"]) / "index.json").read_text())
    names.sort(key=lambda name: (index[name]["macs"], name))
    return names[:COUNT][list(MACHINES).index(target) :: len(MACHINES)]


def need_servers() -> None:
    """Skip the test if no plug-in connects to RPC servers."""
    if not plugin.has("connections", "--rpc"):
        pytest.skip("no plug-in has remote calls")


def run(port: int, library: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a compiled network on the server at that port."""
    options = {"rpc": f"127.0.0.1:{port}", "rpc_tracker": None, "rpc_key": ""}
    place = plugin.find("connections", "--rpc")().open(options)
    try:
        return list(place.open(library, None).run(inputs))
    finally:
        place.close()


def check(models: Path, name: str, target: str, port: int, folder: Path) -> None:
    """Assert that a network gives its golden outputs on the server at that port."""
    library = tvmrt.compile(models / f"{name}.onnx", target=target, levels=[MACHINES[target]])
    library.export_library(folder / "net.so")
    inputs, outputs = golden_case.load(models, name)
    for found, (key, expected) in zip(run(port, folder / "net.so", inputs), outputs.items()):
        golden_case.check(key, found, expected, golden_case.noise(models, name))
