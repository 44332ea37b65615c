"""Errors of the check between passes, which name the pass and the node."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from contract_samples import sample

from tvmrt.compiler.ir import DTYPES, OPS, Builder, Graph, Node, TensorType, Value, constant
from tvmrt.compiler.ir.verifier import verify

F32, BOOL = DTYPES["float32"], DTYPES["bool"]


def cell() -> Graph:
    """Return an LSTM with peepholes and lengths, as in the example of its contract."""
    right = sample("lstm")
    graph = Graph("net")
    names = [o.name for o in OPS["lstm"].contract.operands]
    inputs = [
        constant(np.zeros(type.shape, np.float32), name) if name == "r" else Value(name, type)
        for name, type in zip(names, right.types)
    ]
    graph.inputs = [v for v in inputs if not v.is_constant]
    graph.outputs = Builder(graph).emit_many("lstm", inputs, "cell", **right.attrs)
    graph.output_names = ["y", "last", "c"]
    return graph


def replace_input(graph: Graph, name: str, *shape: int) -> None:
    """Replace an operand, as a broken pass might do."""
    node = graph.nodes[0]
    odd = Value(name, TensorType(shape, F32))
    graph.inputs.append(odd)
    node.inputs = [odd if v.name == name else v for v in node.inputs]


def test_valid_graphs_pass():
    verify(cell(), "import")


def break_peepholes(graph: Graph) -> None:
    replace_input(graph, "peepholes", 2)


def break_attribute(graph: Graph) -> None:
    graph.nodes[0].attrs["clip"] = -1.0


def lose_attribute(graph: Graph) -> None:
    del graph.nodes[0].attrs["reverse"]


def add_attribute(graph: Graph) -> None:
    graph.nodes[0].attrs["precision"] = "bfloat16"


def break_result(graph: Graph) -> None:
    graph.nodes[0].outputs[1].type = TensorType((1,), F32)


def break_guard(graph: Graph) -> None:
    condition = Value("condition", TensorType((1,), BOOL))
    graph.inputs.append(condition)
    graph.nodes[0].guard = (condition, True)


def break_constant(graph: Graph) -> None:
    weights = next(v for v in graph.constants())
    weights.data = weights.data.astype(np.float64)


def repeat_output_name(graph: Graph) -> None:
    graph.output_names = ["y", "y", "c"]


def repeat_input(graph: Graph) -> None:
    graph.inputs.append(graph.inputs[0])


def repeat_value(graph: Graph) -> None:
    again = Node("neg", [graph.outputs[0]], {}, "again")
    again.outputs = [graph.outputs[0]]
    graph.nodes.append(again)


def read_too_early(graph: Graph) -> None:
    later = Value("later", graph.nodes[0].inputs[0].type, graph.nodes[0])
    graph.nodes[0].inputs[0] = later


BREAKS = {
    break_peepholes: r"<lstm cell>: operand peepholes is float32\[2\], expected float32\[3\*H\]",
    break_attribute: r"<lstm cell>: attribute clip is -1.0, expected a number not below 0",
    lose_attribute: r"<lstm cell>: attribute reverse is missing",
    add_attribute: r"<lstm cell>: unknown attribute precision",
    break_result: r"<lstm cell> has type .*, its inputs give ",
    break_guard: r"<lstm cell> has guard %condition: bool\[1\], expected a bool scalar",
    break_constant: r"%r: float32\[.*\] has data of float64\[",
    repeat_output_name: r"two outputs are named y",
    repeat_input: r"input %x: .* is listed twice",
    repeat_value: r"%cell: .* has more than one producer",
    read_too_early: r"<lstm cell> reads %later: .* before it is computed",
}


@pytest.mark.parametrize("run, sentence", BREAKS.items(), ids=lambda v: getattr(v, "__name__", ""))
def test_a_pass_that_breaks_the_graph_is_named(run, sentence):
    graph = cell()
    run(graph)
    with pytest.raises(ValueError, match=f"after some-pass: {sentence}"):
        verify(graph, "some-pass")


@pytest.mark.parametrize(
    "variable, stage", [("1", "break_attribute"), (None, "the passes")], ids=["each", "all"]
)
def test_every_pass_is_verified_where_the_environment_asks_for_it(monkeypatch, variable, stage):
    module = importlib.import_module("tvmrt.compiler.transform.optimize")
    passes = (("break_attribute", break_attribute), ("nothing", lambda graph: None))
    monkeypatch.setattr(module, "PASSES", passes)
    if variable is None:
        monkeypatch.delenv("TVMRT_VERIFY_PASSES")
    with pytest.raises(ValueError, match=f"after {stage}: <lstm cell>: attribute clip is -1.0"):
        module.optimize(cell(), lambda name, graph: None)


@pytest.mark.parametrize("run", [lose_attribute, add_attribute], ids=lambda f: f.__name__)
def test_device_region_may_have_private_attributes(run):
    graph = cell()
    run(graph)
    verify(graph, "npu.optimize", open=True)


def test_device_region_must_keep_shapes():
    graph = cell()
    break_peepholes(graph)
    with pytest.raises(ValueError, match=r"after npu\.optimize: <lstm cell>: operand peepholes"):
        verify(graph, "npu.optimize", open=True)


@pytest.mark.parametrize("shape", [(1 << 31,), (1 << 16, 1 << 16)], ids=str)
def test_oversized_input_is_rejected(shape):
    graph = Graph("net")
    graph.inputs = [Value("x", TensorType(shape, F32))]
    with pytest.raises(ValueError, match=r"input x is float32\[.*2147483647"):
        verify(graph, "import")


def test_error_in_emitted_node_is_named():
    graph = Graph("net")
    x = Value("x", TensorType((2, 3), F32))
    with pytest.raises(ValueError, match='softmax "soft": attribute axis is 2, expected an axis'):
        Builder(graph).emit("softmax", [x], "soft", axis=2)
