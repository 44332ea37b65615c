"""Real networks on emulated machines, as RPC has them run: each machine has its turn.

Which network goes where the folder's index tells alone: the least work first, one machine after
the other. The others run the same code on the machine of the tests.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule

sys.path.insert(0, str(Path(__file__).parents[1] / "networks"))
import golden_case

# The target, and the level that its emulated processor takes by default: others have tests of their
# own, and code for all of them would take as long to compile as all else here.
MACHINES = {"aarch64-linux": "i8mm", "armv7-linux": "neon", "riscv64-linux": "rv64"}
COUNT = 6


def turns(target: str) -> list[str]:
    """The names of the networks whose turn is on that machine; none without the folder."""
    names = golden_case.names()
    if not names:
        return []
    index = json.loads((Path(os.environ["TVMRT_MODELS"]) / "index.json").read_text())
    names.sort(key=lambda name: (index[name]["macs"], name))
    return names[:COUNT][list(MACHINES).index(target) :: len(MACHINES)]


def check(models: Path, name: str, target: str, port: int, folder: Path) -> None:
    """Assert that a network gives its golden outputs on the machine whose server has that port."""
    library = tvmrt.compile(models / f"{name}.onnx", target=target, levels=[MACHINES[target]])
    library.export_library(folder / "net.so")
    inputs, outputs = golden_case.load(models, name)
    session = tvmrt.rpc.connect("127.0.0.1", port)
    session.upload(folder / "net.so")
    runner = GraphModule(session.load_module("net.so")["default"](session.cpu(0)))
    runner.run(**inputs)
    for i, (key, expected) in enumerate(outputs.items()):
        found = runner.get_output(i).numpy()
        golden_case.check(key, found, expected, golden_case.noise(models, name))
    del runner
    session.close()
