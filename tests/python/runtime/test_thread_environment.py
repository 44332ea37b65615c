"""Environment variables of the runtime's threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


# Another machine: its processors, the files that say which of them share a core, and those of the
# limits of a container. They lie in a folder, without directories.
MACHINE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t* set) {
  char* end = getenv("PROCESSORS");
  (void)pid;
  memset(set, 0, bytes);
  while (*end != 0) CPU_SET(strtol(end, &end, 10), set);
  return 0;
}

int open(const char* path, int flags, ...) {
  char other[4096];
  int cpu = -1;
  va_list more;
  va_start(more, flags);
  if (sscanf(path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", &cpu) == 1) {
    snprintf(other, sizeof(other), "%s/%d", getenv("MACHINE"), cpu);
    path = other;
  } else if (strncmp(path, "/sys/fs/cgroup/", 15) == 0) {
    snprintf(other, sizeof(other), "%s%s", getenv("MACHINE"), strrchr(path, '/'));
    path = other;
  }
  return (int)syscall(SYS_openat, AT_FDCWD, path, flags, va_arg(more, int));
}
int open64(const char*, int, ...) __attribute__((alias("open")));
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("machine")
    (folder / "machine.c").write_text(MACHINE)
    build = ["cc", "-shared", "-fPIC", "-o", folder / "machine.so", folder / "machine.c"]
    subprocess.run(build, check=True)
    return folder / "machine.so"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux describes processors by files")
@pytest.mark.parametrize(
    "siblings, processors, cores",
    [
        (["0", "1", "2"], "0 1 2", 3),
        (["0-1", "0-1", "2-3", "2-3"], "0 1 2 3", 2),
        (["0,3", "1,4", "2,5", "0,3", "1,4", "2,5"], "0 1 2 3 4", 3),
        (["0,2", "1,3", "0,2", "1,3"], "2 3", 2),
        (["0,2", "1,3", "0,2", "1,3"], "1 3", 1),
        (["0-1", "0-1", "2", "3"], "0 1 2 3", 3),  # performance cores and efficient ones
        (["", "nonsense", "99999", None], "0 1 2 3", 4),
    ],
)
def test_default_is_a_thread_per_core(machine, tmp_path, siblings, processors, cores):
    for cpu, text in enumerate(siblings):
        if text is not None:
            (tmp_path / str(cpu)).write_text(f"{text}\n")
    rows = launches(LD_PRELOAD=str(machine), PROCESSORS=processors, MACHINE=str(tmp_path))
    assert {row[1] for row in rows} == {cores}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux limits containers by files")
@pytest.mark.parametrize(
    "files, threads",
    [
        ({"cpu.max": "max 100000"}, 6),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "250000 100000"}, 3),
        ({"cpu.max": "5000 100000"}, 1),
        ({"cpu.max": "6400000 100000"}, 6),
        ({"cpu.max": "99999999999999999999 1"}, 6),
        ({"cpu.max": ""}, 6),
        ({"cpu.max": "200000"}, 6),
        ({"cpu.cfs_quota_us": "-1", "cpu.cfs_period_us": "100000"}, 6),
        ({"cpu.cfs_quota_us": "150000", "cpu.cfs_period_us": "50000"}, 3),
        ({"cpu.cfs_quota_us": "150000"}, 6),
    ],
)
def test_default_is_within_the_limit_of_a_container(machine, tmp_path, files, threads):
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
    rows = launches(LD_PRELOAD=str(machine), PROCESSORS="0 1 2 3 4 5", MACHINE=str(tmp_path))
    assert {row[1] for row in rows} == {threads}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux describes processors by files")
def test_default_is_a_thread_per_core_of_this_machine():
    """The numbers of cores and packages are independent of the files that the runtime reads."""
    cores = set()
    for cpu in os.sched_getaffinity(0):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        if not topology.is_dir():
            pytest.skip("the system does not describe its processors")
        cores.add(tuple((topology / n).read_text() for n in ("physical_package_id", "core_id")))
    assert {row[1] for row in launches()} == {len(cores)}
