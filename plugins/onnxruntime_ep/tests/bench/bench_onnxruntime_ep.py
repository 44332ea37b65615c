"""Compare the execution provider with tvmrt's own runs of a folder's networks, in one process.

    python plugins/onnxruntime_ep/tests/bench/bench_onnxruntime_ep.py [FOLDER] [--networks NAME ...]
        [--seconds S] [--cpu]

FOLDER contains NAME.onnx with NAME.npz and defaults to TVMRT_MODELS. Both compute the same file
with NumPy arrays as inputs and outputs, in turn: ``InferenceSession.run()`` with all nodes that
tvmrt takes, and the network of ``tvmrt.load``. Times are the least of the rounds:

    parts   parts that tvmrt computes
    others  nodes left to onnxruntime
    ms      a run of the session
    own     the time of tvmrt's own network in parts of the session's
    empty   us, a run of onnxruntime's own session with these inputs and outputs, which computes
            nothing
    bare    own without the time of the empty run: the share that is the provider's
    ort     the time of onnxruntime's own computation in parts of the session's

With --cpu, times are those of the process on processors, for machines with other work.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import tvmrt
from tvmrt.plugins import onnxruntime_ep

ROUND_SECONDS = 0.005


def make_session(path: Path, ours: bool) -> onnxruntime.InferenceSession:
    """Return a session, with tvmrt's execution provider if ``ours``."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = int(os.environ.get("TVM_NUM_THREADS", "0"))
    if not ours:
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    onnxruntime_ep.add_to(options)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    return onnxruntime.InferenceSession(path, options)


def empty_call(feeds: dict[str, np.ndarray], results: list[np.ndarray]) -> Callable[[], object]:
    """Return a call of a session with these inputs, whose outputs are constants of these shapes."""
    names = [f"output{i}" for i in range(len(results))]
    graph = helper.make_graph(
        [],
        "empty",
        [_info(name, array) for name, array in feeds.items()],
        [_info(name, array) for name, array in zip(names, results)],
        [numpy_helper.from_array(array, name) for name, array in zip(names, results)],
    )
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds)


def _info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


def seconds_of(run: Callable[[], object], times: int, clock: Callable[[], float]) -> float:
    """Return the seconds of one of several runs."""
    start = clock()
    for _ in range(times):
        run()
    return (clock() - start) / times


def measure(path: Path, seconds: float, clock: Callable[[], float]) -> str:
    """Return a line of the table."""
    with np.load(path.with_suffix(".npz")) as data:
        arrays = dict(data)
    session, plain = make_session(path, True), make_session(path, False)
    feeds = {each.name: arrays[each.name] for each in session.get_inputs()}
    network = tvmrt.load(path)
    given = [arrays[each.name] for each in network.inputs]
    runs = [
        lambda: session.run(None, feeds),
        lambda: network(*given),
        lambda: plain.run(None, feeds),
        empty_call(feeds, plain.run(None, feeds)),
    ]
    times = [max(1, int(ROUND_SECONDS / max(1e-7, seconds_of(run, 3, clock)))) for run in runs]
    rounds = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rounds) < 5:
        rounds.append([seconds_of(run, count, clock) for run, count in zip(runs, times)])
    assigned = session.get_provider_graph_assignment_info()
    parts = sum(each.ep_name == onnxruntime_ep.NAME for each in assigned)
    others = len(assigned) - parts
    ours, own, theirs, empty = (min(each) for each in zip(*rounds))
    ratios = own / ours, own / max(ours - empty, own / 2), theirs / ours
    numbers = " ".join(f"{each:>6.2f}" for each in ratios)
    times_text = f"{1e3 * ours:>9.3f} {1e6 * empty:>6.1f}"
    return f"{path.stem:<32} {parts:>5} {others:>6} {times_text} {numbers}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--networks", nargs="*", help="names without .onnx")
    parser.add_argument("--seconds", type=float, default=1.0, help="per network")
    parser.add_argument("--cpu", action="store_true", help="count processor time")
    options = parser.parse_args()
    if not options.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    clock = time.process_time if options.cpu else time.perf_counter
    print(f"{'network':<32} parts others        ms  empty    own   bare    ort")
    for path in sorted(Path(options.folder).glob("*.onnx")):
        if not options.networks or path.stem in options.networks:
            print(measure(path, options.seconds, clock), flush=True)


if __name__ == "__main__":
    main()
