"""``threads=`` of ``tvmrt.load``: the threads of each operator."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_graph import model as make_model

import tvmrt

# Prints for each network how many other threads than the caller's have computed something.
PROGRAM = """
import json, os, sys, numpy as np, tvmrt

def times():
    return {
        t: int(open(f"/proc/self/task/{t}/schedstat").read().split()[0])
        for t in os.listdir("/proc/self/task")
        if int(t) != os.getpid()
    }

x = np.ones((64, 1024), np.float32)
rows = []
for options in json.loads(sys.argv[2]):
    network = tvmrt.load(sys.argv[1], **options)
    network(x)
    before = times()
    for _ in range(20):
        network(x)
    rows.append(sum(after - before.get(t, 0) > 1_000_000 for t, after in times().items()))
print(json.dumps(rows))
"""


def product() -> object:
    rng = np.random.default_rng(1)
    weights = {"w": rng.standard_normal((1024, 1024)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    x = np.zeros((64, 1024), np.float32)
    return make_model(nodes, {"x": x}, ["y"], weights)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("product") / "product.onnx"
    path.write_bytes(product().SerializeToString())
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="Linux counts the time of each thread")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_networks_of_a_process_have_limits_of_their_own(model):
    environment = {
        **os.environ, "TVM_NUM_THREADS": "2", "TVM_THREAD_POOL_TRUCE": "0",
        "TVM_EXCLUDE_WORKER0": "0",  # workers get all tasks, also on a busy machine
    }  # fmt: skip
    options = [{}, {"threads": 1}, {"threads": 2}, {}, {"threads": 2, "real_time": True}]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model, json.dumps(options)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == [2, 0, 2, 2, 0]


def test_results_and_pickles_do_not_depend_on_the_limit(model):
    x = np.random.default_rng(2).standard_normal((64, 1024), np.float32)
    network = tvmrt.load(model, threads=1)
    copy = pickle.loads(pickle.dumps(network))
    for other in (copy, tvmrt.load(model), network.with_threads(3)):
        assert np.array_equal(network(x), other(x))


@pytest.mark.parametrize(
    ("threads", "error", "words"),
    [
        (0, ValueError, "threads: give 1 or more, not 0"),
        (-2, ValueError, "threads: give 1 or more, not -2"),
        ("2", TypeError, "threads: give a number of threads, not '2'"),
        (True, TypeError, "threads: give a number of threads, not True"),
    ],
)
def test_other_values_are_errors(model, threads, error, words):
    with pytest.raises(error) as caught:
        tvmrt.load(model, threads=threads)
    assert str(caught.value) == words


def test_executors_refuse_negative_limits(model):
    executor = tvmrt.load(model).new_executor()
    executor.set_num_threads(0)
    with pytest.raises(ValueError, match="set_num_threads: -1 threads; give 1 or more"):
        executor.set_num_threads(-1)
