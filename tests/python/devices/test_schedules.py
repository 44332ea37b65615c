"""Dependencies in the graph for schedulers: any order that respects them gives equal results."""

from __future__ import annotations

import json

import numpy as np
import onnx_graph
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from sample_devices import SampleDevice
from test_random_partitions import FEEDS, networks, sample

import tvmrt
from tvmrt.compiler.codegen.dependencies import may_overlap
from tvmrt.compiler.ir import DTYPES, Strided
from tvmrt.compiler.ir.program import ARENA, Access, Buffer


def operators(library) -> list[dict]:
    nodes = json.loads(library.get_graph_json())["nodes"]
    return [{"number": i, **node} for i, node in enumerate(nodes) if node["op"] == "tvm_op"]


def reordered(library, choose) -> list[int]:
    """Return the operators in an order that ``after`` allows; ``choose`` picks the next."""
    graph = json.loads(library.get_graph_json())
    first = len(graph["arg_nodes"])
    numbers = range(first, len(graph["nodes"]))
    waiting = {i: set(json.loads(graph["nodes"][i]["attrs"]["after"])) for i in numbers}
    order = []
    while waiting:
        ready = sorted(i for i, before in waiting.items() if before <= set(order))
        order.append(choose(ready))
        del waiting[order[-1]]
    return order


class Interpreter:
    """Run the packed entries of a library in a given order over its graph's storages."""

    def __init__(self, path, library) -> None:
        self.graph = json.loads(library.get_graph_json())
        self.module = tvmrt.runtime.load_module(str(path))
        attrs = self.graph["attrs"]
        columns = zip(attrs["storage_id"][1], attrs["shape"][1], attrs["dltype"][1])
        self.tensors, storages = [], {}
        for sid, shape, dtype in columns:
            if sid not in storages:
                storages[sid] = tvmrt.nd.array(np.zeros(shape, dtype))
            self.tensors.append(storages[sid])

    def run(self, order, feeds) -> list[np.ndarray]:
        row = self.graph["node_row_ptr"]
        for number in self.graph["arg_nodes"]:
            self.tensors[row[number]].copyfrom(feeds[self.graph["nodes"][number]["name"]])
        for number in order:
            node = self.graph["nodes"][number]
            inputs = [self.tensors[row[n] + i] for n, i, _ in node["inputs"]]
            outputs = self.tensors[row[number] : row[number + 1]]
            self.module.get_function(node["attrs"]["func_name"], True)(*inputs, *outputs)
        return [self.tensors[row[n] + i].numpy() for n, i, _ in self.graph["heads"]]


@settings(max_examples=15, deadline=None)
@given(networks(), st.randoms(use_true_random=False))
def test_every_valid_order_gives_equal_results(tmp_path_factory, case, random):
    model, takes = case
    devices = [sample(name, nodes) for name, nodes in takes.items()]
    library = tvmrt.compile(model, devices=devices, schedule="async")
    if not library.summary.regions:
        return
    path = tmp_path_factory.mktemp("net") / "net.so"
    library.export(path)
    expected = ReferenceEvaluator(model).run(None, FEEDS)
    interpreter = Interpreter(path, library)
    for choose in (random.choice, max, min):
        found = interpreter.run(reordered(library, choose), FEEDS)
        for array, golden in zip(found, expected):
            np.testing.assert_allclose(array, golden, rtol=1e-5, atol=1e-6)


def branches():
    """Two chains from one input, on two devices, that are concatenated."""
    nodes = []
    for name, first, last in (("a", "Mul", "Add"), ("b", "Add", "Sub")):
        nodes += [
            helper.make_node(first, ["x", "x"], [f"{name}0"], name=f"{name}_0"),
            helper.make_node(last, [f"{name}0", "x"], [f"{name}1"], name=f"{name}_1"),
        ]
    nodes.append(helper.make_node("Concat", ["a1", "b1"], ["y"], name="join", axis=1))
    return onnx_graph.model(nodes, {"x": np.ones((2, 3), np.float32)}, ["y"])


def test_branches_on_two_devices_run_concurrently():
    devices = [
        SampleDevice(name, takes=lambda n, name=name: n.name.startswith(name)) for name in "ab"
    ]
    library = tvmrt.compile(branches(), devices=devices, schedule="async")
    attributes = [row["attrs"] for row in operators(library)]
    rows = {row["device"]: row for row in attributes if row["device"] != "cpu"}
    assert set(rows) == {"a", "b"}
    assert [json.loads(row["after"]) for row in rows.values()] == [[], []]


def test_sequential_network_lists_devices_only():
    library = tvmrt.compile(branches(), devices=[SampleDevice("a")])
    attributes = [row["attrs"] for row in operators(library)]
    assert {row["device"] for row in attributes} == {"a", "cpu"}
    assert all("after" not in row for row in attributes)


def test_cpu_network_has_no_schedule():
    library = tvmrt.compile(branches())
    assert not {"after", "device"} & {key for row in operators(library) for key in row["attrs"]}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"schedule": "later"}, 'schedule="later" is not known'),
        ({"schedule": "async", "runtime": "crt", "executor": "aot"}, "is for hosts"),
    ],
)
def test_wrong_schedules(options, problem):
    with pytest.raises(ValueError, match=problem):
        tvmrt.compile(branches(), **options)


BUFFER = Buffer("b", DTYPES["float32"], 48, ARENA)


@pytest.mark.parametrize(
    ("a", "b", "meet"),
    [
        (Strided((2, 3), (12, 1), 0), Strided((2, 9), (12, 1), 3), False),
        (Strided((2, 4), (12, 1), 0), Strided((2, 9), (12, 1), 3), True),
        (Strided((2, 12), (12, 1), 0), Strided((2, 12), (12, 1), 24), False),
        (Strided((2, 3), (12, 4), 0), Strided((2, 3), (12, 4), 2), False),
        (Strided((4,), (2,), 0), Strided((4,), (3,), 0), True),
        (Strided((2, 13), (12, 1), 0), Strided((2, 3), (12, 1), 13), True),
        (Strided((0, 3), (12, 1), 0), Strided((2, 3), (12, 1), 0), False),
    ],
    ids=["beside", "overlapping", "behind", "between", "strides", "beyond-the-row", "empty"],
)
def test_dependencies_of_slices_of_one_tensor(a, b, meet):
    places = [
        {
            at.offset + sum(i * s for i, s in zip(index, at.strides))
            for index in np.ndindex(at.shape)
        }
        for at in (a, b)
    ]
    assert bool(places[0] & places[1]) <= meet  # the slices are independent as stated
    assert may_overlap(Access(BUFFER, a), Access(BUFFER, b)) == meet
