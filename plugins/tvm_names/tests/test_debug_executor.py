"""The executor that runs and measures single operators, by its name in TVM."""

from __future__ import annotations

import json
import time

import libraries
import numpy as np
import onnx
import pytest

import tvmrt
from tvmrt.contrib.debugger import debug_executor

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.fixture
def debug(graph_library, tmp_path):
    """Create a debug executor of data/network.c, which has two operators."""
    (library,) = tvmrt.runtime.load_module(graph_library).imported_modules
    text = json.dumps(libraries.GRAPH)
    executor = debug_executor.create(text, library, tvmrt.cpu(0), str(tmp_path / "dump"))
    executor.set_input("x", X)
    executor.set_input(w=libraries.WEIGHT)
    return executor


def test_debug_outputs_of_nodes(debug):
    debug.run()
    y, z = libraries.expected(X)
    np.testing.assert_allclose(debug.get_node_output("scale_add").numpy(), y, rtol=1e-6)
    np.testing.assert_allclose(debug.get_node_output(3).numpy(), z, rtol=1e-6)
    out = tvmrt.nd.empty((2, 3))
    np.testing.assert_allclose(debug.debug_get_output("scale_add", out).numpy(), y, rtol=1e-6)
    with pytest.raises(KeyError, match="nope"):
        debug.get_node_output("nope")


def test_debug_dump_has_all_nodes(debug, tmp_path):
    debug.run()
    dumped = tvmrt.runtime.load_param_dict_from_file(tmp_path / "dump" / "output_tensors.params")
    np.testing.assert_allclose(dumped["sum____3"].numpy(), libraries.expected(X)[1], rtol=1e-6)


def test_debug_run_individual(debug):
    begin = time.perf_counter()
    times = debug.run_individual(number=2, repeat=2)
    whole = time.perf_counter() - begin
    assert [len(repeats) for repeats in times] == [2, 2, 2, 2]
    assert all(seconds >= 0 for repeats in times for seconds in repeats)
    assert 2 * sum(map(sum, times)) <= whole


def compiled(model, tmp_path):
    tvmrt.compile(model).export_library(tmp_path / "n.so")
    return tvmrt.runtime.load_module(tmp_path / "n.so")


def test_debug_dump_has_every_output(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,2] values, int64[1,2] places) <int64[1] k = {2}>
    { values, places = TopK(x, k) }""")
    factory = compiled(model, tmp_path)
    text = factory["get_graph_json"]()
    debug = debug_executor.create(text, factory, tvmrt.cpu(0), dump_root=tmp_path / "dump")
    x = np.array([[3, 1, 4, 1.5]], np.float32)
    debug.run(x=x)
    dumped = tvmrt.runtime.load_param_dict_from_file(tmp_path / "dump" / "output_tensors.params")
    for right in (x, np.float32([[4, 3]]), np.array([[2, 0]])):
        values = [value.numpy() for value in dumped.values()]
        assert any(value.shape == right.shape and (value == right).all() for value in values)


def test_debug_executor_has_inner_tensors_as_they_are(tmp_path):
    """In the graph of a network compiled here, intermediate tensors are arrays of bytes."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,4] x) => (float[1,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>
    { a = MatMul(x, w) b = Softmax(a) y = CumSum(b, one) }"""
    model = onnx.parser.parse_model(text.replace("11,12}>", "11,12}, int64 one = {1}>"))
    factory = compiled(model, tmp_path)
    graph = factory["get_graph_json"]()
    debug = debug_executor.create(graph, factory, tvmrt.cpu(0), dump_root=tmp_path / "dump")
    x = np.array([[0.5, -1, 0.25, 0.125]], np.float32)
    debug.run(x=x)
    product = x @ np.arange(1, 13, dtype=np.float32).reshape(4, 3)
    soft = np.exp(product - product.max()) / np.exp(product - product.max()).sum()
    inner = [node["name"] for node in json.loads(graph)["nodes"]][1:-1]
    found = [debug.get_node_output(name).numpy() for name in inner]
    assert any(value.shape == (1, 3) and np.allclose(value, soft, atol=1e-6) for value in found)
    shape, dtype = (json.loads(graph)["attrs"][name][1][1] for name in ("shape", "dltype"))
    raw = debug.debug_get_output(inner[0], tvmrt.nd.empty(tuple(shape), dtype)).numpy()
    first = debug.get_node_output(inner[0]).numpy()
    assert raw.view(np.uint8).tobytes().startswith(first.tobytes())
    dumped = tvmrt.runtime.load_param_dict_from_file(tmp_path / "dump" / "output_tensors.params")
    assert any(
        np.allclose(value.numpy(), soft, atol=1e-6)
        for value in dumped.values()
        if value.shape == (1, 3)
    )
