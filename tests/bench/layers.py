"""Table of layers: each layer of public architectures as a network, next to onnxruntime.

    TVM_NUM_THREADS=1 python tests/bench/layers.py [--class NAME ...] [--limit N] [--int8]
        [--levels LEVEL ...] [--seconds S] [--json FILE]

A row is one layer of ``layer_shapes.py``. Both runtimes keep their inputs and outputs bound, and
run in turns; the speed is the median ratio of the rounds, so other load falls on both. Layers of
images include the conversion of the layout, which a whole network has once. ``of limit`` is the
time that arithmetic or memory needs at the measured peaks, relative to the time taken; the reason
is the longer one, or the call of a network that is too small for either. ``--int8`` adds both
conventions of quantised networks (activations uint8 and int8) and their speed relative to our
float32; ``--max-slower N`` makes the exit code 1 if more than N of them are slower. ``--levels``
measures code for single ISA levels. Unless ``--limit`` is 0, a class has at most 12 layers, spread
over its sizes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np
import onnx
from layer_networks import INT8_KINDS, float_network, quantized_network
from layer_shapes import Layer, layers
from paired import seconds as seconds_of

import tvmrt
from tvmrt.cli.onnxruntime_session import onnxruntime_session
from tvmrt.plugins.report.collect import collect
from tvmrt.plugins.report.operator_times import peaks
from tvmrt.plugins.report.roofline import bandwidths
from tvmrt.runtime.executor import AotModule

CALL_SECONDS = 4e-6  # of a call with arguments bound: shorter layers measure the call
BATCH_SECONDS = 1e-3  # of one side of a round
SHARE = 0.6  # of the peak or of the bandwidth below which a row is listed
TYPES = {"float32": None, "uint8": np.uint8, "int8": np.int8}
FEW_CHANNELS = 4


@dataclass
class Measurement:
    """Measurement. ``speed``: onnxruntime's time to ours; ``share``: of the limit ``by``."""

    group: str
    layer: str
    networks: str
    dtype: str
    level: str
    seconds: float
    speed: float
    share: float
    by: str


def class_of(layer: Layer) -> str:
    """Return the class of a layer; the table has a row for each."""
    kind, *args = layer
    if kind == "conv":
        cin, _, k, _, _, _, group, dilation = args
        taps = k[0] * k[1]
        if group > 1:
            return f"depthwise {'x'.join(map(str, k))}" if group == cin and taps in (9, 25) else (
                "depthwise, large" if group == cin else "conv, grouped"
            )  # fmt: skip
        if cin <= FEW_CHANNELS:
            return "conv, few channels"
        if dilation > 1:
            return "conv, dilated"
        return {1: "conv 1x1", 9: "conv 3x3"}.get(taps if k[0] == k[1] else 0, "conv, other")
    if kind in ("gemm", "matmul", "batch_matmul"):
        return "matmul, one row" if args[0] == 1 else "matmul"
    if kind in ("channel_shuffle", "depth_to_space", "space_to_depth"):
        return "transpose"
    if kind in ("layer_norm", "rms_norm", "group_norm"):
        return "normalisation"
    return {"conv_transpose_1d": "conv_transpose", "global_pool": "pool"}.get(kind, kind)


def selected(limit: int, classes: Sequence[str]) -> dict[Layer, str]:
    """Return layers with the names of their architectures: per class ``limit``, spread by size."""
    found = layers()
    groups: dict[str, list[Layer]] = {}
    for layer in found:
        groups.setdefault(class_of(layer), []).append(layer)
    unknown = set(classes) - set(groups)
    if unknown:
        sys.exit(f"unknown class {sorted(unknown)}; known: {', '.join(sorted(groups))}")
    kept = {}
    for name in sorted(classes or groups):
        ordered = sorted(groups[name], key=lambda layer: (str(layer[0]), layer[1:].__repr__()))
        count = min(limit or len(ordered), len(ordered))
        for i in range(count):
            layer = ordered[i * len(ordered) // count]
            kept[layer] = ", ".join(found[layer][:2])
    return kept


def network(layer: Layer, dtype: str) -> onnx.ModelProto:
    model = float_network(layer)
    kind = TYPES[dtype]
    return model if kind is None else quantized_network(model, kind)


def build(layer: Layer, dtype: str, level: str, path: str) -> int:
    """Compile a layer to a library; return its multiply-adds."""
    where = {"target": "x86-64", "levels": (level,)} if level else {}
    request = tvmrt.Request(executor="aot", **where)
    library = tvmrt.compile(network(layer, dtype), request if level else request.for_here())
    library.export_library(path)
    return sum(each["macs"] or 0 for each in collect(library, "layer")["operators"])


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    rng, feeds = np.random.default_rng(2), {}
    for given in model.graph.input:
        shape = [d.dim_value for d in given.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type)
        values = rng.normal(0, 1, shape) if dtype == np.float32 else rng.integers(0, 100, shape)
        feeds[given.name] = values.astype(dtype)
    return feeds


def ours(path: Path, feeds: dict) -> AotModule:
    executor = AotModule(tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0)))
    for name, array in feeds.items():
        executor.set_input(name, array)
    return executor


