"""Hooks of the core that plug-ins implement; a missing hook is an error."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from installed_plugins import install

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"


class Estimate:
    OPTIONS = (click.Option(["--board"]), click.Option(["--clock"], type=float, default=1.0))

    @staticmethod
    def report(file, as_json, **options):
        print(file, as_json, options)


@pytest.fixture
def added(monkeypatch):
    """Install a plug-in with one hook, and no other plug-in."""
    mine = plugin.Plugin("mine", "for tests", hooks={"inspect board": f"{__name__}:Estimate"})
    install(monkeypatch, mine)


@pytest.fixture
def command(tmp_path):
    (tmp_path / "net.tar").write_bytes(b"")
    return ["inspect", str(tmp_path / "net.tar"), "--board", "nrf52"]


def test_hook_gets_the_request(added, command, capsys):
    assert main([*command, "--clock", "32"]) == 0
    options = {"board": "nrf52", "clock": 32.0}
    assert capsys.readouterr().out == f"{command[1]} False {options}\n"


def test_hook_of_an_absent_plugin_is_rejected(added, command, capsys, monkeypatch):
    monkeypatch.setenv(plugin.VARIABLE, "-mine")
    assert main(command) == 2
    assert "the plug-in mine has inspect board, but TVMRT_PLUGINS" in capsys.readouterr().err


@pytest.fixture
def none(monkeypatch):
    """Remove all plug-ins."""
    install(monkeypatch)


def test_hook_that_no_plugin_has_is_refused(none, command, capsys):
    assert main(command) == 2
    assert "No such option '--board'" in capsys.readouterr().err


def test_a_report_is_refused_without_a_plugin(none):
    network = tvmrt.load(str(DIGITS), cache=False)
    with pytest.raises(ImportError, match=r"report\(\) is not available: no plug-in has it"):
        network.report()
