"""A partitioned network computes the same results as the whole, for any partition."""

from __future__ import annotations

import numpy as np
import onnx_graph
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from sample_devices import C_OPERATORS, SampleDevice, run_library

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.ir import Graph, regions_of
from tvmrt.compiler.ir.verifier import verify
from tvmrt.compiler.partition.merge_regions import merge, split_by_result
from tvmrt.compiler.partition.partition import partition
from tvmrt.devices import Context

ONNX = {"add": "Add", "sub": "Sub", "mul": "Mul", "neg": "Neg", "abs": "Abs"}
OPERATORS = sorted(ONNX)
FEEDS = {f"in{i}": np.linspace(i - 1, 1 - i / 3, 6, dtype=np.float32) for i in range(3)}


@st.composite
def networks(draw, nodes=14):
    """Return random elementwise graphs: (model, the nodes that each of two devices takes)."""
    values = [*FEEDS, "weights"]
    made, protos = [], []
    for i in range(draw(st.integers(1, nodes))):
        op = draw(st.sampled_from(OPERATORS))
        count = 2 if op in C_OPERATORS else 1
        inputs = [draw(st.sampled_from(values)) for _ in range(count)]
        protos.append(helper.make_node(ONNX[op], inputs, [f"v{i}"], name=f"n{i}"))
        values.append(f"v{i}")
        made.append(f"v{i}")
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique=True))
    weights = {"weights": np.linspace(0.5, 2, 6, dtype=np.float32)}
    model = onnx_graph.model(protos, FEEDS, outputs, weights)
    takes = {
        name: draw(st.sets(st.sampled_from([p.name for p in protos]))) for name in ("one", "two")
    }
    return model, takes


def sample(name, nodes, **options):
    return SampleDevice(name, takes=lambda node: set(node.sources) <= nodes, **options)


def run(model, devices, path, executor="graph", **options):
    tvmrt.compile(model, executor=executor, devices=devices, **options).export(path)
    return run_library(path, executor, FEEDS)


def check(model, found):
    expected = ReferenceEvaluator(model).run(None, FEEDS)
    for array, golden in zip(found, expected):
        np.testing.assert_allclose(array, golden, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(networks(), st.booleans())
def test_partitioned_network_equals_the_unpartitioned_one(tmp_path_factory, case, fallback):
    model, takes = case
    devices = [sample(name, nodes) for name, nodes in takes.items()]
    path = tmp_path_factory.mktemp("net") / "net.so"
    check(model, run(model, devices, path, device_fallback=fallback))


@settings(max_examples=6, deadline=None)
@given(networks())
def test_failing_devices_fall_back_to_equal_results(tmp_path_factory, case):
    model, takes = case
    devices = [sample(name, nodes, fails="run") for name, nodes in takes.items()]
    path = tmp_path_factory.mktemp("net") / "net.so"
    check(model, run(model, devices, path, "aot", device_fallback=True))


def path_leaves_and_returns(graph: Graph, nodes) -> bool:
    """Return whether a path between two of the nodes passes through another node."""
    inside, below = set(nodes), set()
    for node in graph.nodes:
        producers = {v.producer for v in node.operands() if v.producer is not None}
        if producers & below or (node not in inside and producers & inside):
            if node in inside:
                return True
            below.add(node)
    return False


@settings(max_examples=150, deadline=None)
@given(networks(nodes=25))
def test_regions_are_convex_and_maximal(case):
    model, takes = case
    graph = import_model(model)
    device = {n: "one" for n in graph.nodes if set(n.sources) <= takes["one"]}
    regions = merge(graph, device, [])
    assert sorted(map(id, device)) == sorted(id(n) for region in regions for n in region)
    for region in regions:
        assert not path_leaves_and_returns(graph, region)
    place = {n: i for i, region in enumerate(regions) for n in region}
    for node in device:
        for value in node.operands():
            a, b = place.get(value.producer), place[node]
            if a is not None and a != b:
                assert path_leaves_and_returns(graph, [*regions[a], *regions[b]])


@settings(max_examples=150, deadline=None)
@given(networks(nodes=25))
def test_split_regions_are_convex(case):
    model, takes = case
    graph = import_model(model)
    device = {n: "one" for n in graph.nodes if set(n.sources) <= takes["one"]}
    users, outputs = graph.consumers(), set(graph.outputs)
    for region in merge(graph, device, []):
        for piece in split_by_result(graph, region):
            assert not path_leaves_and_returns(graph, piece)
            leaving = [
                v
                for n in piece
                for v in n.outputs
                if v in outputs or any(u not in piece for u in users.get(v, ()))
            ]
            assert len(leaving) <= 1


@settings(max_examples=150, deadline=None)
@given(networks(nodes=25), st.booleans())
def test_partitioned_graph_is_valid_and_complete(case, fallback):
    model, takes = case
    graph = import_model(model)
    devices = [sample(name, nodes) for name, nodes in takes.items()]
    report = partition(graph, devices, Context(), fallback)
    verify(graph, "test")
    assert regions_of(graph) == report.regions
    for row in report.node_rows():
        taker = next((d for d in ("one", "two") if row.name in takes[d]), "cpu")
        supported = row.op_type in ("Add", "Sub", "Mul")
        folded = row.device == "none"
        assert folded or row.device == (taker if supported else "cpu") or row.reason


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_long_chain_of_alternating_devices(tmp_path, executor):
    nodes = [
        helper.make_node("Add", ["in0" if i == 0 else f"v{i - 1}", "in1"], [f"v{i}"], name=f"n{i}")
        for i in range(30)
    ]
    model = onnx_graph.model(nodes, FEEDS, ["v29"])
    takes = {name: {f"n{i}" for i in range(30) if i % 3 == k} for k, name in enumerate(["a", "b"])}
    devices = [sample(name, names) for name, names in takes.items()]
    check(model, run(model, devices, tmp_path / "net.so", executor))
