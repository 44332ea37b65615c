"""Assignment of nodes to devices: chains, costs, order, obstacles; and layouts at boundaries."""

from __future__ import annotations

import numpy as np
import onnx_graph
import pytest
from device_plugin import built
from onnx import helper
from onnx.reference import ReferenceEvaluator
from sample_devices import SampleDevice, run_library

import tvmrt
from tvmrt import devices
from tvmrt.compiler.devices.skeleton import write_skeleton
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.partition.partition import partition
from tvmrt.devices import Context, Device

X = np.random.default_rng(2).normal(size=(1, 4, 6, 6)).astype(np.float32)
WEIGHTS = {
    "w": np.random.default_rng(3).normal(size=(4, 4, 3, 3)).astype(np.float32),
    "s": np.random.default_rng(4).normal(size=(1, 4, 1, 1)).astype(np.float32),
}


def network():
    """Return conv and relu; conv and neg; relu."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Conv", ["b", "w"], ["c"], name="conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Neg", ["c"], ["d"], name="neg"),
        helper.make_node("Relu", ["d"], ["y"], name="relu2"),
    ]
    return onnx_graph.model(nodes, {"x": X}, ["y"], WEIGHTS)


class Choosy(Device):
    """Device that supports some operators, without a code generator."""

    def __init__(self, name, *ops, patterns=(), costs=None):
        self.name, self.ops, self.patterns, self.costs = name, ops, patterns, costs or {}

    def supports(self, node):
        return None if node.op in self.ops else f"{self.name} takes no {node.op}"

    def cost(self, node):
        return self.costs.get(node.op)

    def border_cost(self, nbytes):
        return self.costs.get("border", 0.0)

    def codegen(self, regions, context):
        return devices.CSource("")


def cut(*chosen):
    report = partition(import_model(network()), chosen, Context())
    places = {row.name: row.device for row in report.node_rows()}
    return places, {row.name: row.reason for row in report.node_rows()}, report


def test_chain_patterns_are_assigned_as_a_whole():
    device = Choosy("one", "conv", "relu", patterns=[("conv", "relu")])
    places, reasons, report = cut(device)
    assert [row.operators for row in report.region_rows()] == [["conv", "relu"]]
    assert places == {"conv1": "one", "relu1": "one", "conv2": "cpu", "neg": "cpu", "relu2": "cpu"}
    assert "one does not support conv at this position" in reasons["conv2"]


def test_longest_chain_wins_and_one_operator_may_be_a_chain():
    device = Choosy("one", "conv", "relu", patterns=[("conv",), ("conv", "relu")])
    places, _, report = cut(device)
    assert [row.operators for row in report.region_rows()] == [["conv", "relu", "conv"]]
    assert places["relu2"] == "cpu"


def test_chain_does_not_pass_a_result_that_others_read():
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv1"),
        helper.make_node("Relu", ["a"], ["y"], name="relu1"),
    ]
    model = onnx_graph.model(nodes, {"x": X}, ["y", "a"], WEIGHTS)
    device = Choosy("one", "conv", "relu", patterns=[("conv", "relu")])
    report = partition(import_model(model), [device], Context())
    assert not report.regions


def test_without_costs_the_first_device_wins():
    places, reasons, _ = cut(Choosy("one", "conv", "relu"), Choosy("two", "conv", "neg"))
    assert places["conv1"] == "one"
    assert places["neg"] == "two"
    assert "listed before two" in reasons["conv1"] or places["conv1"] == "one"


def test_with_costs_the_cheapest_wins():
    slow = Choosy("slow", "conv", "relu", "neg", costs={"conv": 5e-3, "relu": 1e-6, "neg": 1e-6})
    fast = Choosy("fast", "conv", "relu", "neg", costs={"conv": 1e-3, "relu": 2e-6, "neg": 2e-6})
    places, _, _ = cut(slow, fast)
    assert (places["conv1"], places["relu1"], places["neg"]) == ("fast", "slow", "slow")


def test_region_boundaries_count_in_the_costs():
    slow = Choosy("slow", "conv", "relu", "neg", costs={"conv": 5e-3, "relu": 1e-6, "neg": 1e-6})
    fast = Choosy("fast", "conv", "relu", "neg", costs={"conv": 1e-3, "relu": 2e-6, "neg": 2e-6})
    slow.costs["border"] = fast.costs["border"] = 1e-4
    places, _, report = cut(slow, fast)
    assert set(places.values()) == {"fast"}
    assert len(report.regions) == 1


def test_a_device_without_costs_keeps_to_the_order():
    first = Choosy("first", "conv")
    cheap = Choosy("cheap", "conv", costs={"conv": 1e-9})
    assert cut(first, cheap)[0]["conv1"] == "first"
    assert cut(cheap, first)[0]["conv1"] == "cheap"


def test_earlier_device_has_precedence_over_a_chain():
    one = Choosy("one", "relu")
    two = Choosy("two", "conv", "relu", patterns=[("conv", "relu"), ("conv",)])
    places, _, _ = cut(one, two)
    assert places["relu1"] == "one"
    assert (places["conv1"], places["conv2"]) == ("two", "two")  # alone, as a chain of one


@pytest.fixture(scope="module")
def planes(tmp_path_factory):
    """Return a C device that needs NHWC, or any strides for elementwise operators."""
    source, *_ = write_skeleton("planes", tmp_path_factory.mktemp("device"))
    text = source.read_text()
    assert "out->ops = ops;" in text
    source.write_text(
        text.replace("out->ops = ops;", 'out->ops = ops, out->layout = "channels_last";')
    )
    tvmrt.load_device_plugin(built(source))


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.usefixtures("planes")
def test_nhwc_layout_is_kept_across_a_region_boundary(tmp_path, executor):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Conv", ["b", "w"], ["y"], name="conv2", pads=[1, 1, 1, 1]),
    ]
    model = onnx_graph.model(nodes, {"x": X}, ["y"], WEIGHTS)
    library = tvmrt.compile(model, executor=executor, devices=["planes"])
    ways = [(row.source, row.target, row.copied) for row in library.summary.borders]
    assert ways == [("cpu", "planes", False), ("planes", "cpu", False)]
    library.export(tmp_path / "net.so")
    (found,) = run_library(tmp_path / "net.so", executor, {"x": X})
    (expected,) = ReferenceEvaluator(model).run(None, {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_layout_copies_before_a_dense_device_are_reported(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Mul", ["a", "x"], ["b"], name="product"),
        helper.make_node("Conv", ["b", "w"], ["y"], name="conv2", pads=[1, 1, 1, 1]),
    ]
    model = onnx_graph.model(nodes, {"x": X}, ["y"], WEIGHTS)
    library = tvmrt.compile(model, devices=[SampleDevice()])
    ways = {(row.source, row.target, row.copied) for row in library.summary.borders}
    assert ("sample", "cpu", True) in ways
    library.export(tmp_path / "net.so")
    (found,) = run_library(tmp_path / "net.so", "graph", {"x": X})
    (expected,) = ReferenceEvaluator(model).run(None, {"x": X})
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_nodes_under_a_condition_stay_on_the_cpu(tmp_path):
    def branch(name, op):
        value = helper.make_empty_tensor_value_info(f"{name}_out")
        node = helper.make_node(op, ["a", "a"], [f"{name}_out"], name=name)
        return helper.make_graph([node], name, [], [value])

    nodes = [
        helper.make_node(
            "If", ["flag"], ["y"], name="if",
            then_branch=branch("then", "Add"), else_branch=branch("else", "Mul"),
        ),
        helper.make_node("Sub", ["y", "a"], ["z"], name="after"),
    ]  # fmt: skip
    a = np.arange(6, dtype=np.float32)
    feeds = {"flag": np.array(True), "a": a}
    library = tvmrt.compile(onnx_graph.model(nodes, feeds, ["z"]), devices=[SampleDevice()])
    rows = {row.name: row for row in library.summary.nodes}
    assert rows["after"].device == "sample"
    assert "it is conditional" in rows["then"].reason
    library.export(tmp_path / "net.so")
    for flag, expected in ((True, a), (False, a * a - a)):
        (found,) = run_library(tmp_path / "net.so", "graph", {"flag": np.array(flag), "a": a})
        np.testing.assert_allclose(found, expected)


def test_removed_nodes_are_reported():
    nodes = [
        helper.make_node("Add", ["s", "s"], ["c"], name="folded"),
        helper.make_node("Mul", ["x", "c"], ["y"], name="kept"),
    ]
    library = tvmrt.compile(onnx_graph.model(nodes, {"x": X}, ["y"], WEIGHTS), devices=["cpu"])
    rows = {row.name: (row.device, row.reason) for row in library.summary.nodes}
    assert rows["folded"] == ("none", "the compiler needs no code for it")
    assert rows["kept"][0] == "cpu"


class Spoiler(SampleDevice):
    """Device that changes read-only data."""

    def optimize(self, region):
        region.graph.outputs = region.graph.outputs[:0]
        return region


def test_optimize_that_changes_the_region_boundary_is_refused():
    nodes = [helper.make_node("Add", ["x", "x"], ["y"], name="sum")]
    model = onnx_graph.model(nodes, {"x": X}, ["y"])
    library = tvmrt.compile(model, devices=[Spoiler()])
    assert not library.summary.regions
    assert "optimize" in library.summary.nodes[0].reason


class WrongCodegenResult(SampleDevice):
    def codegen(self, regions, context):
        return 7


def test_codegen_result_of_a_wrong_type_is_an_error():
    nodes = [helper.make_node("Add", ["x", "x"], ["y"], name="sum")]
    model = onnx_graph.model(nodes, {"x": X}, ["y"])
    with pytest.raises(tvmrt.error.UnsupportedError, match=r"sample.*codegen returned int"):
        tvmrt.compile(model, devices=[WrongCodegenResult()])


def test_c_device_takes_a_network_whose_output_is_an_input(tmp_path):
    """Outputs that are an input, a constant or another output do not belong to any region."""
    plugin = built(write_skeleton("echo", tmp_path)[0])
    tvmrt.load_device_plugin(plugin)
    nodes = [
        helper.make_node("Identity", ["x"], ["same"], name="copy"),
        helper.make_node("Relu", ["x"], ["y"], name="relu"),
        helper.make_node("Identity", ["y"], ["z"], name="copy2"),
    ]
    model = onnx_graph.model(nodes, {"x": X}, ["same", "y", "z"], {})
    library = tvmrt.compile(model, devices=["echo"])
    assert [row.operators for row in library.summary.regions] == [["relu"]]
    library.export(tmp_path / "net.so")
    found = dict(zip(("same", "y", "z"), tvmrt.load(tmp_path / "net.so")(X)))
    np.testing.assert_array_equal(found["same"], X)
    for name in "yz":
        np.testing.assert_array_equal(found[name], np.maximum(X, 0))
