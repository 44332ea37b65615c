"""AOT networks with schedule async start regions and wait where results are needed; runs of several
threads overlap. A sleeping device counts its concurrent runs."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest
from unary import HEADER, at_once, built, executor, executor_of

import tvmrt

X = np.array([-1, 2, -3, 4], np.float32)
BRANCHES = """g (float[4] x) => (float[4] y)
{ a = Neg(x) b = Relu(a) c = Abs(x) d = Neg(c) y = Mul(b, d) }"""
GOLDEN = np.maximum(-X, 0) * -np.abs(X)


def library_of(folder, name, text=BRANCHES, schedule="async", **options):
    model = onnx.parser.parse_model(HEADER + text)
    library = tvmrt.compile(model, devices=[name], executor="aot", schedule=schedule, **options)
    library.export_library(folder / "n.so")
    return library, tvmrt.runtime.load_module(folder / "n.so")


def sleeper(folder, name, *macros, queues=4):
    tvmrt.load_device_plugin(str(built(folder, name, f"QUEUES={queues}", *macros)))
    return name


def test_branches_overlap_in_a_network_compiled_ahead(tmp_path, monkeypatch):
    for queues in (1, 2):
        log = tmp_path / f"log{queues}"
        monkeypatch.setenv("UNARY_LOG", str(log))
        name = sleeper(tmp_path, f"deferred{queues}", "SLEEP_MS=40", queues=queues)
        compiled, library = library_of(tmp_path, name)
        assert len(compiled.summary.regions) == 2
        net = executor_of(library, "aot")
        net.run(x=X)
        np.testing.assert_array_equal(net.get_output(0).numpy(), GOLDEN)
        for _ in range(5):
            net.run()
        assert at_once(log) == queues


def test_dependent_steps_wait_for_a_region(tmp_path):
    """A chain over device and CPU, whose regions reuse no memory that is still written."""
    text = """g (float[4] x) => (float[4] y, float[4] z)
    { a = Neg(x) b = Exp(a) c = Neg(b) d = Exp(c) z = Abs(d) e = Add(d, b) y = Neg(e) }"""
    name = sleeper(tmp_path, "chained", "SLEEP_MS=5")
    _, library = library_of(tmp_path, name, text)
    net = executor_of(library, "aot")
    for x in (X, X / 2, X * 0):
        net.set_input("x", x)
        net.run()
        b = np.exp(-x)
        d = np.exp(-b)
        np.testing.assert_allclose(net.get_output(0).numpy(), -(d + b), rtol=1e-5)
        np.testing.assert_allclose(net.get_output(1).numpy(), d, rtol=1e-5)


def test_failure_is_reported_after_all_regions_ended(tmp_path, monkeypatch):
    name = sleeper(tmp_path, "failing", "SLEEP_MS=5")
    _, library = library_of(tmp_path, name)
    net = executor_of(library, "aot")
    net.set_input("x", X)
    monkeypatch.setenv("UNARY_RUN", "1")
    with pytest.raises(tvmrt.TVMError, match="configured to fail"):
        net.run()
    monkeypatch.delenv("UNARY_RUN")
    net.run()
    np.testing.assert_array_equal(net.get_output(0).numpy(), GOLDEN)


def test_a_device_without_async_run_computes_at_once(tmp_path):
    tvmrt.load_device_plugin(str(built(tmp_path, "blocking")))
    _, library = library_of(tmp_path, "blocking")
    net = executor_of(library, "aot")
    net.run(x=X)
    np.testing.assert_array_equal(net.get_output(0).numpy(), GOLDEN)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_four_threads_over_one_library(tmp_path, monkeypatch, kind):
    log = tmp_path / "log"
    monkeypatch.setenv("UNARY_LOG", str(log))
    tvmrt.load_device_plugin(str(built(tmp_path, f"ten_{kind}", "SLEEP_MS=10")))
    model = onnx.parser.parse_model(HEADER + "g (float[4] x) => (float[4] y) { y = Neg(x) }")
    library = tvmrt.compile(model, devices=[f"ten_{kind}"], executor=kind)
    library.export_library(tmp_path / "n.so")
    nets = [executor(tmp_path / "n.so", kind) for _ in range(4)]
    for net in nets:
        net.set_input("x", X)
        net.run()
    runs = 40

    def work(net):
        for _ in range(runs):
            net.run()

    threads = [threading.Thread(target=work, args=(net,)) for net in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert at_once(log) == 4
    for net in nets:
        np.testing.assert_array_equal(net.get_output(0).numpy(), -X)
