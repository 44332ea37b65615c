"""Schedulers from Python: overlap of devices, traces, timeouts and cancellation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import register_func

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import bench_schedulers
import simulated


@pytest.fixture(autouse=True)
def devices():
    names = ("left", "right", "third", "join")
    for name in names:
        simulated.add_device(name, 0.002)
    yield
    for name in names:
        simulated.remove_device(name)


def run(executor, value=1.0):
    executor.set_input("x", np.full(simulated.SHAPE, value, np.float32))
    executor.run()
    return executor.get_output(0).numpy()[0]


def at_once(seconds_of_a_run, *arguments, **options) -> int:
    """Return the number of devices that ran at the same time."""
    crowd = simulated.Crowd()
    for name in ("left", "right", "third"):
        simulated.add_device(name, 0.02, crowd)
    assert seconds_of_a_run(*arguments, **options) > 0
    return crowd.maximum


def test_devices_overlap():
    in_turn, in_flight = bench_schedulers.seconds_in_turn, bench_schedulers.seconds_in_flight
    assert at_once(in_turn, simulated.BRANCHES, "sync", runs=3) == 1
    assert at_once(in_turn, simulated.BRANCHES, "async", runs=8) == 2
    assert at_once(in_turn, simulated.STAGES, "async", runs=3) == 1
    assert at_once(in_flight, simulated.STAGES, runs=12) == 3


@pytest.mark.parametrize("scheduler", ["sync", "async"])
def test_results_and_traces_are_the_same_every_time(scheduler):
    executor = simulated.executor(simulated.BRANCHES)
    executor.set_scheduler(scheduler)
    traces = []
    for value in range(4):
        assert run(executor, value) == 2 * value + 3
        traces.append(executor.get_trace())
    assert all(trace == traces[0] for trace in traces)
    assert traces[0]["scheduler"] == scheduler
    assert [(s["name"], s["device"], s["after"]) for s in traces[0]["steps"]] == [
        ("l", "left", []),
        ("r", "right", []),
        ("sum", "join", [0, 1]),
    ]


def test_graph_with_dependencies_is_asynchronous_by_itself():
    executor = simulated.executor(simulated.BRANCHES)
    run(executor)
    assert executor.get_trace()["scheduler"] == "async"


@pytest.mark.parametrize("scheduler", ["sync", "async"])
def test_writer_of_a_storage_waits_for_its_readers(scheduler):
    """No explicit dependencies: c reuses the storage of a, which b reads, and d that of c."""
    steps = [("a", "left", [0]), ("b", "right", [1]), ("c", "left", [0]), ("d", "right", [3])]
    graph = json.loads(simulated.graph(steps))
    for node in graph["nodes"][1:]:
        del node["attrs"]["after"]
    graph["attrs"]["storage_id"][1] = [0, 1, 2, 1, 1]
    graph["heads"] = [[2, 0, 0], [4, 0, 0]]
    create = tvmrt.get_global_func("tvm.graph_executor.create")
    module = create(json.dumps(graph), simulated.library(steps), tvmrt.cpu(0))
    executor = simulated.GraphModule(module)
    executor.set_scheduler(scheduler)
    for value in (3.0, -5.0):
        assert run(executor, value) == value + 2
        assert executor.get_output(1).numpy()[0] == value + 2
    after = {step["name"]: step["after"] for step in executor.get_trace()["steps"]}
    assert after == {"a": [], "b": [0], "c": [0, 1], "d": [2]}


def test_device_of_functions_ends_its_regions():
    ended = []
    register_func("device.left.post_run", ended.append)
    try:
        module = simulated.load_regions("left", {"first": 1, "second": 2})
        assert ended == []
        del module
        assert ended == ["first", "second"]
    finally:
        tvmrt.runtime.remove_global_func("device.left.post_run")


def test_trace_with_times_shows_the_overlap():
    both = threading.Barrier(2, timeout=120)  # both run at the same time
    simulated.add_device("left", 0.002, until=both.wait)
    simulated.add_device("right", 0.002, until=both.wait)
    executor = simulated.executor(simulated.BRANCHES)
    run(executor)
    left, right, last = executor.get_trace(times=True)["steps"]
    assert max(left["begin_us"], right["begin_us"]) < min(left["end_us"], right["end_us"])
    assert last["begin_us"] >= max(left["end_us"], right["end_us"])


def test_wait_gives_up_in_time_and_may_be_repeated():
    ended = threading.Event()
    simulated.add_device("left", 0, until=lambda: ended.wait(120))
    executor = simulated.executor(simulated.STAGES)
    executor.set_input("x", np.zeros(simulated.SHAPE, np.float32))
    executor.run_async()
    assert not executor.wait(timeout_ms=10)
    with pytest.raises(RuntimeError, match="a run is in progress"):
        executor.get_output(0)
    ended.set()
    assert executor.wait()
    assert executor.get_output(0).numpy()[0] == 3


def test_cancelled_run_raises():
    cancelled = threading.Event()  # the run is not finished, however late this thread continues
    simulated.add_device("left", 0, until=lambda: cancelled.wait(120))
    executor = simulated.executor(simulated.STAGES)
    executor.run_async()
    executor.cancel()
    cancelled.set()
    with pytest.raises(tvmrt.TVMError, match="the run was cancelled"):
        executor.wait()
    assert run(executor) == 4


def test_exception_of_a_python_device_reaches_the_caller():
    def fail(_symbol, *_tensors):
        raise ValueError("the belt is off")

    register_func("device.right.run", fail, override=True)
    executor = simulated.executor(simulated.STAGES)
    for _ in range(2):
        with pytest.raises(
            tvmrt.TVMError, match=r"device 'right': run of region 'two' failed: .*belt is off"
        ):
            executor.run()


def test_unknown_scheduler_is_refused():
    with pytest.raises(ValueError, match="no scheduler 'tomorrow'"):
        simulated.executor(simulated.STAGES).set_scheduler("tomorrow")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_child_starts_new_threads():
    """In a separate process, since fork warns about existing threads."""
    code = """
import os, sys
sys.path.insert(0, {folder!r})
import numpy as np, simulated

devices = [("left", 0.001), ("right", 0.001), ("join", 0)]
for name, seconds in devices:
    simulated.add_device(name, seconds)
executor = simulated.executor(simulated.BRANCHES)
executor.set_input("x", np.ones(simulated.SHAPE, np.float32))
for _ in range(2):
    executor.run()
    assert executor.get_output(0).numpy()[0] == 5
    child = os.fork()
    if child == 0:
        executor.run()
        os._exit(int(executor.get_output(0).numpy()[0] != 5))
    assert os.waitpid(child, 0)[1] == 0
"""
    code = code.format(folder=str(Path(simulated.__file__).parent))
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
