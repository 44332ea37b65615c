"""The guide "Bring your own code generator": its device that generates C source."""

from __future__ import annotations

import numpy as np
import onnx_graph
import pytest
from onnx import helper
from sample_devices import run_library

import tvmrt
from tvmrt import devices
from tvmrt.compiler.devices.ccompiler import CSourceCodegen

RNG = np.random.default_rng(3)
FEEDS = {f"input{i}": RNG.normal(size=(10, 10)).astype(np.float32) for i in range(4)}


def guide_network(shared=False, constant=None):
    """Return the guide's chain of add, subtract and multiply; ``shared`` adds a second result."""
    nodes = [
        helper.make_node("Add", ["input0", "input1"], ["sum"], name="add"),
        helper.make_node("Sub", ["sum", "input2"], ["difference"], name="subtract"),
        helper.make_node("Mul", ["difference", "input3"], ["out"], name="multiply"),
    ]
    weights = {}
    if constant is not None:
        nodes[1].input[1] = "weights"
        weights = {"weights": constant}
    return onnx_graph.model(nodes, FEEDS, ["out", "sum"] if shared else ["out"], weights)


def golden(shared=False, constant=None):
    a, b, c, d = FEEDS.values()
    out = (a + b - (c if constant is None else constant)) * d
    return [out, a + b] if shared else [out]


def text_of(library, device="ccompiler"):
    return library.sources.files[f"tvmgen_default_device_{device}.c"]


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("shared", [False, True], ids=["one-result", "tuple"])
def test_ccompiler_computes_the_guides_network(tmp_path, executor, shared):
    library = tvmrt.compile(guide_network(shared), executor=executor, devices=["ccompiler"])
    library.export(tmp_path / "net.so")
    assert [r.device for r in library.summary.regions] == ["ccompiler"]
    for found, expected in zip(run_library(tmp_path / "net.so", executor, FEEDS), golden(shared)):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_ccompiler_text_has_the_guides_three_functions():
    text = text_of(tvmrt.compile(guide_network(), devices=["ccompiler"]))
    symbol = "tvmgen_default_ccompiler_main_0"
    assert f"CSOURCE_BINARY_OP_2D({symbol}_0, +, 10, 10)" in text
    assert f"{symbol}_1(buf_0, input2, buf_1);" in text
    for function in (f"int32_t {symbol}_(", f"int32_t {symbol}_wrapper_(", f"int32_t {symbol}("):
        assert function in text


@pytest.mark.parametrize("shape", [(10, 10), (10,), (1,), ()], ids=str)
def test_ccompiler_carries_constants(tmp_path, shape):
    constant = RNG.normal(size=shape).astype(np.float32)
    library = tvmrt.compile(guide_network(constant=constant), devices=["ccompiler"])
    library.export(tmp_path / "net.so")
    assert len(library.summary.regions) == 1
    (found,) = run_library(tmp_path / "net.so", "graph", FEEDS)
    np.testing.assert_allclose(found, golden(constant=constant)[0], rtol=1e-5)


def test_packed_function_of_a_region_can_be_called(tmp_path):
    tvmrt.compile(guide_network(), devices=["ccompiler"]).export(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    function = module.get_function("tvmgen_default_ccompiler_main_0", query_imports=True)
    out = tvmrt.nd.empty((10, 10), "float32")
    function(*(tvmrt.nd.array(a) for a in FEEDS.values()), out)
    np.testing.assert_allclose(out.numpy(), golden()[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([helper.make_node("Div", ["input0", "input1"], ["out"], name="n")], "not div"),
        ([helper.make_node("Add", ["input0", "row"], ["out"], name="n")], "broadcasts constants"),
    ],
    ids=["operator", "broadcast"],
)
def test_ccompiler_reports_unsupported_operators(nodes, reason):
    feeds = {"input0": FEEDS["input0"], "input1": FEEDS["input1"], "row": FEEDS["input2"][0]}
    library = tvmrt.compile(onnx_graph.model(nodes, feeds, ["out"]), devices=["ccompiler"])
    (row,) = library.summary.nodes
    assert row.device == "cpu"
    assert reason in row.reason


class ModuleOfC(devices.Device):
    """Device that returns a C source module, as in the guide."""

    name = "module_of_c"

    def supports(self, node):
        return devices.get("ccompiler").supports(node)

    def codegen(self, regions, context):
        module = CSourceCodegen().create_c_source_module(regions)
        assert module.type_key == "c"
        return module


def test_device_may_return_a_c_source_module(tmp_path):
    library = tvmrt.compile(guide_network(), devices=[ModuleOfC()])
    library.export(tmp_path / "net.so")
    (found,) = run_library(tmp_path / "net.so", "graph", FEEDS)
    np.testing.assert_allclose(found, golden()[0], rtol=1e-5)
