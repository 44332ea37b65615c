"""Options of tvmrt.compile are defined once, for Python and for the command line."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import tvmrt
from tvmrt.cli.compile import command
from tvmrt.compiler.request import Request, rows

ROOT = Path(__file__).parents[3]


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
assert inspect.signature(tvmrt.compile).parameters["tempo"].default is None
assert "tempo\\n    How fast it goes." in inspect.getdoc(tvmrt.compile)
assert tvmrt.compile(MODEL).manifest["options"]["tempo"] == 2.0
assert tvmrt.compile(MODEL, tempo=3.5).manifest["options"]["tempo"] == 3.5
assert "    tempo: float | None\\n" in option_types.text()
page = generate_reference.command_line()
assert page.count("| `--tempo TIME` | How fast it goes. |") == 2  # compile, bench
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
        pytest.param({"qqq": 1}, r"; help\(tvmrt\.load\) shows", id="unknown"),
        pytest.param({"request": Request(), "executor": "aot"}, "in one tvmrt.Request", id="both"),
        pytest.param({"request": "aot"}, "pass options by keyword", id="no-record"),
    ],
)
def test_unknown_options_are_refused(digits, call, words):
    with pytest.raises(TypeError, match=words):
        tvmrt.compile(digits / "digits_f32.onnx", **call)
