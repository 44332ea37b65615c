"""Compare a library for all ISA levels of x86-64 with libraries for one level.

    TVM_NUM_THREADS=1 python tests/bench/bench_isa_levels.py [FOLDER] [NAME...] [--rounds N]

FOLDER holds NAME.onnx with NAME.npz and defaults to what TVMRT_MODELS names. For each network:

- native: time of the library with all levels, at its widest, relative to one for this machine;
- v3: time of its level v3, relative to a library for that level alone;
- code, weights: bytes relative to the library for this machine;
- compile: seconds relative to the library for this machine.

Times are the minimum of batches in turns. The last lines are geometric means.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.cli.elf import ElfFile
from tvmrt.contrib.graph_executor import GraphModule

BATCH_SECONDS = 0.01
BUILDS = {
    "native": {"target": "native"},
    "all": {"target": "x86-64"},
    "v3": {"target": "x86-64", "levels": ["v3"]},
}
COLUMNS = ("native", "v3", "code", "weights", "compile")


def build(model: Path, options: dict, path: Path) -> tuple[float, int, int]:
    """Return the seconds to compile, bytes of code, bytes of weights."""
    begin = time.perf_counter()
    library = tvmrt.compile(model, **options)
    library.export_library(path)
    seconds = time.perf_counter() - begin
    return seconds, ElfFile(path).loaded_bytes()["code"], library.summary.weights_bytes


def open_at(path: Path, level: str, inputs: dict) -> GraphModule:
    """Open an executor on a separate mapping, whose ISA level is selected when it is loaded."""
    copy = path.with_name(f"{path.stem}-{level or 'own'}.so")
    shutil.copy(path, copy)
    os.environ["TVMRT_LEVEL"] = level
    try:
        module = tvmrt.runtime.load_module(copy)
    finally:
        del os.environ["TVMRT_LEVEL"]
    runner = GraphModule(module["default"](tvmrt.cpu(0)))
    runner.set_input(**inputs)
    runner.run()
    return runner


def min_times(runners: dict[str, GraphModule], rounds: int) -> dict[str, float]:
    """Return the seconds of one run of each: the minimum of several batches in turns."""
    counts, found = {}, dict.fromkeys(runners, math.inf)
    for name, runner in runners.items():
        begin = time.perf_counter()
        runner.run()
        counts[name] = max(1, int(BATCH_SECONDS / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for name, runner in runners.items():
            begin = time.perf_counter()
            for _ in range(counts[name]):
                runner.run()
            found[name] = min(found[name], (time.perf_counter() - begin) / counts[name])
    return found


def measure(model: Path, rounds: int) -> dict[str, float]:
    """Return the results of a network by column."""
    with np.load(model.with_suffix(".npz")) as stored, tempfile.TemporaryDirectory() as folder:
        inputs = {n: stored[n] for n in stored.files if not n.startswith("out:")}
        paths = {name: Path(folder, f"{name}.so") for name in BUILDS}
        built = {name: build(model, BUILDS[name], paths[name]) for name in BUILDS}
        runners = {name: open_at(path, "", inputs) for name, path in paths.items()}
        runners["all at v3"] = open_at(paths["all"], "v3", inputs)
        times = min_times(runners, rounds)
    seconds, code, weights = (a / b for a, b in zip(built["all"], built["native"]))
    return {
        "native": times["all"] / times["native"],
        "v3": times["all at v3"] / times["v3"],
        "code": code,
        "weights": weights,
        "compile": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS", "."))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=31)
    given = parser.parse_args()
    names = given.names or sorted(path.stem for path in Path(given.folder).glob("*.onnx"))
    rows = []
    print(f"{'network':<32}" + "".join(f"{column:>9}" for column in COLUMNS))
    for name in names:
        rows.append(measure(Path(given.folder, f"{name}.onnx"), given.rounds))
        print(f"{name:<32}" + "".join(f"{rows[-1][c]:9.3f}" for c in COLUMNS), flush=True)
    means = [math.exp(sum(math.log(row[c]) for row in rows) / len(rows)) for c in COLUMNS]
    print(f"{'geometric mean':<32}" + "".join(f"{mean:9.3f}" for mean in means))


if __name__ == "__main__":
    main()
