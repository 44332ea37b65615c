"""Environment variables of the runtime's threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

# Eight launches of a task that records its thread, its CPU affinity and the number of tasks.
PROGRAM = """
import ctypes, json, os, threading, tvmrt, tvmrt.runtime

class Group(ctypes.Structure):
    _fields_ = [("sync", ctypes.c_void_p), ("num_task", ctypes.c_int32)]

rows = []
lib = ctypes.CDLL(tvmrt.libinfo.find_lib_path()[0])

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(Group), ctypes.c_void_p)
def task(number, group, data):
    caller = threading.get_native_id() == os.getpid()
    rows.append([number, group[0].num_task, caller, len(os.sched_getaffinity(0))])
    return 0

for _ in range(8):
    assert lib.TVMBackendParallelLaunch(task, None, 0) == 0
print(json.dumps(rows))
"""


def launches(**variables: str) -> list[list]:
    """Return rows of (task, number of tasks, whether it ran on the caller, CPU affinity)."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TVM_", "OMP_"))}
    environment["TVM_THREAD_POOL_TRUCE"] = "0"  # launches use all threads on a busy machine, too
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**environment, **variables}, capture_output=True,
        text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("variable", ["TVM_NUM_THREADS", "OMP_NUM_THREADS"])
def test_number_of_threads(variable, count):
    rows = launches(**{variable: str(count)})
    assert sorted(row[0] for row in rows) == sorted(list(range(count)) * 8)
    assert {row[1] for row in rows} == {count}


def test_the_caller_works():
    rows = launches(TVM_NUM_THREADS="2")
    assert all(caller for number, _, caller, _ in rows if number == 0)


def test_the_caller_only_waits():
    rows = launches(TVM_NUM_THREADS="2", TVM_EXCLUDE_WORKER0="0")
    assert len(rows) == 16 and {row[1] for row in rows} == {2}
    assert not any(caller for _, _, caller, _ in rows)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
@pytest.mark.parametrize("value, bound", [("1", True), ("0", False), (None, False)])
def test_workers_are_pinned_to_separate_cpus(value, bound):
    variables = {} if value is None else {"TVM_BIND_THREADS": value}
    rows = launches(TVM_NUM_THREADS="2", TVM_EXCLUDE_WORKER0="0", **variables)
    assert {row[3] == 1 for row in rows} == {bound}
