"""What the command line says of devices, to people and to programs."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_regions import diamond

import tvmrt
from tvmrt.cli import app


@pytest.fixture
def model(tmp_path):
    onnx.save(diamond(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def compile_(model, tmp_path, capsys):
    def run(*arguments):
        code = app.run(["compile", str(model), "-o", str(tmp_path / "net.so"), *arguments])
        return code, *capsys.readouterr()

    return run


def test_json_has_nodes_regions_and_borders(compile_):
    code, printed, _ = compile_("--device", "ccompiler", "--json")
    assert code == 0
    told = json.loads(printed)
    assert {row["device"] for row in told["nodes"]} == {"ccompiler"}
    assert [row["op_type"] for row in told["nodes"]] == ["Add", "Mul", "Sub", "Add"]
    (region,) = told["regions"]
    assert region["operators"] == ["add", "mul", "sub", "add"]
    assert (region["input_bytes"], region["output_bytes"]) == (240, 160)
    assert {(row["source"], row["target"]) for row in told["borders"]} == {
        ("cpu", "ccompiler"),
        ("ccompiler", "cpu"),
    }


def test_tables_say_which_device_and_why_not(compile_):
    code, printed, _ = compile_("--device", "ccompiler", "--explain")
    assert code == 0
    for text in (
        "why no other",
        "tvmgen_default_ccompiler_main_0",
        "in place",
        "cross region boundaries",
    ):
        assert text in printed


def test_tables_of_devices_only_where_they_are_asked_for(compile_):
    assert "why no other" not in compile_("--explain")[1]


def test_reason_says_once_whose_it_is(compile_):
    _, printed, _ = compile_("--device", "tpu_that_is_none,ccompiler")
    assert printed == ""
    rows = json.loads(compile_("--device", "cpu,ccompiler", "--json")[1])["nodes"]
    assert rows[0]["reason"] == "cpu is cheaper or named before ccompiler"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--device", "nothing"], "device nothing is not known"),
        (["--device", "ccompiler", "--require-device", "npu"], "npu is none of the devices"),
        (["--device", "cpu", "--require-device", "cpu:Add,cpu"], None),
        (["--device-option", "ccompiler"], "does not have the form"),
        (["--device-option", "a=b"], "does not have the form"),
        (["--max-error", "0.1"], "are for mixed-precision"),
        (["--mixed-precision", "bf16", "--max-error", "0.1"], "give calibration"),
    ],
)
def test_requests_that_cannot_be_met(compile_, arguments, problem):
    code, _, said = compile_(*arguments)
    if problem is None:
        assert code == 0, said
    else:
        assert code == 2
        assert problem in said


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        ([], {}),
        (["a:n=1", "a:x=1.5", "b:on=true", "b:off=false", "b:t=some text"],
         {"a": {"n": 1, "x": 1.5}, "b": {"on": True, "off": False, "t": "some text"}}),
    ],
    ids=["none", "of-every-kind"],
)  # fmt: skip
def test_device_options(texts, wanted):
    from tvmrt.cli.options import parse_device_options

    assert parse_device_options(texts) == wanted


def test_whole_network_on_a_device_moves_inputs_and_outputs_alone(tmp_path):
    """By the bytes of its borders; and the device's weights are weights of the network."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((64, 48), (48,), (48, 10))]
    names = ["w0", "b0", "w1"]
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["p"], name="p"),
        helper.make_node("Add", ["p", "b0"], ["a"], name="a"),
        helper.make_node("Relu", ["a"], ["r"], name="r"),
        helper.make_node("MatMul", ["r", "w1"], ["y"], name="y"),
    ]
    kind = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "layers", [helper.make_tensor_value_info("x", kind, [4, 64])],
        [helper.make_tensor_value_info("y", kind, [4, 10])],
        [numpy_helper.from_array(a, n) for n, a in zip(names, weights)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    summary = tvmrt.compile(model, devices=["tpu"]).summary
    crossing = {row.tensor: row.nbytes for row in summary.borders}
    assert crossing == {"x": 4 * 64 * 4, "y": 4 * 10 * 4}
    assert not any(row.copied for row in summary.borders)
    assert [row.nbytes for row in summary.plan] == []
    stored = sum(array.nbytes for array in weights)
    assert summary.weights_bytes == stored
    assert [row.weights_bytes for row in summary.regions] == [stored]
    # of kernels that a device made of them, too
    (region,) = tvmrt.compile(model, devices=["opencl"]).summary.operators
    assert region.macs == 4 * 48 * 64 + 4 * 10 * 48
