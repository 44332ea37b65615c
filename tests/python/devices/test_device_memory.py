"""Tensors that only one device uses stay in its memory, and networks accept tensors there. The
memory of the device of far_device.c crashes the process on any other access."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from unary import HEADER, built, chain, executor_of

import tvmrt

X = np.array([[-1.5, 2, -3], [4, 0, -6]], np.float32)
KINDS = pytest.mark.parametrize("kind", ["graph", "aot"])


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Return the device's log of its runs."""
    monkeypatch.setenv("FAR_LOG", str(tmp_path / "log"))

    def read():
        lines = (tmp_path / "log").read_text().splitlines()
        (tmp_path / "log").unlink()
        return lines

    return read


def library_of(folder, model, device, kind, **options):
    compiled = tvmrt.compile(model, devices=[device], executor=kind, **options)
    compiled.export_library(folder / "n.so")
    return compiled, tvmrt.runtime.load_module(folder / "n.so")


@KINDS
def test_tensors_between_regions_stay_in_device_memory(tmp_path, far, log, kind):
    compiled, library = library_of(tmp_path, chain("Neg", "Relu", "Abs", "Neg"), far, kind)
    net = executor_of(library, kind)
    net.set_input("x", X)
    net.run()
    np.testing.assert_array_equal(net.get_output(0).numpy(), -np.maximum(-X, 0))
    assert log() == ["neg host far", "relu far far", "abs far far", "neg far host"]
    borders = compiled.summary.borders
    assert sum(row.nbytes for row in borders if not row.stays_in) == 2 * X.nbytes
    assert [row.nbytes for row in borders if row.stays_in == "far"] == [X.nbytes] * 3
    (pool,) = [pool for pool in compiled.summary.pools if pool.device]
    assert (pool.device, pool.used_bytes) == (
        "far",
        512,
    )  # two live at a time, each aligned to 256 bytes
    assert compiled.summary.arena_bytes == 0
    main, *regions = library.metadata().functions
    places = [[str(p.device) for p in f.params] for f in (main, *regions)]
    host, device = str(tvmrt.cpu(0)), str(tvmrt.ext_dev(0))
    assert places == [[host] * 2, [host, device], *[[device] * 2] * 2, [device, host]]


@KINDS
def test_tensors_read_by_the_cpu_are_in_host_memory(tmp_path, far, log, kind):
    text = "g (float[2,3] x) => (float[2,3] y) { a = Neg(x) b = Abs(a) c = Exp(a) y = Add(b, c) }"
    _, library = library_of(tmp_path, onnx.parser.parse_model(HEADER + text), far, kind)
    net = executor_of(library, kind)
    net.set_input("x", X)
    net.run()
    np.testing.assert_allclose(net.get_output(0).numpy(), np.abs(X) + np.exp(-X), rtol=1e-6)
    assert log() == ["neg host host", "abs host host"]


def test_memory_of_a_device_is_allocated(far):
    assert tvmrt.ext_dev(0).exist
    assert not tvmrt.vulkan(0).exist  # no plug-in is loaded for it


@KINDS
def test_inputs_and_outputs_may_be_in_device_memory(tmp_path, far, log, kind):
    _, library = library_of(tmp_path, chain("Neg", "Relu"), far, kind)
    net = executor_of(library, kind)
    x = tvmrt.nd.array(X, device=tvmrt.ext_dev(0))
    y = tvmrt.nd.empty(X.shape, device=tvmrt.ext_dev(0))
    net.set_input_zero_copy("x", x)
    net.run()
    np.testing.assert_array_equal(net.get_output(0).numpy(), np.maximum(-X, 0))
    assert log() == ["neg far far", "relu far host"]
    net.set_output_zero_copy(0, y)
    net.run()
    np.testing.assert_array_equal(y.numpy(), np.maximum(-X, 0))
    assert log() == ["neg far far", "relu far far"]
    # and back to host memory, with and without a copy
    net.set_input("x", -X)
    net.run()
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0))
    net.set_input_zero_copy("x", tvmrt.nd.array(X))
    net.run()
    np.testing.assert_array_equal(y.numpy(), np.maximum(-X, 0))
    assert log() == ["neg host far", "relu far far"] * 2


@KINDS
def test_an_input_that_the_cpu_reads_stays_on_the_host(tmp_path, far, kind):
    text = "g (float[2,3] x) => (float[2,3] y) { a = Neg(x) y = Add(a, x) }"
    _, library = library_of(tmp_path, onnx.parser.parse_model(HEADER + text), far, kind)
    net = executor_of(library, kind)
    with pytest.raises(ValueError, match="input 'x' is on device 1:0, the tensor on 12:0"):
        net.set_input_zero_copy("x", tvmrt.nd.array(X, device=tvmrt.ext_dev(0)))


@KINDS
def test_fallback_uses_host_memory(tmp_path, far, log, kind):
    model = chain("Neg", "Relu")
    _, library = library_of(tmp_path, model, far, kind, device_fallback=True)
    net = executor_of(library, kind)
    net.set_input("x", X)
    net.run()
    np.testing.assert_array_equal(net.get_output(0).numpy(), np.maximum(-X, 0))
    assert log() == ["neg host host", "relu host host"]


@KINDS
def test_full_device_memory_is_reported(tmp_path, far, monkeypatch, kind):
    _, library = library_of(tmp_path, chain("Neg", "Relu"), far, kind)
    monkeypatch.setenv("FAR_FULL", "1")
    with pytest.raises(tvmrt.TVMError, match="the memory of far is full"):
        executor_of(library, kind)


def test_dynamic_sizes_use_memory_of_the_maximum(tmp_path, far, log):
    model = chain("Neg", "Relu", "Neg", extents="n,3")
    _, library = library_of(tmp_path, model, far, "aot", dims={"n": (1, 8)})
    net = executor_of(library, "aot")
    for rows in (3, 8, 1):
        x = np.linspace(-1, 1, rows * 3, dtype=np.float32).reshape(rows, 3)
        net.set_input("x", x)
        net.run()
        np.testing.assert_array_equal(net.get_output(0).numpy(), -np.maximum(-x, 0))
    assert log() == ["neg host far", "relu far far", "neg far host"] * 3


def test_asynchronous_steps_do_not_share_memory(tmp_path, far, log):
    _, library = library_of(tmp_path, chain("Neg", "Relu", "Abs"), far, "graph", schedule="async")
    net = executor_of(library, "graph")
    net.set_scheduler("async")
    net.run(x=X)
    np.testing.assert_array_equal(net.get_output(0).numpy(), np.maximum(-X, 0))
    assert log() == ["neg host far", "relu far far", "abs far host"]


def test_region_refuses_unreachable_memory(tmp_path, far):
    tvmrt.load_device_plugin(str(built(tmp_path, "near")))
    _, library = library_of(tmp_path, chain("Neg"), "near", "graph")
    region = library.get_function("tvmgen_default_near_main_0", query_imports=True)
    y = tvmrt.nd.empty(X.shape)
    with pytest.raises(ValueError, match="'x' lies in memory that the device does not reach"):
        region(tvmrt.nd.array(X, device=tvmrt.ext_dev(0)), y)
