"""Behaviour that all subcommands share."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import tvmrt as package
from tvmrt.cli import app

COMMANDS = ["compile", "run", "verify", "bench", "inspect", "config"]


def test_version_is_the_package_version(tvmrt):
    assert tvmrt("--version").stdout.strip() == f"tvmrt {package.__version__}"


def test_help_lists_every_command(tvmrt):
    text = tvmrt("--help").stdout
    assert [name for name in COMMANDS if f"\n  {name} " in text] == COMMANDS
    listed = " ".join(text[text.index("Commands:") :].split())
    assert "doctor Look at this machine, or at files as if they were linked together" in listed
    assert "report Write all data of the network MODEL to one self-contained page" in listed
    assert not re.search(r"\.\.\. [a-z-]+ [A-Z]", listed)  # every sentence is complete


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(tvmrt, command):
    text = tvmrt(command, "--help").stdout
    assert "Usage: tvmrt " + command in text
    assert "--json" in text


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["compose"], id="unknown-command"),
        pytest.param(["inspect"], id="missing-argument"),
        pytest.param(["inspect", "a.onnx", "b.onnx"], id="argument-too-many"),
        pytest.param(["inspect", "--frobnicate", "a.onnx"], id="unknown-option"),
        pytest.param(["bench", "a.onnx", "--threads", "0"], id="number-out-of-range"),
        pytest.param(["bench", "a.onnx", "--threads", "two"], id="not-a-number"),
        pytest.param(["bench", "a.onnx", "--against", "nobody"], id="unknown-rival"),
        pytest.param(["compile", "a.onnx"], id="missing-output"),
        pytest.param(["compile", "a.onnx", "-o", "a.so", "--executor", "vm"], id="unknown-choice"),
    ],
)
def test_usage_error_points_to_help(complaint, arguments):
    assert "--help')" in complaint(*arguments)


def test_command_imports_only_what_it_needs():
    code = (
        "import sys; from tvmrt.cli import main; main(['--help']);"
        "heavy = {'numpy', 'onnx', 'rich', 'tvmrt.compiler.pipeline'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_closed_pipe_is_not_an_error(tvmrt, digits):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as pipe:
        done = tvmrt("inspect", digits / "digits_f32.onnx", stdout=pipe)
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the device /dev/full")
def test_full_disk_when_writing_standard_output(complaint, digits):
    with open("/dev/full", "wb") as full:
        text = complaint("inspect", digits / "digits_f32.onnx", stdout=full)
    assert "standard output: No space left on device" in text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("there is no input x"), "there is no input x"),
        (ValueError("two\n  lines"), "two lines"),
        (FileNotFoundError(errno.ENOENT, "No such file", "a"), "a: No such file; check the path"),
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "No space left on device; free some space, or give another path",
        ),
        (OSError("cannot map the file"), "cannot map the file"),
        (MemoryError(), "out of memory"),
        (RuntimeError(), "RuntimeError"),
        (click.UsageError("no such option"), "no such option"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)  # fmt: skip
def test_error_is_printed_on_one_line(error, text):
    assert app.one_line(error) == text


def test_internal_error_is_reported_as_a_bug(monkeypatch, capsys):
    def fail(_path: Path) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("tvmrt.cli.files.check_file", fail)
    assert app.run(["inspect", "x.onnx"]) == app.CANNOT
    assert "defect in tvmrt: ZeroDivisionError: division by zero" in capsys.readouterr().err


def test_json_is_one_object(tvmrt, digits):
    described = json.loads(tvmrt("inspect", "--json", digits / "digits_f32.onnx").stdout)
    assert described["nodes"] == 12
    assert described["inputs"] == [{"name": "image", "dtype": "float32", "shape": [1, 1, 8, 8]}]


@pytest.mark.parametrize("arguments", [[], ["device"]], ids=["tvmrt", "tvmrt device"])
def test_help_is_shown_without_a_command(tvmrt, arguments):
    done = tvmrt(*arguments, check=False)
    assert done.stdout.startswith("Usage: tvmrt") and "\n  " in done.stdout
    assert done.stderr == ""


def test_minus_one_is_a_valid_exit_code(tvmrt):
    assert "a packed function failed" in tvmrt("explain", "-1").stdout


def test_unknown_output_formats_are_named(complaint, digits, tmp_path):
    for suffix in (".zip", ".ZIP"):
        file = tmp_path / f"net{suffix}"
        message = complaint("compile", digits / "digits_f32.onnx", "-o", file)
        assert f"unknown output format {suffix}" in message and ".so, .tar" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["doctor", "device list"])
def test_table_lines_have_no_trailing_spaces(tvmrt, command):
    lines = tvmrt(*command.split()).stdout.splitlines()
    assert len(lines) > 3 and lines[1].split()
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.slow
def test_compiled_and_uncompiled_networks_are_distinguished(tvmrt, complaint, digits, tmp_path):
    network, library = digits / "digits_f32.onnx", tmp_path / "net.so"
    tvmrt("compile", network, "-o", library)
    assert "tvmrt compile" in complaint("run", network, "--random")
    assert "is a compiled network" in complaint("verify", library)
    assert "--random" in complaint("run", library)
    assert "probabilities" in tvmrt("run", library, "--random").stdout
    assert "no symbol is missing" in tvmrt("doctor", library).stdout


def test_package_has_a_py_typed_marker():
    assert (Path(package.__file__).parent / "py.typed").is_file()
