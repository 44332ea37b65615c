"""Help of commands with many options: common options first, all of them on request."""

from __future__ import annotations

import re

import click
import pytest

from tvmrt.cli import app
from tvmrt.cli.option_groups import GROUPS, GroupedCommand
from tvmrt.compiler import request

MAX_COMMON = 15


def commands() -> dict[str, click.Command]:
    context = click.Context(app.group)
    names = app.group.list_commands(context)
    found = {name: app.group.get_command(context, name) for name in names}
    return {name: c for name, c in found.items() if isinstance(c, GroupedCommand)}


def shown_flags(text: str) -> list[str]:
    return re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)


@pytest.mark.parametrize("name", commands())
def test_short_help_of_each_command_is_short(name, capsys):
    assert app.run([name, "--help"]) == 0
    assert len(shown_flags(capsys.readouterr().out)) <= MAX_COMMON


def test_short_help_of_compile_has_common_options_and_examples(capsys):
    assert app.run(["compile", "--help"]) == 0
    text = capsys.readouterr().out
    flags = shown_flags(text)
    assert {"--output", "--target", "--board", "--dim", "--help-all"} <= set(flags)
    assert "--trace-records" not in flags
    assert text.rstrip().splitlines()[-1].startswith("  tvmrt compile net.onnx -o ")


@pytest.mark.parametrize("name", commands())
def test_help_all_has_every_option_under_a_heading(name, capsys):
    assert app.run([name, "--help-all"]) == 0
    text = capsys.readouterr().out
    command = commands()[name]
    every = [p for p in command.get_params(click.Context(command)) if isinstance(p, click.Option)]
    assert set(shown_flags(text)) == {next(o for o in p.opts if o[:2] == "--") for p in every}
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert [title for title in GROUPS if title in titles] == [t for t in titles if t != "Examples"]
    assert max(map(len, text.splitlines())) <= 80


def test_options_with_several_meanings_have_a_table(capsys):
    tables = {name: row.table for name, row in request.rows().items() if row.table}
    assert {"target", "levels", "max_error"} <= set(tables)
    assert app.run(["compile", "--help-all"]) == 0
    text = capsys.readouterr().out
    for table in tables.values():
        for key in table:  # each meaning begins a line
            first = key.partition(",")[0]
            assert re.search(rf"^ +{first}[,:]", text, re.MULTILINE), key


@pytest.mark.parametrize(
    ("typed", "meant"), [("compil", "compile"), ("verfy", "verify"), ("inspct", "inspect")]
)
def test_a_misspelt_command_is_corrected(typed, meant, capsys):
    assert app.run([typed]) != 0
    assert f"No such command '{typed}'; did you mean {meant}?" in capsys.readouterr().err


def test_a_word_like_no_command_lists_all(capsys):
    assert app.run(["zzz"]) != 0
    assert "No such command 'zzz'; choose from compile, " in capsys.readouterr().err
