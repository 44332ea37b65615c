"""Device reports of the command line, as text and as JSON."""

from __future__ import annotations

import json

import onnx
import pytest
from dense_network import two_layers
from test_regions import diamond

import tvmrt
from tvmrt import devices
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


def test_json_has_nodes_regions_and_boundaries(compile_):
    code, printed, _ = compile_("--device", "ccompiler", "--json")
    assert code == 0
    report = json.loads(printed)
    assert {row["device"] for row in report["nodes"]} == {"ccompiler"}
    assert [row["op_type"] for row in report["nodes"]] == ["Add", "Mul", "Sub", "Add"]
    (region,) = report["regions"]
    assert region["operators"] == ["add", "mul", "sub", "add"]
    assert (region["input_bytes"], region["output_bytes"]) == (240, 160)
    assert {(row["source"], row["target"]) for row in report["borders"]} == {
        ("cpu", "ccompiler"),
        ("ccompiler", "cpu"),
    }


def test_tables_say_which_device_and_why_not(compile_):
    code, printed, _ = compile_("--device", "ccompiler", "--explain")
    assert code == 0
    for text in (
        "reason",
        "tvmgen_default_ccompiler_main_0",
        "in place",
        "cross region boundaries",
    ):
        assert text in printed


def test_tables_of_devices_only_where_they_are_asked_for(compile_):
    assert "reason" not in compile_("--explain")[1]


def test_reason_names_the_device_once(compile_):
    _, printed, _ = compile_("--device", "npu_that_is_none,ccompiler")
    assert printed == ""
    rows = json.loads(compile_("--device", "cpu,ccompiler", "--json")[1])["nodes"]
    assert rows[0]["reason"] == "cpu is cheaper or listed before ccompiler"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--device", "nothing"], "device nothing is not known"),
        (["--device", "ccompiler", "--require-device", "npu"], "npu is not among the devices"),
        (["--device", "cpu", "--require-device", "cpu:Add,cpu"], None),
        (["--device-option", "ccompiler"], "does not have the form"),
        (["--device-option", "a=b"], "does not have the form"),
        (["--max-error", "0.1"], "--max-error needs --mixed-precision"),
        (["--mixed-precision", "bf16", "--max-error", "0.1"], "give --calibration"),
    ],
)
def test_unsupported_device_requests(compile_, arguments, problem):
    code, _, message = compile_(*arguments)
    if problem is None:
        assert code == 0, message
    else:
        assert code == 2
        assert problem in message


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], {}),
        (["a:n=1", "a:x=1.5", "b:on=true", "b:off=false", "b:t=some text"],
         {"a": {"n": 1, "x": 1.5}, "b": {"on": True, "off": False, "t": "some text"}}),
    ],
    ids=["none", "of-every-kind"],
)  # fmt: skip
def test_device_options(texts, expected):
    from tvmrt.compiler.option_values import parse_device_options

    assert parse_device_options(texts) == expected


class Layers(devices.PythonDevice):
    """Device with a compiler part that takes layers."""

    name = "layers"

    def supports(self, node):
        return None if node.op in ("matmul", "add", "relu") else f"layers takes no {node.op}"


def test_network_on_one_device_copies_inputs_and_outputs_only():
    """Counted in bytes of its boundaries; weights of the device count as the network's."""
    model, weights = two_layers()
    summary = tvmrt.compile(model, devices=[Layers()]).summary
    crossing = {row.tensor: row.nbytes for row in summary.borders}
    assert crossing == {"x": 4 * 64 * 4, "y": 4 * 10 * 4}
    assert not any(row.copied for row in summary.borders)
    assert [row.nbytes for row in summary.plan] == []
    stored = sum(array.nbytes for array in weights)
    assert summary.weights_bytes == stored
    assert [row.weights_bytes for row in summary.regions] == [stored]
