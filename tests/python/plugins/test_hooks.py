"""Hooks of the core that plug-ins implement; a missing hook is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed_plugins import install

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"


def _inspect(file, output, as_json, **options):
    print(file, output, as_json, options["board"], options["clock"], options["scale"])


@pytest.fixture
def added(monkeypatch):
    """Install a plug-in with one hook, and no other plug-in."""
    mine = plugin.Plugin("mine", "for tests", hooks={"inspect board": f"{__name__}:_inspect"})
    install(monkeypatch, mine)


@pytest.fixture
def command(tmp_path):
    (tmp_path / "net.tar").write_bytes(b"")
    return ["inspect", str(tmp_path / "net.tar"), "--board", "nrf52"]


def test_hook_gets_the_request(added, command, capsys):
    assert main([*command, "--clock", "32"]) == 0
    assert capsys.readouterr().out == f"{command[1]} None False nrf52 32.0 1.0\n"


def test_hook_of_an_absent_plugin_is_rejected(added, command, capsys, monkeypatch):
    monkeypatch.setenv(plugin.VARIABLE, "-mine")
    assert main(command) == 2
    said = capsys.readouterr().err
    assert "inspect --board is not available: the plug-in mine has inspect board, but TVMRT" in said


@pytest.fixture
def none(monkeypatch):
    """Remove all plug-ins."""
    install(monkeypatch)


def test_hook_that_no_plugin_has_is_refused(none, command, capsys):
    assert main(command) == 2
    assert "inspect --board is not available: no plug-in has it" in capsys.readouterr().err


def test_a_report_is_refused_without_a_plugin(none):
    network = tvmrt.load(str(DIGITS), cache=False)
    with pytest.raises(ImportError, match=r"report\(\) is not available: no plug-in has it"):
        network.report()
