"""A device with compiler and runtime parts in Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx_graph
import pytest
from onnx import helper
from sample_devices import run_library

import tvmrt
from tvmrt import devices
from tvmrt.error import UnsupportedError

MAIN = Path(__file__).parents[3] / "examples" / "c_program" / "main.c"
FEEDS = {name: np.arange(6, dtype=np.float32).reshape(2, 3) + i for i, name in enumerate("ab")}


class NumpyDevice(devices.PythonDevice):
    """Device for sums and differences; ``result`` lets a test change its results."""

    name = "numpy_sums"
    result = staticmethod(lambda array: array)

    def supports(self, node):
        return None if node.op in ("add", "sub") else f"numpy_sums takes no {node.op}"

    def compute(self, node, inputs):
        return self.result({"add": np.add, "sub": np.subtract}[node.op](*inputs))


@pytest.fixture
def device():
    instance = NumpyDevice()
    devices.register(instance)
    yield instance
    devices.unregister(instance.name)


def network(constant):
    nodes = [
        helper.make_node("Add", ["a", "b"], ["t"], name="first"),
        helper.make_node("Sub", ["t", "weights"], ["out"], name="second"),
    ]
    return onnx_graph.model(nodes, FEEDS, ["out", "t"], {"weights": constant})


def compiled(path, constant, executor="graph", **options):
    tvmrt.compile(network(constant), executor=executor, devices=["numpy_sums"], **options).export(
        path
    )
    return path


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_compiler_and_runtime_parts_compute_a_region_with_constants(tmp_path, device, executor):
    constant = np.array([1, 2, 4], np.float32)
    path = compiled(tmp_path / "net.so", constant, executor)
    out, t = run_library(path, executor, FEEDS)
    np.testing.assert_array_equal(t, FEEDS["a"] + FEEDS["b"])
    np.testing.assert_array_equal(out, t - constant)


def test_equal_region_names_of_two_libraries_do_not_clash(tmp_path, device):
    paths = [compiled(tmp_path / f"{c}.so", np.full(3, c, np.float32)) for c in (1, 5)]
    modules = [tvmrt.runtime.load_module(str(path)) for path in paths]
    results = []
    for module in modules:
        instance = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
        instance.run(**FEEDS)
        results.append(instance.get_output(0).numpy())
    np.testing.assert_array_equal(results[0] - results[1], np.full((2, 3), 4, np.float32))


def test_options_of_the_user_are_in_the_module(device):
    chosen = {"numpy_sums": {"lanes": 4}, "another": {"x": 1}}
    model = network(np.zeros(3, np.float32))
    library = tvmrt.compile(model, devices=["numpy_sums"], device_options=chosen)
    (module,) = library.sources.modules
    size = int.from_bytes(module.payload[:8], "little")
    assert json.loads(module.payload[8 : 8 + size])["options"] == {"lanes": 4}


def test_wrong_shape_of_a_result_names_node_and_shapes(tmp_path, device):
    path = compiled(tmp_path / "net.so", np.zeros(3, np.float32))
    device.result = lambda array: array[0]
    with pytest.raises(
        tvmrt.TVMError, match=r"compute of first \(add\) returned shape \[3\], expected \[2, 3"
    ):
        run_library(path, "graph", FEEDS)


def test_compute_error_is_raised_by_the_network(tmp_path, device):
    path = compiled(tmp_path / "net.so", np.zeros(3, np.float32))

    def fail(array):
        raise KeyError("lost")

    device.result = fail
    with pytest.raises(tvmrt.TVMError, match=r"numpy_sums.*run of region.*lost"):
        run_library(path, "graph", FEEDS)


def test_fallback_runs_the_cpu_where_compute_fails(tmp_path, device):
    path = compiled(tmp_path / "net.so", np.ones(3, np.float32), device_fallback=True)

    def fail(array):
        raise RuntimeError("lost")

    device.result = fail
    out, t = run_library(path, "graph", FEEDS)
    np.testing.assert_array_equal(out, t - 1)


def test_boards_have_no_python(device):
    with pytest.raises(UnsupportedError, match="runs in Python, which a board has not"):
        tvmrt.compile(
            network(np.zeros(3, np.float32)),
            target="cortex-m4",
            devices=["numpy_sums"],
            require_device=["numpy_sums"],
        )


@pytest.mark.parametrize(
    ("name", "problem"),
    [("", "is not a letter"), ("9lives", "is not a letter"), ("numpy_sums", "registered already")],
)
def test_device_names_are_unique_identifiers(device, name, problem):
    other = NumpyDevice()
    other.name = name
    with pytest.raises(ValueError, match=problem):
        devices.register(other)


def test_only_devices_can_be_registered():
    with pytest.raises(TypeError, match=r"subclass"):
        devices.register(object())
    with pytest.raises(KeyError, match="device gone is not registered"):
        devices.unregister("gone")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return the example of a C program."""
    path = tmp_path_factory.mktemp("program") / "run_network"
    words = [sys.executable, "-m", "tvmrt", "config", "--cflags", "--libs"]
    flags = subprocess.check_output(words, text=True).split()
    subprocess.run(["cc", MAIN, *flags, "-o", path], check=True)
    return path


@pytest.mark.parametrize("fallback", [False, True])
def test_a_program_without_python(tmp_path, device, program, fallback):
    path = compiled(tmp_path / "net.so", np.full(3, 7, np.float32), device_fallback=fallback)
    done = subprocess.run([program, path], capture_output=True, text=True, check=False)
    if fallback:
        assert done.returncode == 0
        assert done.stdout.count("-7 -7 -7 -7 -7 -7") == 1  # for inputs of zeros
        assert done.stderr.count("the CPU computes region") == 1
    else:
        assert done.returncode != 0
        assert "the library needs device 'numpy_sums'" in done.stderr
