"""A library for every size beside one for a fixed shape: speed, memory, code, what sizes cost.

Both libraries run in turn in one process, on one thread; ratios are of the least processor times
over many short rounds, so that what else the machine does counts little. What a run costs that
computes next to nothing is told beside: no smaller batch takes less. Run:
``python tests/bench/bench_any_size.py``, with ``--models NAME ...`` for networks of the folder that
TVMRT_MODELS names, whose first axes it opens up to four.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "dims"))

from dynamic_networks import CASES, FLOAT, Case, Draft

import tvmrt
from tvmrt.runtime.executor import AotModule

STEPS = 100  # of the network that tells what changing the size costs


def network(library, folder: Path, name: str):
    path = folder / f"{name}.so"
    library.export_library(str(path))
    module = tvmrt.runtime.load_module(str(path))
    return AotModule(module["default"](tvmrt.cpu(0))), code_bytes(path)


def code_bytes(path: Path) -> int:
    """Of the section of instructions."""
    text = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(".text"))


def prepared(executor, inputs):
    for key, value in inputs.items():
        executor.set_input(key, value)
    executor.run()
    return executor


def ratio(first, second, rounds: int, calls: int) -> float:
    """Time of the first's runs by that of the second's."""
    seconds: dict = {first: [], second: []}
    for _ in range(rounds):
        for executor, found in seconds.items():
            executor.run()
            start = time.thread_time()
            for _ in range(calls):
                executor.run()
            found.append(time.thread_time() - start)
    return min(seconds[first]) / min(seconds[second])


def opened(name: str) -> Case:
    """A network of the folder with a free batch."""
    model = onnx.load(Path(os.environ["TVMRT_MODELS"]) / f"{name}.onnx")
    weights = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in weights]
    for info in infos:
        info.type.tensor_type.shape.dim[0].dim_param = "batch"

    def inputs(rng, sizes):
        made = {}
        for info in infos:
            tensor = info.type.tensor_type
            shape = (sizes["batch"], *(d.dim_value for d in tensor.shape.dim[1:]))
            kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            made[info.name] = (20 * rng.normal(size=shape)).astype(kind)
        return made

    return Case(lambda: model, {"batch": (1, 4)}, inputs)


def measure(case: Case, folder: Path, rounds: int) -> dict[str, float]:
    """Ratios of the library for every size to those for fixed shapes."""
    model, rng, most = case.make(), np.random.default_rng(0), case.most()
    largest = case.inputs(rng, most)
    shapes = {name: array.shape for name, array in largest.items()}
    any_size = tvmrt.compile(model, executor="aot", dims=case.dims)
    fixed = tvmrt.compile(model, executor="aot", shapes=shapes)
    (open_, open_code), (still, still_code) = (
        network(library, folder, name) for library, name in ((any_size, "open"), (fixed, "fixed"))
    )
    twin, _ = network(any_size, folder, "twin")
    start = time.perf_counter()
    prepared(open_, largest), prepared(still, largest)
    calls = max(1, int(0.001 / (time.perf_counter() - start)))
    found = {
        "largest": ratio(open_, still, rounds, calls),
        "arena": any_size.summary.arena_bytes / fixed.summary.arena_bytes,
        "code": open_code / still_code,
    }
    if most.get("batch", 1) > 1:
        half = case.inputs(rng, {**most, "batch": most["batch"] // 2})
        found["half"] = ratio(prepared(twin, half), open_, rounds, calls)
    return found


def least_cost(folder: Path, rounds: int) -> float:
    """Microseconds of a run of a network that rectifies a row of one number."""
    d = Draft()
    model = d.model({"x": (FLOAT, ["batch", 1])}, {d.node("Relu", ["x"]): FLOAT})
    library = tvmrt.compile(model, executor="aot", dims={"batch": 8})
    executor = prepared(network(library, folder, "least")[0], {"x": np.ones((1, 1), np.float32)})
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(1000):
            executor.run()
        found.append(time.thread_time() - start)
    return 1e3 * min(found)


def size_cost(folder: Path, rounds: int) -> float:
    """Microseconds by which runs of alternating sizes are slower than those of one, of a network of
    many steps that compute next to nothing."""
    d = Draft()
    x = "x"
    for i in range(STEPS):
        x = d.node("Transpose" if i % 2 else "Relu", [x], **({"perm": [1, 0]} if i % 2 else {}))
    model = d.model({"x": (FLOAT, ["n", "m"])}, {x: FLOAT})
    executor, _ = network(
        tvmrt.compile(model, executor="aot", dims={"n": 4, "m": 4}), folder, "cost"
    )
    arrays = [tvmrt.nd.array(np.zeros(shape, np.float32)) for shape in ((2, 4), (4, 2))]

    def seconds(chosen) -> float:
        start = time.thread_time()
        for i in range(2000):
            executor.set_input("x", arrays[chosen[i % 2]])
            executor.run()
        return (time.thread_time() - start) / 2000

    seconds((0, 1))
    return 1e6 * median(seconds((0, 1)) - seconds((0, 0)) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=301)
    parser.add_argument("--models", nargs="*", default=[])
    args = parser.parse_args()
    rounds, cases = args.rounds, {name: opened(name) for name in args.models} or CASES
    tvmrt.get_global_func("runtime.config_threadpool")(1, 1)
    print("network        largest   half  arena   code   (ratios to a library of fixed shape;")
    print("                                               half a batch: to the whole)")
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases.items():
            found = measure(case, Path(folder), rounds)
            cells = (f"{found[key]:6.3f}" if key in found else "     -"
                     for key in ("largest", "half", "arena", "code"))  # fmt: skip
            print(f"{name:14} {'  '.join(cells)}")
        print(f"a run of next to nothing: {least_cost(Path(folder), 21):.2f} us")
        print(f"changing the size between runs: {size_cost(Path(folder), 21):.2f} us")


if __name__ == "__main__":
    main()
