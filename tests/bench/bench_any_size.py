"""Compare a library for every size with one for a fixed shape: speed, memory, code, cost of sizes.

Both libraries run in turns in one process on one thread. Each has several executors, since memory
addresses change the times of small networks by percents. Ratios use the minimum processor times
over many short rounds, which hides other load. The cost of a nearly empty run is printed, too: it
is the lower bound for small batches. Run:
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

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))

from dynamic_networks import CASES, FLOAT, Case, Draft

import tvmrt
from tvmrt.runtime.executor import AotModule

PLACES = 4  # executors in memory of each network
STEPS = 100  # dimension of the network that measures the cost of changing the size


def network(library, folder: Path, name: str):
    path = folder / f"{name}.so"
    library.export_library(str(path))
    return tvmrt.runtime.load_module(str(path)), code_bytes(path)


def executors(module, inputs) -> list:
    return [prepared(AotModule(module["default"](tvmrt.cpu(0))), inputs) for _ in range(PLACES)]


def code_bytes(path: Path) -> int:
    """Return the bytes of the section of instructions."""
    text = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(".text"))


def prepared(executor, inputs):
    for key, value in inputs.items():
        executor.set_input(key, value)
    executor.run()
    return executor


def ratio(first, second, rounds: int, calls: int) -> float:
    """Return the time of the first executors' runs divided by that of the second's."""
    least = [float("inf")] * 2
    for i in range(rounds):
        for which, executor in enumerate((first[i % PLACES], second[i % PLACES])):
            executor.run()
            start = time.thread_time()
            for _ in range(calls):
                executor.run()
            least[which] = min(least[which], time.thread_time() - start)
    return least[0] / least[1]


def opened(name: str) -> Case:
    """Return a network of the folder with a dynamic batch."""
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
    """Measure the ratios of the library for every size to those for fixed shapes."""
    model, rng, most = case.make(), np.random.default_rng(0), case.most()
    largest = case.inputs(rng, most)
    shapes = {name: array.shape for name, array in largest.items()}
    any_size = tvmrt.compile(model, executor="aot", dims=case.dims)
    fixed = tvmrt.compile(model, executor="aot", shapes=shapes)
    (open_, open_code), (still, fixed_shape_code) = (
        network(library, folder, name) for library, name in ((any_size, "open"), (fixed, "fixed"))
    )
    whole, alike = executors(open_, largest), executors(still, largest)
    start = time.perf_counter()
    whole[0].run(), alike[0].run()
    calls = max(1, int(0.001 / (time.perf_counter() - start)))
    found = {
        "largest": ratio(whole, alike, rounds, calls),
        "arena": any_size.summary.arena_bytes / fixed.summary.arena_bytes,
        "code": open_code / fixed_shape_code,
    }
    if most.get("batch", 1) > 1:
        half = case.inputs(rng, {**most, "batch": most["batch"] // 2})
        found["half"] = ratio(executors(open_, half), whole, rounds, calls)
    return found


def min_cost(folder: Path, rounds: int) -> float:
    """Return the microseconds of a run of a network that rectifies a row of one element."""
    d = Draft()
    model = d.model({"x": (FLOAT, ["batch", 1])}, {d.node("Relu", ["x"]): FLOAT})
    library = tvmrt.compile(model, executor="aot", dims={"batch": 8})
    module, _ = network(library, folder, "least")
    executor = executors(module, {"x": np.ones((1, 1), np.float32)})[0]
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(1000):
            executor.run()
        found.append(time.thread_time() - start)
    return 1e3 * min(found)


def size_cost(folder: Path, rounds: int) -> float:
    """Return the difference in microseconds between runs of alternating sizes and runs of one size,
    for a network of many trivial steps."""
    d = Draft()
    x = "x"
    for i in range(STEPS):
        x = d.node("Transpose" if i % 2 else "Relu", [x], **({"perm": [1, 0]} if i % 2 else {}))
    model = d.model({"x": (FLOAT, ["n", "m"])}, {x: FLOAT})
    library = tvmrt.compile(model, executor="aot", dims={"n": 4, "m": 4})
    module, _ = network(library, folder, "cost")
    executor = AotModule(module["default"](tvmrt.cpu(0)))
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
    print("                                               half: half a batch to the whole)")
    with tempfile.TemporaryDirectory() as folder:
        for name, case in cases.items():
            found = measure(case, Path(folder), rounds)
            cells = (f"{found[key]:6.3f}" if key in found else "     -"
                     for key in ("largest", "half", "arena", "code"))  # fmt: skip
            print(f"{name:14} {'  '.join(cells)}")
        print(f"a nearly empty run: {min_cost(Path(folder), 21):.2f} us")
        print(f"changing the size between runs: {size_cost(Path(folder), 21):.2f} us")


if __name__ == "__main__":
    main()