def rival(model: onnx.ModelProto, feeds: dict, threads: int) -> tuple[Callable, Callable]:
    """Return calls of onnxruntime that run the network, and that return its outputs."""
    session = onnxruntime_session(model, threads)
    binding = session.io_binding()
    for name, array in feeds.items():
        binding.bind_cpu_input(name, array)
    for each in session.get_outputs():
        binding.bind_output(each.name, "cpu")
    return lambda: session.run_with_iobinding(binding), binding.copy_outputs_to_cpu


def compare(calls: Sequence[Callable], seconds: float) -> list[list[float]]:
    """Return the times of a call of each side in each round."""
    counts = []
    for call in calls:
        call()
        single = seconds_of(call, 1, time.perf_counter)
        counts.append(max(1, min(1000, int(BATCH_SECONDS / single))))
    rounds: list[list[float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < 7:
        rounds.append([seconds_of(*each, time.perf_counter) for each in zip(calls, counts)])
    return rounds


def moved_bytes(layer: Layer, model: onnx.ModelProto, outputs: Sequence[np.ndarray]) -> int:
    """Return the bytes that a layer reads and writes at least once."""
    results = sum(array.nbytes for array in outputs)
    if layer[0] == "gather":
        return 2 * results
    inputs = sum(array.nbytes for array in feeds_of(model).values())
    return results + inputs + sum(len(t.raw_data) for t in model.graph.initializer)


class Limits:
    """Measured peaks of this machine."""

    def __init__(self, threads: int, dtypes: Sequence[str]) -> None:
        self.flops = peaks({"float32" if d == "float32" else "int8" for d in dtypes})
        self.bytes = bandwidths(threads)

    def share(self, macs: int, moved: int, dtype: str, seconds: float) -> tuple[float, str]:
        """Return the share of the limit that a time reaches, and the limit."""
        compute = 2 * macs / self.flops["float32" if dtype == "float32" else "int8"]
        size = min((s for s in self.bytes if s >= moved), default=max(self.bytes))
        memory = moved / self.bytes[size]
        by = "compute" if compute > memory else f"memory of {size >> 10} KiB"
        return max(compute, memory) / seconds, "call" if seconds < CALL_SECONDS else by


def check(mine: Sequence[np.ndarray], theirs: Sequence[np.ndarray], layer: Layer) -> None:
    """Print a layer whose results differ. onnxruntime quantises more than an int8 network says
    (weights of transposed convolutions), which changes a result by a few steps."""
    for a, b in zip(mine, theirs):
        error = np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0)
        allowed = 4.0 if a.dtype != np.float32 else 2e-3 * max(1.0, float(np.abs(b).max()))
        if error > allowed and a.dtype != np.int64:
            print(f"different by {error:.3g}: {layer}", flush=True)


def measure(layer: Layer, names: str, built: dict[tuple, tuple[Path, int]], limits: Limits,
            given: argparse.Namespace) -> list[Measurement]:  # fmt: skip
    """Measure a layer in all types and levels."""
    rows = []
    for (dtype, level), (path, macs) in built.items():
        model = network(layer, dtype)
        feeds = feeds_of(model)
        executor = ours(path, feeds)
        run, results = rival(model, feeds, given.threads)
        rounds = compare((executor.run, run), given.seconds)
        found = [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]
        check(found, results(), layer)
        seconds = min(mine for mine, _ in rounds)
        speed = median(other / mine for mine, other in rounds)
        share = limits.share(macs, moved_bytes(layer, model, found), dtype, seconds)
        text = f"{layer[0]}{layer[1:]}".replace("'", "")
        rows.append(Measurement(class_of(layer), text, names, dtype, level, seconds, speed, *share))
    return rows


def table(title: str, rows: Sequence[Measurement]) -> None:
    """Print speeds by class, and the rows with a loss or below the limit."""
    groups = sorted({row.group for row in rows})
    print(f"\n{title}\n{'class':22} layers  speed  least  of limit")
    for name in (*groups, ""):
        those = [row for row in rows if name in ("", row.group)]
        speeds, shares = [row.speed for row in those], [row.share for row in those]
        print(f"{name or 'all':22} {len(those):6} {geometric_mean(speeds):6.2f} "
              f"{min(speeds):6.2f} {median(shares):8.0%}")  # fmt: skip
    slower = sorted((row for row in rows if row.speed < 1), key=lambda row: row.speed)
    below = [row for row in rows if row.speed >= 1 and row.share < SHARE and row.by != "call"]
    below.sort(key=lambda row: row.share)
    for head, listed in (
        ("slower than onnxruntime", slower), (f"below {SHARE:.0%} of the limit", below)
    ):  # fmt: skip
        print(f"\n{head}: {len(listed)} of {len(rows)}")
        for row in listed[:40]:
            print(f"{row.speed:5.2f} {row.share:5.0%} {row.seconds * 1e6:9.1f} us  {row.by:18} "
                  f"{row.layer} ({row.networks})")  # fmt: skip


def against_float(rows: Sequence[Measurement]) -> int:
    """Print layers that are slower in int8 than in float32; return how many."""
    floats = {(row.layer, row.level): row.seconds for row in rows if row.dtype == "float32"}
    quantized = [row for row in rows if row.dtype != "float32"]
    ratios = [(floats[row.layer, row.level] / row.seconds, row) for row in quantized]
    slower = sorted((r for r in ratios if r[0] < 1), key=lambda r: r[0])
    print(f"\nint8 slower than float32: {len(slower)} of {len(ratios)}")
    for ratio, row in slower:
        print(f"{ratio:5.2f} {row.seconds * 1e6:9.1f} us {row.dtype:6} {row.layer}")
    return len(slower)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--class", dest="classes", nargs="+", default=[], help="default: all")
    parser.add_argument("--limit", type=int, default=12, help="layers of a class; 0: all")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each row")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--int8", action="store_true", help="quantised networks as well")
    parser.add_argument("--levels", nargs="+", default=[""], help="ISA levels: v2 v3 v4 ...")
    parser.add_argument("--jobs", type=int, default=2, help="compilations at a time")
    parser.add_argument("--max-slower", type=int, default=sys.maxsize, metavar="N")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    given = parser.parse_args()
    if os.environ.get("TVM_NUM_THREADS") != str(given.threads):
        parser.error(f"set TVM_NUM_THREADS={given.threads}, which ours goes by")
    return given


