"""Generated references: every option, function, operator and member has a text."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys

import click
import pytest
from markdown_pages import ROOT

from tvmrt.cli.schemas import names, tag
from tvmrt.compiler.ir import OPS
from tvmrt.compiler.ir.pointwise import PointwiseOp
from tvmrt.compiler.ir.reduction import ArgReduce, ReduceOp

sys.path.insert(0, str(ROOT / "docs"))
import c_reference
import generate_reference
import json_reference
import operator_reference
import sdk_reference
import site_pages


@pytest.mark.parametrize("name", generate_reference.commands())
def test_every_command_and_option_has_a_text(name):
    command = generate_reference.commands()[name]
    assert command.help
    page = generate_reference.command_line()
    section = page.partition(f"\n## tvmrt {name}\n")[2].partition("\n## ")[0]
    for option in command.params:
        if isinstance(option, click.Option) and option.name not in ("help", "help_all"):
            assert option.help, f"{name} {option.opts}"
            assert re.search(rf"^\| `[^|]*{option.opts[-1]}\b.*\| .+ \|$", section, re.MULTILINE)


def test_every_function_of_the_listed_headers_has_a_text():
    text = c_reference.page()
    for headers in c_reference.GROUPS.values():
        for name in headers:
            header = (c_reference.HEADERS / name).read_text(encoding="utf-8")
            for function in re.findall(r"^TVM_DLL [\w *]+?(\w+)\(", header, re.MULTILINE):
                assert f"{function}(" in text, f"{name}: {function}"
    sections = re.findall(r"^#### (`\w+`)\n\n```c\n.*?\n```(.*?)(?=^#|\Z)", text, re.M | re.S)
    assert len(sections) > 150
    assert not [name for name, words in sections if not words.strip()]


def test_every_operator_has_a_row_or_a_text():
    page = operator_reference.page()
    for name, op in OPS.items():
        if isinstance(op, (PointwiseOp, ReduceOp, ArgReduce)):
            assert f"| `{name}` | `" in page
        else:
            assert f"\n### {name}\n\n" in page
            assert inspect.getdoc(type(op)), name


def test_every_schema_of_the_output_has_a_text():
    page = json_reference.page()
    for name in names():
        section = page.partition(f"\n## {tag(name)}\n\n")[2].partition("\n## ")[0]
        assert re.match(r"\w.{10,}", section), name


def test_every_name_for_plugins_has_a_text():
    rows = re.findall(r"^\| `(\w+)` \| (.*)\|$", sdk_reference.page(), re.MULTILINE)
    assert len(rows) > 200
    assert [name for name, text in rows if not text.strip()] == []


def test_generated_pages_are_written_and_not_in_the_repository():
    pages = generate_reference.pages()
    assert pages.keys() >= {
        goal for goal in site_pages.GENERATED.values() if not site_pages.is_deleted(goal)
    }
    for page in pages:
        assert not (ROOT / page).exists()
        assert page in site_pages.GENERATED.values(), "a section of generated.md stands for it"


@pytest.mark.slow
def test_pages_are_written_into_a_folder(tmp_path):
    script = ROOT / "docs" / "generate_reference.py"
    subprocess.run([sys.executable, script, tmp_path], check=True)
    written = {page.relative_to(tmp_path).as_posix() for page in tmp_path.rglob("*.md")}
    assert written == generate_reference.pages().keys()
    assert "| `Relu` | 1, 6, 13, 14 |" in (tmp_path / "docs/reference/onnx-operators.md").read_text(
        encoding="utf-8"
    )
