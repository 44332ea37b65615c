"""Output of ``--json`` matches the schema of ``tvmrt schema``, checked with jsonschema."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tvmrt.cli import console, main, schema_types, schemas

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_f32.onnx"


@pytest.fixture
def held(capsys):
    """Run a command with --json, validate the output against its schema, and return it."""

    def run(form, *arguments, code=0):
        capsys.readouterr()
        assert main([*map(str, arguments), "--json"]) == code
        printed = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert main(["schema", form]) == 0
        schema = json.loads(capsys.readouterr().out)
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(printed)
        return printed

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with digits.so, digits.tar for a board, and inputs."""
    path = tmp_path_factory.mktemp("schemas")
    assert main(["compile", str(DIGITS), "-o", str(path / "digits.so")]) == 0
    board = ["--target", "cortex-m4", "--interface-api", "c", "--ram", "100000"]
    assert main(["compile", str(DIGITS), "-o", str(path / "digits.tar"), *board]) == 0
    return path


def test_compile(held, tmp_path):
    printed = held("compile", "compile", DIGITS, "-o", tmp_path / "net")
    assert {"arena_bytes", "operators", "plan"} <= set(printed)
    assert isinstance(printed["seconds"], dict)


def test_compile_several_for_a_board(held, tmp_path):
    second = tmp_path / "second.onnx"
    shutil.copy(DIGITS, second)
    board = ["--target", "cortex-m4", "--interface-api", "c"]
    printed = held("compile", "compile", DIGITS, second, "-o", tmp_path / "net.tar", *board)
    assert list(printed["networks"]) == ["digits_f32", "second"]
    assert "footprint" in printed


@pytest.mark.slow
def test_run_and_bench(held, folder):
    library = folder / "digits.so"
    printed = held("run", "run", library, "--random", "--repeat", "3", "--profile")
    assert np.shape(printed["outputs"]["probabilities"]["values"]) == (1, 10)
    assert len(printed["seconds"]) == 3
    held("bench", "bench", library, "--seconds", "0.01")


@pytest.mark.parametrize("name", ["digits.so", "digits.tar", DIGITS], ids=str)
def test_inspect(held, folder, name):
    printed = held("inspect", "inspect", folder / name)
    if name == "digits.tar":
        pools = printed["memory"]["digits_f32" if "digits_f32" in printed["memory"] else "default"]
        assert pools["workspace_bytes"] >= pools["lower_bound_bytes"] > 0
        assert "RAM workspace" not in printed
    assert printed["file"] == str(folder / name)


def test_inspect_params_and_graphs(held, folder, tmp_path):
    from tvmrt import save_param_dict
    from tvmrt.runtime import load_module

    (tmp_path / "net.params").write_bytes(save_param_dict({"w": np.zeros((2, 3), np.float32)}))
    (tmp_path / "net.json").write_text(load_module(folder / "digits.so")["get_graph_json"]())
    held("inspect", "inspect", tmp_path / "net.params")
    held("inspect", "inspect", tmp_path / "net.json")


@pytest.mark.slow
def test_verify(held):
    pytest.importorskip("onnxruntime")
    printed = held("verify", "verify", DIGITS)
    assert printed["wrong"] == 0


def test_report(held, tmp_path):
    pytest.importorskip("jinja2")
    if "report" not in schemas.names():
        pytest.skip("no plug-in writes reports")
    path = tmp_path / "report.json"
    printed = held("report", "report", DIGITS, "-o", path)
    written = json.loads(path.read_text())
    assert {**written, "schema": printed["schema"]} == printed


def test_small_commands(held, folder, tmp_path):
    held("cache", "cache", "--folder", tmp_path / "cache")
    held("cache", "cache", "--clear", "--folder", tmp_path / "cache")
    held("config", "config")
    assert set(held("config", "config", "--prefix")) == {"schema", "prefix"}
    held("explain", "explain", "0x0503")
    held("device-list", "device", "list")
    held("device-new", "device", "new", "mine", "-o", tmp_path)
    held("doctor-files", "doctor", folder / "digits.so")


