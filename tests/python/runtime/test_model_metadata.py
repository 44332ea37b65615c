"""Metadata of libraries: parameters and memory of every function."""

from __future__ import annotations

import pytest
from onnx import parser

import tvmrt

CPU = tvmrt.cpu(0)
NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2,4] x, int64[2] at) => (float[2,3] y, float[2] largest)
<float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}>
{ product = MatMul(x, w)  y = Softmax(product)  rows = Gather(x, at)
  largest = ReduceMax<axes = [1], keepdims = 0>(rows) }"""


def parameters(rows):
    return [(p.dtype, p.shape, p.device) for p in rows]


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_every_function_lists_its_parameters(tmp_path, executor):
    model = parser.parse_model(NETWORK)
    for node in model.graph.node:
        node.name = node.output[0]
    library = tvmrt.compile(model, executor=executor, module_name="net")
    library.export_library(tmp_path / "net.so")
    found = tvmrt.runtime.load_module(tmp_path / "net.so").metadata()
    assert (found.version, found.module_name) == (1, "net")
    main, *functions = found.functions
    assert [p.relay_name_hint for p in main.params] == ["x", "at", "y", "largest"]
    assert [f.function_name for f in functions] == [o.symbol for o in library.summary.operators]
    by_name = {f.function_name.rpartition("_")[2]: f for f in functions}
    product, softmax = by_name["product"], by_name["y"]
    assert parameters(product.inputs) == [("float32", (2, 4), CPU)]
    assert parameters(product.outputs) == parameters(softmax.inputs) == [("float32", (2, 3), CPU)]
    assert [p.relay_name_hint for p in product.params] == ["x", "product"]
    assert product.io_size_bytes == 4 * (8 + 6)
    assert product.constant_size_bytes >= 4 * 12
    gathered = [p for f in functions for p in f.inputs if p.relay_name_hint == "at"]
    assert parameters(gathered) == [("int64", (2,), CPU)]


def test_dynamic_dimensions_have_their_maximum(tmp_path):
    model = parser.parse_model(NETWORK.replace("float[2,4] x", "float[n,4] x"))
    tvmrt.compile(model, dims={"n": (1, 7)}).export_library(tmp_path / "net.so")
    main, *functions = tvmrt.runtime.load_module(tmp_path / "net.so").metadata().functions
    assert [p.shape for p in main.inputs] == [(7, 4), (2,)]
    assert all((f.num_inputs, f.num_outputs) >= (1, 1) for f in functions)


def test_network_of_several_by_its_name(tmp_path):
    model = parser.parse_model(NETWORK)
    tvmrt.compile(model, module_name="net").export_library(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    assert module.metadata("net") == module.metadata()
    with pytest.raises(KeyError, match="has no metadata of a network 'other'; tvmrt inspect"):
        module.metadata("other")


def test_library_without_a_network(toolbox):
    with pytest.raises(ValueError, match="was not compiled ahead of time with metadata"):
        toolbox.metadata()
