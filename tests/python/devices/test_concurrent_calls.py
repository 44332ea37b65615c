"""Two threads use one executor: the second call is refused, in both executors."""

from __future__ import annotations

import threading

import numpy as np
import onnx
import pytest

import tvmrt
from tvmrt import devices
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.runtime.executor import AotModule

X = np.array([1, 2, 3], np.float32)


class Patient(devices.PythonDevice):
    """Device that adds after the test releases it."""

    name = "patient"

    def __init__(self):
        self.begun, self.goes_on = threading.Event(), threading.Event()

    def supports(self, node):
        return None if node.op == "add" else "it adds alone"

    def compute(self, node, inputs):
        self.begun.set()
        assert self.goes_on.wait(300)
        return np.add(*inputs)


@pytest.fixture
def device():
    instance = Patient()
    devices.register(instance)
    yield instance
    devices.unregister(instance.name)


@pytest.mark.parametrize(("kind", "wrapper"), [("graph", GraphModule), ("aot", AotModule)])
def test_concurrent_second_call_is_refused(tmp_path, device, kind, wrapper):
    header = '<ir_version: 8, opset_import: ["" : 17]>'
    model = onnx.parser.parse_model(header + "g (float[3] x) => (float[3] y) { y = Add(x, x) }")
    tvmrt.compile(model, executor=kind, devices=["patient"]).export_library(tmp_path / "n.so")
    network = wrapper(tvmrt.runtime.load_module(tmp_path / "n.so")["default"](tvmrt.cpu(0)))
    network.set_input("x", X)
    thread = threading.Thread(target=network.run)
    thread.start()
    try:
        assert device.begun.wait(300)
        for call in (
            network.run,
            lambda: network.set_input("x", X + 1),
            lambda: network.set_input("x", [4, 5, 6]),
            lambda: network.set_input_zero_copy("x", tvmrt.nd.array(X)),
            lambda: network.get_output(0),
            lambda: network.get_input("x"),
            network.get_output_info,
            network.profile,
        ):
            with pytest.raises(RuntimeError, match="use one executor per thread"):
                call()
        assert network.get_num_outputs() == 1
    finally:
        device.goes_on.set()
        thread.join()
    np.testing.assert_array_equal(network.get_output(0).numpy(), X + X)
