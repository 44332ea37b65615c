"""Regions end to end: partitioned, generated as C source, called in both executors."""

from __future__ import annotations

import numpy as np
import onnx_graph
import pytest
from onnx import helper
from sample_devices import SampleDevice, run_library

import tvmrt
from tvmrt.error import UnsupportedError

RNG = np.random.default_rng(5)
FEEDS = {name: RNG.normal(size=(4, 5)).astype(np.float32) for name in "abc"}


def diamond():
    """Return a product between two additions, which would be one region without it."""
    nodes = [
        helper.make_node("Add", ["a", "b"], ["t"], name="first"),
        helper.make_node("Mul", ["t", "c"], ["u"], name="between"),
        helper.make_node("Sub", ["u", "t"], ["v"], name="second"),
        helper.make_node("Add", ["v", "a"], ["w"], name="last"),
    ]
    return onnx_graph.model(nodes, FEEDS, ["w", "t"])


def golden():
    a, b, c = (FEEDS[name] for name in "abc")
    return [(a + b) * c - (a + b) + a, a + b]


def no_products(node):
    return node.op != "mul"


@pytest.fixture
def compiled(tmp_path):
    """Compile, export, run and compare; return the library."""

    def run(device, executor="graph", **options):
        library = tvmrt.compile(diamond(), executor=executor, devices=[device], **options)
        library.export(tmp_path / "net.so")
        for found, expected in zip(run_library(tmp_path / "net.so", executor, FEEDS), golden()):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
        return library

    return run


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_whole_network_is_one_region(compiled, executor):
    summary = compiled(SampleDevice(), executor).summary
    assert [row.operators for row in summary.regions] == [["add", "mul", "sub", "add"]]
    assert [row.device for row in summary.nodes] == ["sample"] * 4


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_regions_do_not_depend_on_themselves_through_the_cpu(compiled, executor):
    summary = compiled(SampleDevice(takes=no_products), executor).summary
    assert [row.operators for row in summary.regions] == [["add"], ["sub", "add"]]
    between = summary.nodes[1]
    assert (between.name, between.device) == ("between", "cpu")
    assert "was configured not to take it" in between.reason


def test_region_boundaries_have_tensors_and_bytes(compiled):
    rows = compiled(SampleDevice(takes=no_products)).summary.borders
    ways = [(row.source, row.target, row.nbytes) for row in rows]
    assert ways.count(("cpu", "sample", 80)) == 3  # a, b and the product
    assert ways.count(("sample", "cpu", 80)) == 2  # both results


def test_refused_region_returns_to_the_cpu(compiled):
    device = SampleDevice(takes=no_products, wants=lambda region: len(region.nodes) > 1)
    summary = compiled(device).summary
    assert [row.operators for row in summary.regions] == [["sub", "add"]]
    assert "the region is not wanted" in summary.nodes[0].reason


def test_codegen_that_fails_names_device_region_and_node():
    with pytest.raises(UnsupportedError, match=r"sample.*main_0 \(first, .*\): no code today"):
        tvmrt.compile(diamond(), devices=[SampleDevice(fails="codegen")])


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("fails", ["codegen", "run", ""])
def test_fallback_computes_failing_regions_on_the_cpu(compiled, executor, fails):
    device = SampleDevice(takes=no_products, fails=fails)
    library = compiled(device, executor, device_fallback=True)
    assert len(library.summary.regions) == (0 if fails == "codegen" else 2)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_device_that_fails_without_fallback_is_an_error(compiled, executor):
    with pytest.raises(tvmrt.TVMError, match="sample is lost"):
        compiled(SampleDevice(fails="run"), executor)


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("sample:Mul", r"node between \(Mul\) is not on sample: .*configured not to take it"),
        ("other", "other is not among the devices"),
        ("sample:Convolution", "neither ONNX nor the network has a Convolution"),
    ],
)
def test_required_device_makes_a_fallback_an_error(rule, problem):
    device = SampleDevice(takes=no_products)
    with pytest.raises((ValueError, UnsupportedError), match=problem):
        tvmrt.compile(diamond(), devices=[device], require_device=[rule])


@pytest.mark.parametrize("rule", ["sample", "sample:Add", "sample:Conv", "cpu:Mul"])
def test_required_device_is_used(rule):
    device = SampleDevice(takes=no_products)
    tvmrt.compile(diamond(), devices=[device], require_device=[rule])


def test_metadata_has_every_parameter_of_a_region_with_its_device(tmp_path):
    library = tvmrt.compile(diamond(), devices=[SampleDevice(takes=no_products)])
    library.export_library(tmp_path / "net.so")
    main, *functions = tvmrt.runtime.load_module(tmp_path / "net.so").metadata().functions
    assert [p.device for p in main.params] == [tvmrt.cpu(0)] * 5
    rows = {f.function_name: [(p.relay_name_hint, p.shape) for p in f.params] for f in functions}
    shape = (4, 5)
    assert rows["tvmgen_default_sample_first"] == [("a", shape), ("b", shape), ("first", shape)]


def test_device_listed_after_the_cpu_gets_no_nodes():
    library = tvmrt.compile(diamond(), devices=["cpu", SampleDevice()])
    assert not library.summary.regions
    assert "listed before sample" in library.summary.nodes[0].reason


def test_unknown_device_lists_available_devices():
    with pytest.raises(
        ValueError, match=r"device nothing is not known; .*TVMRT_DEVICE_PATH.*choose from cpu"
    ):
        tvmrt.compile(diamond(), devices=["nothing"])
