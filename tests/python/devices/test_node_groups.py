"""Groups requested by a device become separate regions; a refused node is the only one removed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from unary import HEADER, built, chain, executor

import tvmrt
from tvmrt import devices
from tvmrt.devices import Annotation, Refusal

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)


def nodes_of(library):
    return [row.onnx_nodes for row in library.summary.regions]


def test_groups_of_a_c_device_are_regions(tmp_path):
    tvmrt.load_device_plugin(str(built(tmp_path, "alone", "ALONE")))
    library = tvmrt.compile(chain("Neg", "Relu", "Abs"), devices=["alone"])
    assert nodes_of(library) == [["Neg_t0"], ["Relu_t1"], ["Abs_y"]]
    library.export_library(tmp_path / "n.so")
    network = executor(tmp_path / "n.so")
    network.run(x=X)  # device that refuses larger regions
    np.testing.assert_array_equal(network.get_output(0).numpy(), np.maximum(-X, 0))


def test_node_refused_by_a_c_device_leaves_its_region(tmp_path):
    tvmrt.load_device_plugin(str(built(tmp_path, "picky", 'REFUSES="abs"')))
    model = chain("Neg", "Relu", "Abs", "Neg", "Abs", "Relu")
    library = tvmrt.compile(model, devices=["picky"])
    assert nodes_of(library) == [["Neg_t0", "Relu_t1"], ["Neg_t3"], ["Relu_y"]]
    reasons = {row.name: row.reason for row in library.summary.nodes if row.device == "cpu"}
    assert reasons == dict.fromkeys(["Abs_t2", "Abs_t4"], "picky: configured to refuse it")


class Wishful(devices.PythonDevice):
    name = "wishful"
    groups = None
    refused = ()

    def supports(self, node):
        return None

    def annotate(self, graph):
        message = super().annotate(graph)
        return message if self.groups is None else Annotation(message, self.groups(graph.nodes))

    def evaluate(self, region):
        found = [node for node in region.nodes if node.op in self.refused]
        return Refusal("it is too hot", found[0]) if found else None

    def compute(self, node, inputs):
        return {"neg": np.negative, "abs": np.abs, "relu": lambda x: np.maximum(x, 0)}[node.op](
            inputs[0]
        )


@pytest.fixture
def wishful():
    instance = Wishful()
    devices.register(instance)
    yield instance
    devices.unregister("wishful")


def by_number(*groups):
    return lambda nodes: dict(zip(nodes, groups))


PAIRS = [("neg", "relu"), ("neg",)]
CASES = {
    "no wishes": ({}, [[0, 1, 2, 3]]),
    "two groups": ({"groups": by_number(0, 0, 1, 1)}, [[0, 1], [2, 3]]),
    "group around another": ({"groups": by_number(0, 1, 0, 0)}, [[0], [1], [2, 3]]),
    "at most three": ({"most_nodes": 3}, [[0, 1, 2], [3]]),
    "patterns share a region": ({"patterns": [*PAIRS, ("abs",)]}, [[0, 1, 2, 3]]),
    "region per pattern": ({"patterns": PAIRS, "region_per_pattern": True}, [[0, 1], [2]]),
    "refused node": ({"refused": ("relu",)}, [[0], [2, 3]]),
    "refused node of a chain": ({"patterns": PAIRS, "refused": ("relu",)}, [[2]]),
}


@pytest.mark.parametrize(("wishes", "expected"), CASES.values(), ids=CASES)
def test_requested_groups(wishful, wishes, expected):
    for name, value in wishes.items():
        setattr(wishful, name, value)
    operators = "Neg", "Relu", "Neg", "Abs"
    library = tvmrt.compile(chain(*operators), devices=["wishful"])
    names = ["Neg_t0", "Relu_t1", "Neg_t2", "Abs_y"]
    assert nodes_of(library) == [[names[i] for i in numbers] for numbers in expected]
    if "refused" in wishes:
        rows = {row.name: row.reason for row in library.summary.nodes}
        assert rows["Relu_t1"] == "wishful: it is too hot"


def test_a_group_of_two_branches_is_one_region(wishful):
    """Neither branch reads the other; a node between two members would separate them."""
    text = "g (float[4] x) => (float[4] y, float[4] z) { y = Neg(x) z = Abs(x) }"
    model = onnx.parser.parse_model(HEADER + text)
    assert nodes_of(tvmrt.compile(model, devices=["wishful"])) == [["Neg_y"], ["Abs_z"]]
    wishful.groups = by_number(7, 7)
    assert nodes_of(tvmrt.compile(model, devices=["wishful"])) == [["Neg_y", "Abs_z"]]
