"""Schedulers from Python: how much overlaps, what a trace says, how runs end early."""

from __future__ import annotations

import sys
import time
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


@pytest.mark.parametrize(
    ("network", "times"), [("two branches", 1.8), ("three-stage pipeline", 2.7)]
)
def test_devices_overlap(network, times):
    best = 0.0
    for _ in range(3):  # a busy machine may delay a thread
        sync, overlapped = bench_schedulers.measure(seconds=0.02, runs=18)[network]
        best = max(best, sync / overlapped)
        if best >= times:
            break
    assert best >= times


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


def test_trace_with_times_shows_the_overlap():
    simulated.add_device("left", 0.05)
    simulated.add_device("right", 0.05)
    executor = simulated.executor(simulated.BRANCHES)
    run(executor)
    left, right, last = executor.get_trace(times=True)["steps"]
    assert max(left["begin_us"], right["begin_us"]) < min(left["end_us"], right["end_us"])
    assert last["begin_us"] >= max(left["end_us"], right["end_us"])


def test_wait_gives_up_in_time_and_may_be_repeated():
    simulated.add_device("left", 0.2)
    executor = simulated.executor(simulated.STAGES)
    executor.set_input("x", np.zeros(simulated.SHAPE, np.float32))
    start = time.monotonic()
    executor.run_async()
    assert not executor.wait(timeout_ms=10)
    assert time.monotonic() - start < 0.15
    with pytest.raises(RuntimeError, match="a run is under way"):
        executor.get_output(0)
    assert executor.wait()
    assert executor.get_output(0).numpy()[0] == 3


def test_cancelled_run_raises():
    simulated.add_device("left", 0.05)
    executor = simulated.executor(simulated.STAGES)
    executor.run_async()
    executor.cancel()
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