def main() -> None:
    given = parse()
    chosen = selected(given.limit, given.classes)
    dtypes = list(TYPES) if given.int8 else ["float32"]
    keys = [(layer, dtype, level) for layer in chosen for level in given.levels
            for dtype in (dtypes if layer[0] in INT8_KINDS else dtypes[:1])]  # fmt: skip
    rows = []
    with tempfile.TemporaryDirectory(prefix="tvmrt-layers-") as folder:
        paths = [Path(folder, f"{i}.so") for i in range(len(keys))]
        with ProcessPoolExecutor(given.jobs) as pool:
            macs = list(pool.map(build, *zip(*keys), map(str, paths)))
        built: dict[Layer, dict] = {}
        for (layer, *key), path, count in zip(keys, paths, macs):
            built.setdefault(layer, {})[tuple(key)] = path, count
        limits = Limits(given.threads, dtypes)
        for layer, names in chosen.items():
            rows += measure(layer, names, built[layer], limits, given)
    for level in given.levels:
        for dtype in dtypes:
            table(f"{dtype} {level}", [r for r in rows if (r.dtype, r.level) == (dtype, level)])
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), "utf-8")
    if given.int8 and against_float(rows) > given.max_slower:
        sys.exit("int8 is slower than float32")


if __name__ == "__main__":
    main()
