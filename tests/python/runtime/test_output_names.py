"""Every input and output keeps its name: in both executors and in files."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.runtime.executor import AotModule

X = np.array([[3, 1, 4, 1.5], [9, 2, 6, 5]], np.float32)
LARGEST = np.array([[4, 3], [9, 6]], np.float32)
PLACES = np.array([[2, 0], [0, 2]])
EXECUTORS = pytest.mark.parametrize(
    ("kind", "wrapper"), [("graph", GraphModule), ("aot", AotModule)], ids=["graph", "aot"]
)


def top_two(values: str, places: str, x: str = "x") -> onnx.ModelProto:
    """Return a node with two outputs."""
    graph = helper.make_graph(
        [helper.make_node("TopK", [x, "k"], [values, places])],
        "g",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, [2, 4])],
        [
            helper.make_tensor_value_info(values, TensorProto.FLOAT, [2, 2]),
            helper.make_tensor_value_info(places, TensorProto.INT64, [2, 2]),
        ],
        [numpy_helper.from_array(np.array([2]), "k")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def exported(model, path, kind):
    tvmrt.compile(model, executor=kind).export_library(path)
    return path


def executor(path, wrapper):
    return wrapper(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))


@EXECUTORS
def test_outputs_of_one_node(tmp_path, kind, wrapper):
    network = executor(exported(top_two("values", "places"), tmp_path / "n.so", kind), wrapper)
    network.run(x=X)
    for index, (name, right) in enumerate({"values": LARGEST, "places": PLACES}.items()):
        np.testing.assert_array_equal(network.get_output(name).numpy(), right)
        assert network.get_output_index(name) == index
    shapes, dtypes = network.get_output_info()
    suffixes = (":0", ":1") if kind == "graph" else ("", "")  # as in the classic TVM releases
    assert list(shapes) == ["values" + suffixes[0], "places" + suffixes[1]]
    assert list(dtypes.values()) == ["float32", "int64"]
    assert network.get_output_index("x") == -1


@EXECUTORS
def test_names_that_collide_in_c(tmp_path, kind, wrapper):
    """The inputs and outputs a.b and a_b are not mixed up."""
    graph = helper.make_graph(
        [helper.make_node("Neg", ["a.b"], ["o_1"]), helper.make_node("Abs", ["a_b"], ["o.1"])],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("a.b", "a_b")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("o_1", "o.1")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    network = executor(exported(model, tmp_path / "n.so", kind), wrapper)
    network.set_input("a_b", np.array([-3, -4], np.float32))
    network.set_input("a.b", np.array([1, 2], np.float32))
    network.run()
    np.testing.assert_array_equal(network.get_output("o_1").numpy(), [-1, -2])
    np.testing.assert_array_equal(network.get_output("o.1").numpy(), [3, 4])
    assert list(network.get_input_info()[0]) == ["a.b", "a_b"]
    if kind == "aot":  # which spells unknown names as in C
        with pytest.raises(KeyError, match=r"the inputs are a\.b, a_b"):
            network.set_input("a/b", np.zeros(2, np.float32))


NAMES = {
    "plain": ("values", "places"),
    "TensorFlow names": ("Identity:0", "Identity:1"),
    "parameters of numpy.savez": ("file", "allow_pickle"),
    "equal in C": ("o.1", "o_1"),
}


@pytest.mark.everyday(3)
@pytest.mark.parametrize("kind", ["graph", "aot"])
@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_run_writes_every_output(tmp_path, kind, names):
    library = exported(top_two(*names), tmp_path / "n.so", kind)
    np.savez(tmp_path / "in.npz", x=X)
    command = [sys.executable, "-m", "tvmrt", "run", library, "--inputs", tmp_path / "in.npz"]
    subprocess.run([*command, "--outputs", tmp_path / "out.npz"], check=True)
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs.files == list(names)
        np.testing.assert_array_equal(outputs[names[0]], LARGEST)
        np.testing.assert_array_equal(outputs[names[1]], PLACES)


def test_run_distinguishes_equal_names(tmp_path, monkeypatch):
    """Graphs of other compilers name only nodes: each output still has a separate entry."""
    from tvmrt.cli.session import Session
    from tvmrt.network.loaded_library import LoadedLibrary

    library = exported(top_two("values", "places"), tmp_path / "n.so", "graph")
    factory = tvmrt.runtime.load_module(library)
    graph = json.loads(factory["get_graph_json"]())
    del graph["metadata"]
    create = tvmrt.get_global_func("tvm.graph_executor.create")
    loaded = LoadedLibrary(factory, lambda: GraphModule(create(json.dumps(graph), factory, 1, 0)))
    monkeypatch.setattr("tvmrt.network.loaded_library.open_library", lambda path: loaded)
    outputs = Session(library).run({"x": X})
    assert list(outputs) == ["places:0", "places:1"]
    np.testing.assert_array_equal(outputs["places:0"], LARGEST)
    np.testing.assert_array_equal(outputs["places:1"], PLACES)


def test_inspect_shows_every_name(tmp_path):
    library = exported(top_two("values", "places"), tmp_path / "n.so", "graph")
    command = [sys.executable, "-m", "tvmrt", "inspect", "--json", library]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert [row["name"] for row in shown["outputs"]] == ["values", "places"]
