"""Options of tvmrt.compile are defined once, for Python and for the command line."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import tvmrt
from tvmrt.cli import main
from tvmrt.cli.compile import command
from tvmrt.compiler import option_rules
from tvmrt.compiler.request import Request, rows

ROOT = Path(__file__).parents[3]
BOARD = ("--target", "cortex-m4")
C_INTERFACE = ("--interface-api", "c", "--unpacked-api")

# A command line for each invalid combination, by words of its error.
REFUSED = {
    "the host runtime calls networks by packed functions only": ("--unpacked-api",),
    "interface-api c passes raw pointers": (
        *BOARD, "--interface-api", "c", "--no-unpacked-api",
    ),
    "the graph executor calls operators by packed functions": (
        *BOARD, "--executor", "graph", *C_INTERFACE,
    ),
    "read weights in place, not from a file": (*BOARD, "--params", "file"),
    "a function of tvm-ffi is one call of the whole network": (
        "--abi", "tvm-ffi", "--executor", "graph",
    ),
    "schedule async is for hosts": (*BOARD, "--schedule", "async"),
    "trace-records needs profile or record": (*BOARD, "--trace-records", "3"),
    "profile and record are for networks of the crt runtime": ("--profile",),
    "levels need an operating system that loads the library": (
        "--target", "x86-64", "--runtime", "crt",
    ),
    "profile and record need unpacked-api": (
        *BOARD, "--record", "--no-unpacked-api",
    ),
    "trace-records is 16777217": (
        *BOARD, *C_INTERFACE, "--record", "--trace-records", "16777217",
    ),
    "the graph executor uses a single memory arena": (
        *BOARD, "--executor", "graph", "--pool", "sram=1000",
    ),
    "memory pools need runtime crt": ("--pool", "sram=1000"),
    "ram needs runtime crt with executor aot": ("--ram", "1000"),
    "place needs runtime crt": ("--place", "a=flash"),
    "workspace-io needs runtime crt and interface-api c": ("--workspace-io",),
    "dynamic dimensions on boards need executor aot": (
        *BOARD, "--no-unpacked-api", "--dim", "n=1..4",
    ),
    "record does not support dynamic dimensions": (
        *BOARD, *C_INTERFACE, "--record", "--dim", "n=1..4",
    ),
    "max-error needs mixed-precision, precision bf16, weights or winograd": ("--max-error", "0.1"),
    "max-error is 0.0; it must be a number": ("--weights", "int8", "--max-error", "0"),
    "max-error applies to one of mixed-precision, precision, weights and winograd": (
        "--weights", "int8", "--max-error", "0.1", "--mixed-precision", "bf16",
    ),
    "winograd needs runtime host": ("--winograd", "--target", "cortex-m4"),
    "row-chains needs runtime host": ("--no-row-chains", "--target", "cortex-m4"),
    "max-error of precision bf16 is measured on inputs of the network; give calibration": (
        "--precision", "bf16", "--max-error", "0.1",
    ),
    "precision bf16 needs runtime host": (*BOARD, "--precision", "bf16"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED, ids=lambda text: text.replace(" ", "-")[:40])
def test_invalid_combinations_are_refused_by_the_command(digits, tmp_path, capsys, sentence):
    out = tmp_path / "out.tar"
    code = main(["compile", str(digits / "digits_f32.onnx"), "-o", str(out), *REFUSED[sentence]])
    assert code == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_every_rule_has_its_command_line():
    messages = [rule.sentence.split(" {")[0] for rule in option_rules.RULES]
    for sentence in messages:
        assert any(words in sentence or sentence in words for words in REFUSED), sentence
    assert len(messages) == len(REFUSED)


@pytest.mark.parametrize("name", [name for name, row in rows().items() if row.flag])
def test_command_has_the_option_with_the_same_default(name):
    row = rows()[name]
    context = click.Context(command)
    (option,) = (p for p in command.get_params(context) if p.name == name)
    assert row.flag.split("/")[0] in option.opts
    if name == "module_name":  # with several networks, names come from the files
        return
    found = option.get_default(context)
    assert (found or None) == (row.default or None)


def test_signature_and_docstring_name_every_option():
    documented = inspect.getdoc(tvmrt.compile)
    parameters = inspect.signature(tvmrt.compile).parameters
    for name in rows():
        assert name in parameters
        assert f"\n{name}\n    " in documented


# A program in which the table of options has one more row, which no other file names.
ONE_MORE_ROW = """
import importlib.machinery, importlib.util, inspect, sys

