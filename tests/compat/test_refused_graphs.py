"""Test inconsistent graphs: each is refused with an error that names the defect and its
position."""

from __future__ import annotations

import json
import re
from typing import Any, Callable

import numpy as np
import pytest
from artefacts import network, stream, toolchain

import tvmrt
from tvmrt.contrib import graph_executor
from tvmrt.error import TVMError

FAILURES = (TVMError, ValueError, TypeError, AttributeError)
Graph = dict[str, Any]
CPU, CUDA = 1, 2


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "library.so"
    toolchain.shared_library(path, toolchain.source("llvm_graph.c"), defines=["MINOR=18"])
    return tvmrt.runtime.load_module(path)


def refused(library: tvmrt.runtime.Module, text: str, sentence: str, *devices: int) -> None:
    create = tvmrt.get_global_func("tvm.graph_executor.create")
    with pytest.raises(FAILURES, match=re.escape(sentence)):
        create(text, library, *(devices or (CPU, 0)))


# ---- the text ----


def put(*path: Any, value: Any) -> Callable[[Graph], None]:
    """Return a change: the value at the end of a path of keys and indices."""

    def change(graph: Graph) -> None:
        place: Any = graph
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def without(*path: Any) -> Callable[[Graph], None]:
    def change(graph: Graph) -> None:
        place: Any = graph
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


NAME = "tvmgen_default_fused_add"
ONE_PER_ENTRY = "dltype, shape, storage_id and device_index need one item for each entry"
NO_ENTRY = "an entry names a node or output that does not exist or comes later"
REFUSALS = {
    "an entry of one number": (put("heads", value=[[3]]), "an entry needs 2 or 3 numbers"),
    "an entry of four numbers": (
        put("heads", value=[[3, 0, 0, 0]]),
        "an entry needs 2 or 3 numbers",
    ),
    "a count in words": (
        put("nodes", 2, "attrs", "num_inputs", value="two"),
        "'two' is not a number",
    ),
    "a count with a rest": (
        put("nodes", 2, "attrs", "num_inputs", value="2x"),
        "'2x' is not a number",
    ),
    "another key of a node": (
        put("nodes", 0, "colour", value=1),
        "a node has the unknown key 'colour'",
    ),
    "a node without a name": (without("nodes", 1, "name"), "a node lacks 'op' or 'name'"),
    "a node without an operator": (without("nodes", 1, "op"), "a node lacks 'op' or 'name'"),
    "an input that reads": (
        put("nodes", 1, "inputs", value=[[0, 0, 0]]),
        "input node 'w' has inputs itself",
    ),
    "another kind of node": (
        put("nodes", 2, "op", value="call"),
        f"node '{NAME}' has the unknown op 'call'",
    ),
    "no function": (
        without("nodes", 2, "attrs", "func_name"),
        f"node '{NAME}' lacks the attribute 'func_name'",
    ),
    "another number of inputs": (
        put("nodes", 2, "attrs", "num_inputs", value="3"),
        f"node '{NAME}' has 2 inputs and says it has 3",
    ),
    "another number of outputs": (
        put("nodes", 2, "attrs", "num_outputs", value="2"),
        "a node's num_outputs differs from node_row_ptr",
    ),
    "a list of another kind": (
        put("attrs", "shape", 0, value="list_int"),
        "attribute 'shape' is a 'list_int' instead of a 'list_shape'",
    ),
    "another key of the graph": (put("colour", value=1), "unknown key 'colour'"),
    "no heads": (without("heads"), "one of nodes, arg_nodes, heads"),
    "rows that start later": (
        put("node_row_ptr", value=[1, 1, 2, 3, 4]),
        "node_row_ptr must start with 0 and have one number more than there are nodes",
    ),
    "rows that fall": (
        put("node_row_ptr", value=[0, 1, 2, 1, 4]),
        "node_row_ptr must rise, within the number of entries",
    ),
    "an input of two entries": (
        put("node_row_ptr", value=[0, 2, 3, 4, 5]),
        "an input node must have one entry",
    ),
    "few shapes": (put("attrs", "shape", 1, value=[[2, 3]] * 3), ONE_PER_ENTRY),
    "few storages": (put("attrs", "storage_id", 1, value=[0, 1, 2]), ONE_PER_ENTRY),
    "few devices": (put("attrs", "device_index", 1, value=[1, 1]), ONE_PER_ENTRY),
    "a head that is not there": (put("heads", value=[[4, 0, 0]]), NO_ENTRY),
    "an output that is not there": (put("heads", value=[[3, 1, 0]]), NO_ENTRY),
    "a node that reads a later one": (put("nodes", 2, "inputs", 0, value=[3, 0, 0]), NO_ENTRY),
    "an operator as an input": (
        put("arg_nodes", value=[0, 2]),
        "arg_nodes must list nodes whose op is null",
    ),
    "a shape without end": (
        put("attrs", "shape", 1, 0, value=[1] * 100),
        "a shape has too many dimensions",
    ),
    "a negative storage": (
        put("attrs", "storage_id", 1, 0, value=-1),
        "a storage_id is negative or larger than the number of entries",
    ),
    "a large storage": (
        put("attrs", "storage_id", 1, 0, value=4),
        "a storage_id is negative or larger than the number of entries",
    ),
    "a function that is not there": (
        put("nodes", 3, "attrs", "func_name", value="absent"),
        "Cannot find function 'absent' in the library, which node "
        "'tvmgen_default_fused_multiply' of the graph calls.",
    ),
    "a copy of two": (
        put("nodes", 2, "attrs", "func_name", value="__copy"),
        "a __copy node needs one input, one output.",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_graph_is_refused(library, case):
    change, sentence = REFUSALS[case]
    graph = network.graph()
    change(graph)
    refused(library, json.dumps(graph), sentence)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ('"nodes": []', "nodes is given twice"),
        (
            '"metadata": {"output_names": ["a"], "output_names": ["b"]}',
            "output_names is given twice",
        ),
        ('"metadata": "a text without an end}', "unterminated string"),
        ('"metadata": "\\', "unterminated string"),
        ('"metadata": !', "expected a value"),
        ('"metadata": {} 2', "expected ','"),
        ('"metadata" 2', "expected ':'"),
        ("2: 0", "expected '\"'"),
        ('"\\u00g0": 0}', "\\u needs four hexadecimal digits"),
        ('"\\u0000": 0}', "a string contains NUL"),
        ('"\\x": 0', "unknown escape"),
    ],
)
def test_text_errors_have_a_position(library, more, sentence):
    text = json.dumps(network.graph())[:-1] + ",\n" + more + "}"
    refused(library, text, f"the graph JSON is damaged: {sentence} at line 2")


