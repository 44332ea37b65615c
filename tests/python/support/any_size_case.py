"""Networks with dynamic sizes: compiled, loaded, run and compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from device_here import have
from dynamic_networks import CASES

import tvmrt
from tvmrt.runtime.executor import AotModule, GraphModule

EXECUTORS = {"graph": GraphModule, "aot": AotModule}


def loaded(library, folder, executor):
    path = folder / "net.so"
    library.export_library(str(path))
    module = tvmrt.runtime.load_module(str(path))
    return EXECUTORS[executor](module["default"](tvmrt.cpu(0)))


def results(network, inputs):
    for name, value in inputs.items():
        network.set_input(name, value)
    network.run()
    return [network.get_output(i).numpy() for i in range(network.get_num_outputs())]


def assert_close(found, expected):
    assert [y.shape for y in found] == [y.shape for y in expected]
    for mine, theirs in zip(found, expected):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def check(network, model, case, sizes):
    runtime = pytest.importorskip("onnxruntime")
    session, rng = runtime.InferenceSession(model.SerializeToString()), np.random.default_rng(6)
    for chosen in sizes:
        inputs = case.inputs(rng, chosen)
        expected = session.run(None, inputs)
        for mine, theirs in zip(results(network, inputs), expected):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def check_on_device(device, name, executor, folder):
    """Check a case with regions on a device, which is prepared again for each size."""
    have(device)
    case = CASES[name]
    library = tvmrt.compile(case.make(), dims=case.dims, devices=[device], executor=executor)
    assert sum(row.device == device for row in library.summary.nodes) >= 5
    network = loaded(library, folder, executor)
    check(network, case.make(), case, case.sizes(np.random.default_rng(8), 4))


def check_left_to_the_cpu(device, reason):
    """Check that a device with fixed sizes leaves dynamic extents to the CPU, with a reason."""
    for case in (CASES["convolutions"], CASES["causal"]):
        library = tvmrt.compile(case.make(), dims=case.dims, devices=[device], target="host")
        away = [row for row in library.summary.nodes if row.device != "cpu"]
        assert not [row for row in away if "Conv" in row.op_type]
        assert any(reason in row.reason for row in library.summary.nodes)