def test_doctor(held, monkeypatch):
    monkeypatch.setenv("CC", shutil.which("cc") or "gcc")
    held("doctor", "doctor")


def test_every_json_format_is_listed_with_its_command(capsys):
    assert main(["schema"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*schemas.names(), "regions"]
    assert all("tvmrt " in line for line in lines)


def test_non_finite_numbers_are_strings_in_json(held, tmp_path):
    """Divide by zero; IEEE 754 defines the quotients."""
    graph = helper.make_graph(
        [helper.make_node("Div", ["x", "y"], ["z"])],
        "quotients",
        [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]) for name in "xy"],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, [4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    np.savez(tmp_path / "in.npz", x=np.float32([1, -1, 0, 3]), y=np.float32([0, 0, 0, 2]))
    assert main(["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.so")]) == 0
    printed = held("run", "run", tmp_path / "net.so", "--inputs", tmp_path / "in.npz")
    assert printed["outputs"]["z"]["values"] == ["Infinity", "-Infinity", "NaN", 1.5]


def test_output_that_violates_its_schema_is_found():
    """An additional member, a missing one and a wrong type violate the schema."""
    from tvmrt.cli.schemas import schema

    valid = {"schema": "tvmrt/explain/1", "error": "a", "cause": "b", "remedy": "c"}
    validator = jsonschema.Draft202012Validator(schema("explain"))
    assert validator.is_valid(valid)
    for wrong in ({**valid, "more": 1}, {**valid, "cause": 1}, {"schema": valid["schema"]}):
        assert not validator.is_valid(wrong)


@dataclasses.dataclass
class Part:
    """Part of a machine.

    ``rows``: Shape by name, with ``None`` for scalars. ``size``: Bytes.
    """

    rows: dict[str, tuple[int | str, ...] | None]
    size: int
    seconds: float = 0.0


@dataclasses.dataclass
class Machine:
    """Machine. ``parts``: In order of assembly."""

    parts: list[Part]
    error: float | None
    left: Sequence[str] = ()


def test_dataclass_defines_its_record():
    """A new field, type and description need no change elsewhere."""
    form = schema_types.of(Machine, "A machine.", left_=schema_types.integer())
    assert form["description"] == "A machine."
    assert form["required"] == ["parts", "error"] and list(form["properties"])[-1] == "left"
    parts = form["properties"]["parts"]
    assert parts["description"] == "In order of assembly."
    assert parts["items"]["properties"]["rows"]["description"] == (
        "Shape by name, with ``None`` for scalars."
    )
    valid = {"parts": [{"rows": {"a": [1, "n"], "b": None}, "size": 3, "seconds": 0.5}]}
    valid |= {"error": "NaN"}
    validator = jsonschema.Draft202012Validator(form)
    assert validator.is_valid(valid) and validator.is_valid({**valid, "error": None, "left": 1})
    (part,) = valid["parts"]
    wrong = ({"size": -1}, {"seconds": "NaN"}, {"rows": {"a": [1.5]}}, {"more": 1})
    for change in wrong:
        assert not validator.is_valid({**valid, "parts": [{**part, **change}]})
    assert not validator.is_valid({**valid, "error": "much"})
    opaque = dataclasses.make_dataclass("Opaque", [("path", Path)])
    with pytest.raises(TypeError, match=r"Opaque\.path: pathlib\.Path has no schema"):
        schema_types.of(opaque)


def test_schemas_need_no_compiler():
    """A machine that only runs libraries prints all schemas of the command."""
    code = (
        "import sys; sys.modules.update(dict.fromkeys(['onnx', 'jinja2', 'flatbuffers']))\n"
        "from tvmrt.cli import schemas\n"
        "for name in schemas.FORMS: schemas.schema(name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_numpy_scalars_are_json_numbers(capsys):
    console.print_json("explain", {"a": np.float32(1.5), "b": np.int64(2), "c": (np.bool_(True),)})
    printed = json.loads(capsys.readouterr().out)
    assert (printed["a"], printed["b"], printed["c"]) == (1.5, 2, [True])