# ---- memory ----


def with_last(function: str, shape: list[int], storage: int) -> Graph:
    """Return the graph with one more node that reads its result."""
    graph = network.graph()
    graph["nodes"].append(network.operator("last", [[3, 0, 0]], function))
    graph["heads"] = [[4, 0, 0]]
    graph["node_row_ptr"].append(5)
    for key, item in {"dltype": "float32", "device_index": CPU}.items():
        graph["attrs"][key][1].append(item)
    graph["attrs"]["storage_id"][1].append(storage)
    graph["attrs"]["shape"][1].append(shape)
    return graph


@pytest.mark.parametrize(
    ("function", "storage", "verb"), [("__nop", 3, "reshapes"), ("__copy", 4, "copies")]
)
def test_other_number_of_bytes_is_refused(library, function, storage, verb):
    graph = with_last(function, [5], storage)
    refused(library, json.dumps(graph), f"node 'last' {verb} 24 bytes to 20.")


def test_reshape_of_a_reshape_is_the_same_memory(library):
    """Make two nodes without code over one entry, one of which also closes a cycle."""
    graph = with_last("__nop", [6], 3)
    graph["nodes"].append(network.operator("again", [[4, 0, 0]], "__nop"))
    graph["heads"] = [[5, 0, 0], [4, 0, 0], [3, 0, 0]]
    graph["node_row_ptr"].append(6)
    for key, item in {
        "dltype": "float32",
        "device_index": CPU,
        "storage_id": 3,
        "shape": [3, 2],
    }.items():
        graph["attrs"][key][1].append(item)
    executor = graph_executor.create(json.dumps(graph), library, tvmrt.cpu(0))
    executor.run(x=network.X, w=network.W)
    for i, shape in enumerate([(3, 2), (6,), (2, 3)]):
        np.testing.assert_array_equal(executor.get_output(i).numpy(), network.Z.reshape(shape))


def test_storage_of_two_devices_is_refused(library):
    graph = network.graph()
    graph["attrs"]["device_index"][1] = [CPU, CPU, CUDA, CPU]
    graph["attrs"]["storage_id"][1] = [0, 1, 2, 2]
    sentence = "storage 2 of the graph is used on two devices."
    refused(library, json.dumps(graph), sentence, CPU, 0, CUDA, 0)


def test_device_that_the_executor_lacks_is_named(library):
    graph = network.graph()
    graph["attrs"]["device_index"][1] = [CPU, CPU, CUDA, CPU]
    sentence = "the network uses a device of type 2, which is not among the executor's 1 devices"
    refused(library, json.dumps(graph), sentence)


@pytest.mark.parametrize(
    ("devices", "sentence"),
    [
        ((None,), "argument 3 must be a device"),
        ((CPU,), "argument 2 must be followed by a device id"),
    ],
    ids=["none", "half"],
)
def test_executor_needs_devices(library, devices, sentence):
    create = tvmrt.get_global_func("tvm.graph_executor.create")
    with pytest.raises(FAILURES, match=sentence):
        create(network.graph_text(), library, *devices)


# ---- factories ----


@pytest.mark.parametrize(
    "array", [network.W.ravel(), network.W.astype(np.float64)], ids=["shape", "type"]
)
def test_parameter_of_another_shape_or_type_is_refused(build, array):
    blob = stream.blob(
        [
            stream.module(
                "GraphExecutorFactory", stream.graph_factory(network.graph_text(), {"w": array})
            ),
            stream.LIBRARY,
        ],
        [0, 1, 1],
        [1],
    )
    library = build("llvm_graph.c", blob=blob, defines=["MINOR=18"])
    with pytest.raises(FAILURES, match=r"parameter 'w' is .* in the graph and .* in the params\."):
        library["default"](tvmrt.cpu(0))


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_factory_without_its_library_is_an_error(library, kind):
    create = tvmrt.get_global_func(f"tvm.{kind}_executor_factory.create")
    weight = tvmrt.nd.array(network.W)
    arguments = (network.graph_text(), library, "net") if kind == "graph" else (library, "net")
    factory = create(*arguments, "w", weight)
    tvmrt.get_global_func("runtime.ModuleClearImports")(factory)
    with pytest.raises(FAILURES, match="the factory of network 'net' has no imported library"):
        factory["net"](tvmrt.cpu(0))


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_factory_takes_tensors_as_parameters(library, kind):
    create = tvmrt.get_global_func(f"tvm.{kind}_executor_factory.create")
    arguments = (network.graph_text(), library, "net") if kind == "graph" else (library, "net")
    with pytest.raises(FAILURES, match=r"must be runtime\.NDArray, got an int"):
        create(*arguments, "w", 3)
