"""Python devices with asynchronous runs: they overlap, fail and end as for C devices."""

from __future__ import annotations

import ctypes
import gc
import threading

import numpy as np
import onnx
import pytest
from unary import HEADER, executor_of

import tvmrt
from tvmrt import devices

SLEEP = 0.1
X = np.array([-1, 2, -3, 4], np.float32)
TEXT = """g (float[4] x) => (float[4] y)
{ a = Neg(x) b = Relu(a) c = Abs(x) d = Neg(c) y = Mul(b, d) }"""
GOLDEN = np.maximum(-X, 0) * -np.abs(X)


class Later(devices.PythonDevice):
    """Device that negates with a delay."""

    name = "deferring"
    ways = ()  # how regions were run
    meeting = None  # barrier that runs wait for before they end

    def supports(self, node):
        return None if node.op == "neg" else f"deferring takes no {node.op}"

    def enter_runtime(self):
        names = {"pre_run": self.pre_run, "run": None, "start": None, "num_queues": lambda: 4}
        for slot, function in names.items():
            tvmrt.register_func(
                f"device.deferring.{slot}", function or (lambda *_: None), override=True
            )

    def pre_run(self, symbol, text, constants, options):
        return [self.run, self.start]

    def run(self, symbol, x, y):
        self.ways += ("run",)
        y.copyfrom(-x.numpy())

    def start(self, symbol, x, y):
        self.ways += ("start",)
        results, memory = -x.numpy(), y.data_address  # owned by the run until its end

        def write():
            if self.meeting is not None:
                self.meeting.wait()
            ctypes.memmove(memory, results.tobytes(), results.nbytes)

        timer = threading.Timer(SLEEP, write)
        timer.start()

        def wait(poll_only):
            if poll_only:
                return timer.is_alive()
            timer.join()
            return 0

        return wait


@pytest.fixture
def later():
    device = Later()
    devices.register(device)
    yield device
    gc.collect()  # libraries that use the device
    devices.unregister("deferring")
    tvmrt.get_global_func("tvmrt.device.unregister")("deferring")
    for slot in ("pre_run", "run", "start", "num_queues"):
        tvmrt.runtime.packed_func.remove_global_func(f"device.deferring.{slot}")


def network(tmp_path, **options):
    model = onnx.parser.parse_model(HEADER + TEXT)
    options = {"executor": "aot", "schedule": "async", **options}
    library = tvmrt.compile(model, devices=["deferring"], **options)
    library.export_library(tmp_path / "n.so")
    assert len(library.summary.regions) == 2
    return tvmrt.runtime.load_module(tmp_path / "n.so")


def test_started_runs_overlap(later, tmp_path):
    later.meeting = threading.Barrier(2, timeout=120)  # neither ends before the other one began
    library = network(tmp_path)
    net = executor_of(library, "aot")
    net.run(x=X)
    np.testing.assert_array_equal(net.get_output(0).numpy(), GOLDEN)
    assert later.ways == ("start", "start")
    assert not later.meeting.broken


def test_immediate_wait_runs_on_the_calling_thread(later, tmp_path):
    library = network(tmp_path, schedule="sync")
    net = executor_of(library, "aot")
    net.run(x=X)
    np.testing.assert_array_equal(net.get_output(0).numpy(), GOLDEN)
    assert later.ways == ("run", "run")


def test_wait_with_timeout(later, tmp_path):
    library = network(tmp_path, schedule="sync", device_options={"deferring": {"timeout_ms": 10}})
    net = executor_of(library, "aot")
    with pytest.raises(tvmrt.TVMError, match=r"device 'deferring'.*did not end in time"):
        net.run(x=X)
    assert not any(isinstance(thread, threading.Timer) for thread in threading.enumerate())


def test_failure_of_an_async_run_is_reported(later, tmp_path, monkeypatch):
    def fail(poll_only):
        raise ValueError("the line is cut")

    ends = [lambda x, y: fail]
    at_once = lambda x, y: y.copyfrom(-x.numpy()) and None  # noqa: E731
    monkeypatch.setattr(later, "start", lambda _, x, y: (ends.pop() if ends else at_once)(x, y))
    net = executor_of(network(tmp_path), "aot")
    with pytest.raises(tvmrt.TVMError, match=r"device 'deferring': async_wait.*the line is cut"):
        net.run(x=X)
    net.run()
    np.testing.assert_array_equal(net.get_output(0).numpy(), GOLDEN)


def test_number_of_queues_must_be_an_integer(later):
    tvmrt.register_func("device.deferring.num_queues", lambda: 0, override=True)
    gave = r"device\.deferring\.num_queues did not return an integer of at least 1"
    with pytest.raises(ValueError, match=gave):
        tvmrt.get_global_func("tvmrt.device.find")("deferring")
    tvmrt.register_func("device.deferring.num_queues", lambda: 2, override=True)
    assert tvmrt.get_global_func("tvmrt.device.find")("deferring")