ROW = b'''
    tempo: float | None = _option(
        None, "How fast it goes.", unit="seconds", kind="float", form="TIME", group="Boards",
        commands=("bench",), choose=lambda request, hosted: 2.0 if hosted else 1.0,
    )
'''

class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        source = self.get_data(self.path).replace(b"    requantize:", ROW + b"    requantize:")
        return compile(source, self.path, "exec")

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "tvmrt.compiler.request":
            return None
        file = sys.argv[1] + "/../python/tvmrt/compiler/request.py"
        return importlib.util.spec_from_loader(name, Loader(name, file))

sys.meta_path.insert(0, Finder)
sys.path.insert(0, sys.argv[1])
import tvmrt
import click, generate_reference, option_types
from tvmrt.cli import main

MODEL, OUT = sys.argv[2:]
assert inspect.signature(tvmrt.compile).parameters["tempo"].annotation == "float | None"
assert inspect.signature(tvmrt.load).parameters["tempo"].default is None
assert "tempo\\n    How fast it goes." in inspect.getdoc(tvmrt.load)
assert tvmrt.compile(MODEL).manifest["options"]["tempo"] == 2.0
assert tvmrt.compile(MODEL, tempo=3.5).manifest["options"]["tempo"] == 3.5
assert "    tempo: float | None\\n" in option_types.text()
page = generate_reference.command_line()
assert page.count("| `--tempo TIME` | How fast it goes. |") == 3  # compile, compile-together, bench
assert main(["compile", MODEL, "-o", OUT, "--tempo", "250ms"]) == 0
assert main(["compile", "--help-all"]) == 0
assert main(["compile", MODEL, "-o", OUT, "--tempo", "3 feet"]) == 2
"""


def test_an_option_needs_its_row_only(digits, tmp_path):
    words = [ROOT / "docs", digits / "digits_f32.onnx", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-c", ONE_MORE_ROW, *map(str, words)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (manifest,) = (tmp_path / "out").glob("*manifest.json")
    assert json.loads(manifest.read_text())["options"]["tempo"] == 0.25
    assert re.search(r"^Boards:.*^  --tempo TIME +How fast it goes", done.stdout, re.M | re.S)
    assert "'--tempo': '3 feet' is not a time; write 10s, 500ms" in done.stderr


def test_options_may_be_given_as_one_object(digits):
    model = digits / "digits_f32.onnx"
    record = Request(executor="aot", module_name="net")
    by_record = tvmrt.compile(model, record)
    by_name = tvmrt.compile(model, executor="aot", module_name="net")
    assert by_record.sources.files == by_name.sources.files


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param({"exectuor": "aot"}, "did you mean executor", id="misspelt"),
        pytest.param({"qqq": 1}, "choose from executor, ", id="unknown"),
        pytest.param({"request": Request(), "executor": "aot"}, "in one tvmrt.Request", id="both"),
        pytest.param({"request": "aot"}, "pass options by keyword", id="no-record"),
        pytest.param({"devices": "npu"}, r"devices: give a list, \['npu'\]", id="no-list"),
        pytest.param({"require_device": True}, r"device: give a list, \[True\]", id="one-value"),
        pytest.param({"require_device": [1]}, "require_device: give text, not 1", id="no-name"),
        pytest.param({"board": 3}, "board: give text, not 3", id="no-text"),
        pytest.param({"dims": "n=1..3"}, "dims: give a dict of names and values", id="no-dict"),
        pytest.param({"winograd": "no"}, "winograd: give True or False, not 'no'", id="no-bool"),
        pytest.param({"max_memory": "1e9"}, "max_memory: give a whole number", id="no-number"),
        pytest.param({"max_memory": 1e9}, "max_memory: give a whole number", id="no-integer"),
        pytest.param({"max_memory": True}, "max_memory: give a whole number", id="no-truth"),
    ],
)
def test_unknown_options_are_refused(digits, call, words):
    with pytest.raises(TypeError, match=words):
        tvmrt.compile(digits / "digits_f32.onnx", **call)


@pytest.mark.parametrize("option", ["max_memory", "ram", "trace_records"])
@pytest.mark.parametrize("value", [0, -5, np.int64(-1)])
def test_numbers_that_are_too_small(digits, option, value):
    with pytest.raises(ValueError, match=f"{option}: give a number of at least 1, not {value}"):
        tvmrt.compile(digits / "digits_f32.onnx", **{option: value})
