"""Interface of lowerings: the methods that exist, and the one that a class must implement."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.compiler.codegen import lowering, lowering_protocols
from tvmrt.compiler.codegen.lowering import Lowering
from tvmrt.compiler.frontend.onnx import registry
from tvmrt.compiler.ir.contract import Contract
from tvmrt.compiler.ir.op import OPS, Op

METHODS = {
    "Lowering": "operands accepts_epilogue demand result_layout scratch in_place macs emit",
    "RowWise": "row_operand",
    "RowFusable": "row_layer row_step emit_rows row_costs",
    "DepthFirstFusable": "depth_first_layer depth_first_width print_depth_first",
    "Nested": "build_subprograms",
}


def test_interfaces_do_not_grow():
    modules = (lowering, lowering_protocols)
    classes = {n: c for m in modules for n, c in inspect.getmembers(m, inspect.isclass)}
    interfaces = {n: c for n, c in classes.items() if issubclass(c, Lowering)}
    assert interfaces.keys() == METHODS.keys() | {"ImageLowering"}
    for name, methods in METHODS.items():
        members = vars(interfaces[name]).items()
        found = {n for n, m in members if inspect.isroutine(m) or isinstance(m, property)}
        assert {n for n in found if not n.startswith("_")} == set(methods.split()), name
    own = {n for n in vars(interfaces["ImageLowering"]) if not n.startswith("_")}
    assert own <= set(METHODS["Lowering"].split())


class Reversed(Op):
    contract = Contract("x: float32[*S] -> y: float32[*S]")


class ReversedLowering(Lowering):
    def emit(self, step, f):
        count = self.node.output.type.size
        with f.loop("i", count):
            f.line(f"{f.write()}[i] = {f.read(0)}[{count} - 1 - i];")


@pytest.fixture
def reversed_operator(monkeypatch):
    """Add an operator whose lowering has ``emit`` alone."""
    made = Reversed()
    made.name = "reversed"
    monkeypatch.setitem(OPS, made.name, made)
    monkeypatch.setitem(lowering._TABLE, made.name, ReversedLowering)
    importer = lambda ctx: ctx.emit("reversed", [ctx.required(0)])  # noqa: E731
    monkeypatch.setitem(registry._TABLE, ("own", "Reversed"), importer)


@pytest.mark.usefixtures("reversed_operator")
def test_lowering_needs_emit_alone(tmp_path):
    """Its operand is transposed for it, and the result is read by another step."""
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("Reversed", ["t"], ["r"], domain="own"),
        helper.make_node("Relu", ["r"], ["y"]),
    ]
    network = model(nodes, {"x": x}, ["y"], domains=["own"])
    tvmrt.compile(network).export_library(tmp_path / "net.so")
    y = tvmrt.load(tmp_path / "net.so")(x)
    wanted = np.maximum(x.T[::-1, ::-1], 0)
    np.testing.assert_array_equal(y, wanted)
    board = tvmrt.compile(network, target="cortex-m4", ram=128)  # two tensors
    assert "reversed" in {row.op for row in board.summary.operators}
