"""One loaded region serves executors on several threads at once, with a context per run."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from unary import at_once, built, chain, executor_of

import tvmrt

RUNS = 8
SLEEP_MS = 40  # of a run whose result is in the context's memory


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contexts")
    tvmrt.load_device_plugin(str(built(folder, "slow", f"SLEEP_MS={SLEEP_MS}")))


def run_all(networks, inputs, wrong):
    def work(network, x):
        for _ in range(RUNS):
            network.run(x=x)
            if not np.array_equal(network.get_output(0).numpy(), np.maximum(-x, 0)):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(networks, inputs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_threads_do_not_wait_for_each_other(plugin, tmp_path, monkeypatch, kind):
    log = tmp_path / "log"
    library = tvmrt.compile(chain("Neg", "Relu"), devices=["slow"], executor=kind)
    library.export_library(tmp_path / "n.so")
    monkeypatch.setenv("UNARY_LOG", str(log))
    loaded = tvmrt.runtime.load_module(tmp_path / "n.so")
    networks = [executor_of(loaded, kind) for _ in range(4)]
    inputs = [np.random.default_rng(i).normal(size=(2, 3)).astype(np.float32) for i in range(4)]
    wrong = []
    run_all(networks, inputs, wrong)
    assert not wrong
    assert 2 <= at_once(log) <= 4
    assert 2 <= log.read_text().split().count("pre_run") <= 4
    del networks, loaded
    lines = log.read_text().split()
    assert lines.count("pre_run") == lines.count("post_run") == lines.count("release_graph")
