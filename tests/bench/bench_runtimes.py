"""Compare networks with onnxruntime and OpenVINO, in float32 and in bfloat16, in turns.

    TVM_NUM_THREADS=1 python tests/bench/bench_runtimes.py NETWORK.onnx... [--kinds KIND ...]
        [--threads N] [--seconds S] [--cpu] [--keep FOLDER] [--target NAME [--levels NAME...]]

Kinds: ``f32`` and ``bf16`` are ours, ``direct`` and ``winograd`` are ours with ``--no-winograd``
and ``--winograd``, ``whole`` is ours with ``--no-row-chains``, ``ort`` is onnxruntime, ``ov_f32``
is OpenVINO restricted to float32, ``ov`` is OpenVINO with its defaults, which uses bfloat16 if the
processor supports it; quantised networks stay quantised. Weights are those of the file, inputs
random, numpy arrays in and out, one network in one process. Printed is how many times as fast ours
is as each other kind: the median over rounds in which all run in turn, and the ratio of the fastest
runs, which is robust under other load, more so with the process's time on processors
(``--cpu``). ``--keep`` keeps the compiled libraries for the next time. Where no target is named,
ours are for this very machine, as those of ``tvmrt.load``. Without OpenVINO (``pip install
openvino``) its kinds are left out.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import onnxruntime

import tvmrt
from tvmrt.runtime.executor import AotModule

Run = Callable[[], "list[np.ndarray]"]

OURS: dict[str, dict] = {
    "f32": {},
    "direct": {"winograd": False},
    "winograd": {"winograd": True},
    "whole": {"row_chains": False},
    "bf16": {"precision": "bf16"},
}
# Pairs of our kinds and other kinds.
PAIRS = [
    ("f32", "ort"), ("f32", "ov_f32"), ("f32", "ov"), ("winograd", "ort"), ("winograd", "f32"),
    ("direct", "ort"), ("f32", "direct"), ("f32", "whole"),
    ("bf16", "ov"), ("bf16", "f32"),
]  # fmt: skip


def rival(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds_of(session: onnxruntime.InferenceSession) -> dict[str, np.ndarray]:
    """Return random inputs; integers are 0 and 1, which are valid for every table and mask."""
    rng = np.random.default_rng(1)
    feeds = {}
    for given in session.get_inputs():
        shape = [n if isinstance(n, int) else 1 for n in given.shape]
        if given.type == "tensor(float)":
            feeds[given.name] = rng.normal(0, 1, shape).astype(np.float32)
        else:
            kind = given.type.removeprefix("tensor(").removesuffix(")")
            feeds[given.name] = rng.integers(0, 2, shape).astype(kind)
    return feeds


def ours(path: Path, feeds: dict, library: Path, options: dict) -> Run:
    if not library.exists():
        request = tvmrt.Request(executor="aot", **options).for_here()
        tvmrt.compile(path, request).export_library(library)
    executor = AotModule(tvmrt.runtime.load_module(library)["default"](tvmrt.cpu(0)))

    def run() -> list[np.ndarray]:
        for name, array in feeds.items():
            executor.set_input(name, array)
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]

    return run


def openvinos(path: Path, feeds: dict, threads: int, precision: str | None) -> Run | None:
    try:
        import openvino
    except ImportError:
        return None
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    if precision:
        options["INFERENCE_PRECISION_HINT"] = precision
    request = openvino.Core().compile_model(path, "CPU", options).create_infer_request()
    return lambda: list(request.infer(feeds).values())


def runs_of(path: Path, given: argparse.Namespace, folder: str) -> dict[str, Run]:
    session = rival(path, given.threads)
    feeds = feeds_of(session)
    runs: dict[str, Run | None] = {}
    for kind in given.kinds:
        if kind in OURS:
            library = Path(folder) / f"{path.stem}.{kind}.so"
            options = {**OURS[kind], "target": given.target, "levels": given.levels or ()}
            runs[kind] = ours(path, feeds, library, options)
        elif kind == "ort":
            runs[kind] = lambda: session.run(None, feeds)
        else:
            runs[kind] = openvinos(path, feeds, given.threads, "f32" if kind == "ov_f32" else None)
    return {kind: run for kind, run in runs.items() if run}


def times_of(
    runs: dict[str, Run], seconds: float, clock: Callable[[], float]
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {kind: [] for kind in runs}
    order = list(runs)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[order[0]]) < 5:
        for kind in order:
            runs[kind]()
            start = clock()
            runs[kind]()
            times[kind].append(clock() - start)
        order.append(order.pop(0))
    return times


def off(found: list[np.ndarray], right: list[np.ndarray]) -> float:
    """Return the largest difference of the outputs, relative to each output's largest value."""
    return max(
        float(np.abs(f - r).max() / max(np.abs(r).max(), 1e-30))
        for f, r in zip(found, right)
        if r.size
    )


def measure(path: Path, given: argparse.Namespace, folder: str) -> dict[tuple, float]:
    """Print and return the median ratios of the pairs, with those of the fastest runs."""
    runs = runs_of(path, given, folder)
    clock = time.process_time if given.cpu else time.perf_counter
    times = times_of(runs, given.seconds, clock)
    ratios = {}
    columns = []
    for pair in PAIRS:
        if not set(pair) <= set(times):
            continue
        mine, other = (times[kind] for kind in pair)
        ratios[pair] = median(b / a for a, b in zip(mine, other))
        columns.append(f"{pair[0]}:{pair[1]} {ratios[pair]:.3f} ({min(other) / min(mine):.3f})")
    ms = "  ".join(f"{kind} {1e3 * min(each):.3f}" for kind, each in times.items())
    right = next((kind for kind in ("ort", "f32") if kind in runs), None)
    errors = [f"{k} off {off(runs[k](), runs[right]()):.1e}" for k in runs if right and k in OURS]
    print(f"{path.stem}: {'  '.join(columns)} | ms {ms} | {', '.join(errors)}", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    kinds = [*OURS, "ort", "ov_f32", "ov"]
    parser.add_argument("networks", nargs="+", type=Path)
    default = [kind for kind in kinds if kind not in ("direct", "winograd")]
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=default)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10.0, help="for each network")
    parser.add_argument("--cpu", action="store_true", help="compare processor time")
    parser.add_argument("--target", help="default: this machine, as for tvmrt.load")
    parser.add_argument("--levels", nargs="*", help="ISA levels, with --target x86-64")
    parser.add_argument("--keep", metavar="FOLDER", help="where to keep the compiled libraries")
    given = parser.parse_args()
    if os.environ.get("TVM_NUM_THREADS") != str(given.threads):
        sys.exit(f"set TVM_NUM_THREADS={given.threads}, which ours goes by")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if given.keep:
            Path(given.keep).mkdir(parents=True, exist_ok=True)
        for path in given.networks:
            rows.append(measure(path, given, given.keep or folder))
    for pair in PAIRS:
        values = [row[pair] for row in rows if pair in row]
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"{pair[0]}:{pair[1]} geometric mean {mean:.3f}, minimum {min(values):.3f}")


if __name__ == "__main__":
    main()
