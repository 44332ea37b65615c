"""The options ``--quiet`` and ``--verbose`` of all commands."""

from __future__ import annotations

import click
import pytest

import tvmrt
from tvmrt.cli import main, verbosity
from tvmrt.cli.app import group

NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
g (float[batch, 3] x) => (float[pairs, 6] y) {
    s = Constant<value_ints=[-1, 6]>() y = Reshape(x, s) }"""
NARROWED = ["--dim", "batch<=8"]  # the note says that it must be even


@pytest.fixture
def compile_(tmp_path, monkeypatch, capsys):
    """Compile a network with an open batch; return the exit code and standard error."""
    import onnx

    monkeypatch.chdir(tmp_path)
    onnx.save(onnx.parser.parse_model(NETWORK), "net.onnx")

    def run(*arguments):
        code = main([*arguments, "-o", "net.so"])
        return code, capsys.readouterr().err

    return run


def test_every_command_has_both_options():
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        flags = {flag for each in command.params for flag in each.opts}
        assert {"-q", "--quiet", "-v", "--verbose"} <= flags, name


@pytest.mark.parametrize("before", [True, False])
def test_quiet_leaves_out_notes_and_verbose_adds_stages(compile_, before):
    for flags, expected in (([], "note"), (["-q"], ""), (["--verbose"], "tvmrt: import (1/")):
        command = [*flags, "compile", "net.onnx"] if before else ["compile", "net.onnx", *flags]
        code, printed = compile_(*command, *NARROWED)
        assert code == 0
        assert (expected in printed) if expected else (printed == "")
        assert ("(1/" in printed) == (flags == ["--verbose"])


def test_verbose_counts_stages_as_a_first_load_does(compile_, tmp_path, monkeypatch, capsys):
    _, printed = compile_("compile", "--verbose", "net.onnx")
    monkeypatch.setenv("TVMRT_PROGRESS", "1")
    monkeypatch.chdir(tmp_path)
    tvmrt.load("net.onnx", cache=False)
    first_load = capsys.readouterr().err
    lines, others = (
        [line for line in text.splitlines() if line.endswith("/7)")]
        for text in (printed, first_load.replace("net.onnx: ", ""))
    )
    assert lines == others
    assert (lines[0], lines[-1]) == ("tvmrt: import (1/7)", "tvmrt: C compiler (7/7)")


def test_verbose_shows_where_an_error_comes_from(compile_):
    code, printed = compile_("compile", "-v", "net.onnx", "--target", "no-such-machine")
    assert code == 2
    assert "Traceback" in printed and "target.py" in printed
    assert printed.splitlines()[-1].startswith("tvmrt: error: --target no-such-machine is not ")
    code, printed = compile_("compile", "-q", "net.onnx", "--target", "no-such-machine")
    assert code == 2 and printed.startswith("tvmrt: error: ") and printed.count("\n") == 1


def test_the_level_belongs_to_one_command_line(compile_):
    compile_("compile", "-q", "net.onnx", *NARROWED)
    assert verbosity.level() is verbosity.Level.QUIET
    assert "note" in compile_("compile", "net.onnx", *NARROWED)[1]
