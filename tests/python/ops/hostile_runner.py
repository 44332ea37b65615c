"""Run networks with sanitizers, in a separate process because these must be loaded first.

python hostile_runner.py FOLDER: FOLDER/plan.json lists the networks; FOLDER/feeds.npz holds
"NETWORK|CASE|INPUT"; FOLDER/found.npz gets "NETWORK|BUILD|CASE|OUTPUT" and "...|error".
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

import numpy as np

import tvmrt


def on_host(path: Path, feeds: dict[str, np.ndarray], plan: dict, state: dict) -> list | str:
    """Return the executor's outputs, or the error's type and text."""
    if path not in state:
        module = tvmrt.runtime.load_module(str(path))
        state[path] = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    executor = state[path]
    for name, array in feeds.items():
        executor.set_input(name, array)
    try:
        executor.run()
    except Exception as fault:  # the test checks any result
        return f"{type(fault).__name__}: {fault}"
    return [executor.get_output(i).numpy() for i in range(len(plan["outputs"]))]


def on_board(path: Path, name: str, feeds: dict[str, np.ndarray], plan: dict) -> list | str:
    """Return the outputs of the C interface, or its return code."""
    run = getattr(ctypes.CDLL(str(path)), f"tvmgen_{name}_run")
    inputs = [np.ascontiguousarray(feeds[i]) for i in plan["inputs"]]
    outputs = [np.zeros(shape, dtype) for shape, dtype in plan["outputs"]]
    pointers = [(ctypes.c_void_p * len(a))(*(x.ctypes.data for x in a)) for a in (inputs, outputs)]
    code = run(*pointers)
    return outputs if code == 0 else str(code)


def main(folder: Path) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    found: dict[str, np.ndarray] = {}
    state: dict = {}
    with np.load(folder / "feeds.npz") as stored:
        cases: dict[tuple[str, str], dict[str, np.ndarray]] = {}
        for key in stored.files:
            name, case, operand = key.split("|")
            cases.setdefault((name, case), {})[operand] = stored[key]
    for (name, case), feeds in cases.items():
        for build in plan[name]["builds"]:
            print(f"{name}, {build}, case {case}: {feeds}", file=sys.stderr, flush=True)
            path = folder / (f"{name}.so" if build == "library" else f"{build}.so")
            if build == "library":
                result = on_host(path, feeds, plan[name], state)
            else:
                result = on_board(path, name, feeds, plan[name])
            rows = (
                {"error": np.array(result)} if isinstance(result, str) else dict(enumerate(result))
            )
            found.update({f"{name}|{build}|{case}|{i}": a for i, a in rows.items()})
    np.savez(folder / "found.npz", **found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
