"""Test that tensors in OpenCL memory are used in place: the bytes copied by runs are counted."""

from __future__ import annotations

import numpy as np
import pytest
from unary import chain, executor_of

import tvmrt
from tvmrt.error import TVMError

X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 12)
GOLDEN = np.exp(np.maximum(-X, 0))


@pytest.fixture(scope="module", autouse=True)
def device():
    try:
        found = tvmrt.get_global_func("tvmrt.device.find")("opencl")
    except (TVMError, OSError) as problem:
        pytest.skip(f"the device opencl cannot run here: {problem}")
    if not found:
        pytest.skip("the device opencl is not built: OpenCL's headers or loader are missing")


@pytest.fixture(scope="module", params=["graph", "aot"])
def network(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("in_place")
    model = chain("Neg", "Relu", "Exp", extents="2,12")
    compiled = tvmrt.compile(model, devices=["opencl"], executor=request.param)
    compiled.export_library(folder / "n.so")
    return compiled, tvmrt.runtime.load_module(folder / "n.so"), request.param


def on_device(values: np.ndarray) -> tvmrt.nd.NDArray:
    return tvmrt.nd.array(values, device=tvmrt.opencl(0))


def moved() -> np.ndarray:
    """Return the bytes copied by runs: to the device, from it, within it."""
    return np.array(tvmrt.get_global_func("device.opencl.moved")().split(), np.int64)


def run_and_count(net) -> list[int]:
    before = moved()
    net.run()
    return list(moved() - before)


def test_network_copies_only_inputs_and_outputs(network):
    """The whole network is on the device: only its input and its output are copied."""
    compiled, library, kind = network
    net = executor_of(library, kind)
    net.set_input("x", X)
    assert run_and_count(net) == [X.nbytes, X.nbytes, 0]
    np.testing.assert_allclose(net.get_output(0).numpy(), GOLDEN, rtol=1e-5)
    crossing = [row.nbytes for row in compiled.summary.borders if not row.stays_in]
    assert crossing == [X.nbytes, X.nbytes]


def test_tensors_on_the_device_are_not_copied(network):
    """Pass tensors from one network to the next, and to host tensors and back."""
    _, library, kind = network
    first, second = executor_of(library, kind), executor_of(library, kind)
    between, y = on_device(np.zeros_like(X)), on_device(np.zeros_like(X))
    first.set_input_zero_copy("x", on_device(X))
    first.set_output_zero_copy(0, between)
    second.set_input_zero_copy("x", between)
    second.set_output_zero_copy(0, y)
    for _ in range(2):
        assert run_and_count(first) == [0, 0, 0]
        assert run_and_count(second) == [0, 0, 0]
        np.testing.assert_allclose(between.numpy(), GOLDEN, rtol=1e-5)
        np.testing.assert_allclose(y.numpy(), np.exp(np.maximum(-GOLDEN, 0)), rtol=1e-5)
    first.set_input_zero_copy("x", tvmrt.nd.array(-X))
    assert run_and_count(first) == [X.nbytes, 0, 0]
    np.testing.assert_allclose(between.numpy(), np.exp(np.maximum(X, 0)), rtol=1e-5)
    first.set_input_zero_copy("x", on_device(X))
    assert run_and_count(first) == [0, 0, 0]
    np.testing.assert_allclose(between.numpy(), GOLDEN, rtol=1e-5)


def test_an_output_in_the_memory_of_an_input_is_right(network):
    """Kernels may read elements that others have overwritten: this output is copied at the end."""
    _, library, kind = network
    net = executor_of(library, kind)
    both = on_device(X)
    net.set_input_zero_copy("x", both)
    net.set_output_zero_copy(0, both)
    assert run_and_count(net) == [0, 0, X.nbytes]
    np.testing.assert_allclose(both.numpy(), GOLDEN, rtol=1e-5)
