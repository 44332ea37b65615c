"""Regions in reduced precision: chosen, measured, shrunk, refused."""

from __future__ import annotations

import numpy as np
import onnx_graph
import pytest
from onnx import helper
from sample_devices import run_library

import tvmrt
from tvmrt import devices
from tvmrt.error import UnsupportedError

RNG = np.random.default_rng(8)
SAMPLES = [{"x": RNG.normal(size=(4, 6)).astype(np.float32)} for _ in range(3)]


def network(spread=1.0):
    """Return two matmuls with an exponential between them; ``spread`` makes float16 inaccurate."""
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["a"], name="scaled"),
        helper.make_node("Add", ["a", "shift"], ["b"], name="shifted"),
        helper.make_node("Sub", ["b", "shift"], ["c"], name="back"),
        helper.make_node("Tanh", ["c"], ["t"], name="elsewhere"),
        helper.make_node("Mul", ["t", "scale"], ["y"], name="last"),
    ]
    weights = {"scale": RNG.uniform(0.5, 2, 6).astype(np.float32), "shift": np.float32([spread])}
    return onnx_graph.model(nodes, {"x": SAMPLES[0]["x"]}, ["y"], weights)


def golden(model, feeds):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, feeds)[0]


class HalfDevice(devices.PythonDevice):
    """Device that rounds the results of marked nodes to float16."""

    name = "half"
    precisions = ("float16",)

    def supports(self, node):
        return None if node.op in ("add", "sub", "mul") else f"half takes no {node.op}"

    def optimize(self, region):
        for node in region.nodes:
            if region.options.get("precision") == "float16":
                node.attrs["precision"] = "float16"
        return region

    def compute(self, node, inputs):
        function = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[node.op]
        if node.attrs.get("precision") != "float16":
            return function(*inputs)
        halves = [array.astype(np.float16) for array in inputs]
        return function(*halves).astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def half():
    devices.register(HalfDevice)
    yield
    devices.unregister("half")


def compiled(model, **options):
    options = {"devices": ["half"], "mixed_precision": "fp16", **options}
    return tvmrt.compile(model, **options)


def reduced_nodes(library) -> list[str]:
    return [
        node.sources[0]
        for region in library.partition.regions
        for node in region.nodes
        if node.attrs.get("precision")
    ]


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_measured_error_of_every_region_is_within_the_bound(tmp_path, executor):
    model = network()
    library = compiled(model, max_error=0.01, calibration=SAMPLES, executor=executor)
    rows = library.summary.regions
    assert [row.precision for row in rows] == ["float16", "float16"]
    assert all(1e-6 < row.error < 0.01 for row in rows)
    library.export(tmp_path / "net.so")
    (found,) = run_library(tmp_path / "net.so", executor, SAMPLES[0])
    expected = golden(model, SAMPLES[0])
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert 1e-6 < error < 0.02
    assert found.dtype == np.float32


def test_region_beyond_the_bound_is_shrunk():
    """Adding 2048 loses small values; the matmuls around the addition stay in reduced precision."""
    library = compiled(network(2048), max_error=0.01, calibration=SAMPLES)
    first, last = library.summary.regions
    assert first.precision == last.precision == "float16"
    assert set(reduced_nodes(library)) == {"scaled", "last"}
    assert first.error < 0.01


def test_only_regions_within_the_bound_are_reduced():
    model = network(2048)
    free = compiled(model, calibration=SAMPLES).summary.regions
    bound = free[1].error * 1.01
    rows = compiled(model, max_error=bound, calibration=SAMPLES).summary.regions
    assert free[0].error > bound >= rows[1].error
    assert rows[1].precision == "float16"
    assert not rows[0].precision or rows[0].error <= bound


def test_regions_within_the_error_are_reduced():
    with pytest.raises(UnsupportedError, match=r"no region stays within max_error=1e-07 in fp16"):
        compiled(network(), max_error=1e-7, calibration=SAMPLES)


def test_without_calibration_all_regions_are_reduced():
    rows = compiled(network(2048)).summary.regions
    assert [(row.precision, row.error) for row in rows] == [("float16", None)] * 2


def test_error_without_a_bound_is_reported():
    rows = compiled(network(2048), calibration=SAMPLES[:1]).summary.regions
    assert rows[0].error > 0.1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"mixed_precision": "fp8"}, '"fp8" is not known'),
        ({"max_error": 0.1}, "give calibration"),
        ({"max_error": -1.0, "calibration": SAMPLES}, "must be a number above 0"),
        ({"mixed_precision": None, "max_error": 0.1}, "max_error needs mixed_precision"),
        ({"calibration": [{"z": SAMPLES[0]["x"]}]}, "calibration has no input x; it has z"),
        ({"calibration": [{"x": np.zeros(3)}]}, r"has shape \[3\], the network takes \[4, 6\]"),
        ({"mixed_precision": "bf16"}, "no region is on a device that computes in bf16"),
        ({"devices": []}, "no region is on a device that computes in fp16"),
    ],
    ids=str,
)
def test_wrong_options(options, problem):
    with pytest.raises((ValueError, KeyError, UnsupportedError), match=problem):
        compiled(network(), **options)


def test_devices_that_choose_no_node_are_named():
    class Undecided(HalfDevice):
        name = "undecided"

        def optimize(self, region):
            return region

    with pytest.raises(UnsupportedError, match=r"optimize .* of device undecided in 2 region"):
        compiled(network(), devices=[Undecided()])
