"""Operators of the IR that declare their ONNX names are imported without an importer function."""

from __future__ import annotations

import numpy as np
import onnx_graph
import pytest
from onnx import helper

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.frontend.onnx.registry import find, onnx_op
from tvmrt.compiler.ir import Op
from tvmrt.compiler.ir.contract import Contract
from tvmrt.compiler.ir.op import ONNX_FORMS, OPS, OnnxName, register
from tvmrt.error import UnsupportedError

X = np.ones((2, 3), np.float32)


class Fold(Op):
    """Operator with an attribute of each kind of source."""

    contract = Contract(
        "x: float32[*S], y?: float32[*] -> z: float32[*S]",
        "axis: axis of x (operand 1), turns: ints (num_turns), "
        "mode: near|far (distance closest=near farthest=far)",
    )


class TurnLeft(Op):
    """One of two operators for one of ONNX."""

    contract = Contract("x: float32[*S] -> z: float32[*S]")


class TurnRight(TurnLeft):
    """The other one."""


@pytest.fixture(scope="module", autouse=True)
def made_up_operators():
    """Register the operators for these tests only: other tests look at all operators."""
    register("made_up_fold", onnx="made.up::Fold")(Fold)
    register("made_up_left", onnx="made.up::Turn(way=LEFT)")(TurnLeft)
    register("made_up_right", onnx="made.up::Turn(way=RIGHT)")(TurnRight)
    yield
    for name in ("made_up_fold", "made_up_left", "made_up_right"):
        onnx = OPS.pop(name).onnx
        ONNX_FORMS.pop((onnx.domain, onnx.name), None)


def graph(op: str, inputs, x=X, axis=-1, **attributes):
    node = helper.make_node(op, inputs, ["z"], "made_up", domain="made.up", **attributes)
    given = {"x": x, **({"y": X} if "y" in inputs else {})}
    constants = {"axis": np.array(axis)} if "axis" in inputs else {}
    return import_model(onnx_graph.model([node], given, ["z"], constants, domains=["made.up"]))


def test_attributes_come_from_operands_other_names_and_names_of_choices():
    found = graph("Fold", ["x", "axis", "y"], num_turns=[1, 2], distance="farthest")
    (node,) = found.nodes
    assert [v.name for v in node.inputs] == ["x", "y"]
    assert node.attrs == {"axis": 1, "turns": (1, 2), "mode": "far"}


def test_attribute_of_older_opsets_is_taken_for_the_operand():
    node = helper.make_node(
        "Fold", ["x"], ["z"], domain="made.up", axis=-2, num_turns=[1], distance="near"
    )
    found = import_model(onnx_graph.model([node], {"x": X}, ["z"], domains=["made.up"]))
    assert found.nodes[0].attrs == {"axis": 0, "turns": (1,), "mode": "near"}


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"axis": 2}, "axis 2 is outside a tensor of rank 2"),
        ({"distance": "away"}, "attribute mode is 'away', expected one of near, far"),
    ],
)
def test_malformed_node_is_refused_by_the_contract(attributes, text):
    attributes = {"num_turns": [1], "distance": "near", **attributes}
    with pytest.raises(ValueError, match=rf"node made_up \(made.up::Fold\): .*{text}"):
        graph("Fold", ["x", "axis"], **attributes)


def test_element_type_without_kernel_is_unsupported():
    with pytest.raises(UnsupportedError, match="float64 elements; only float32 has a kernel"):
        graph("Turn", ["x"], X.astype(np.float64), way="LEFT")


@pytest.mark.parametrize(("way", "op"), [("LEFT", "made_up_left"), ("RIGHT", "made_up_right")])
def test_attribute_selects_one_of_several_operators(way, op):
    assert [node.op for node in graph("Turn", ["x"], way=way).nodes] == [op]


def test_other_value_of_the_selecting_attribute_is_refused():
    with pytest.raises(ValueError, match="way is DOWN; LEFT or RIGHT expected"):
        graph("Turn", ["x"], way="DOWN")


def test_function_precedes_the_derived_importer():
    assert find("made.up", "Turn") is not None
    mine = lambda ctx: ctx.required(0)  # noqa: E731
    derived = find("made.up", "Turn")
    onnx_op("Turn", domain="made.up")(mine)
    assert find("made.up", "Turn") is mine
    onnx_op("Turn", domain="made.up")(derived)


def test_name_that_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match=r"'Bit Shift' is not an ONNX operator, such as"):
        OnnxName.parse("Bit Shift")
