"""Subcommands that plug-ins add to groups of the command."""

from __future__ import annotations

import click
import pytest
from installed_plugins import install

from tvmrt import plugin
from tvmrt.cli import main


@click.command()
def command():
    """Greet."""
    click.echo("hello")


@pytest.fixture
def added(monkeypatch):
    """Install a plug-in that adds ``tvmrt device greet``, and no other plug-in."""
    reference = f"{__name__}:command"
    mine = plugin.Plugin("mine", "for tests", commands={"device greet": reference})
    install(monkeypatch, mine)


def test_subcommand_runs_and_is_in_its_groups_help(added, capsys):
    assert main(["device", "greet"]) == 0
    assert capsys.readouterr().out == "hello\n"
    assert main(["device", "--help"]) == 0
    assert "  greet  Greet." in capsys.readouterr().out
    assert main(["--help"]) == 0
    assert "greet" not in capsys.readouterr().out


def test_subcommand_of_an_absent_plugin_is_rejected(added, capsys, monkeypatch):
    monkeypatch.setenv(plugin.VARIABLE, "-mine")
    assert main(["device", "greet"]) == 2
    assert "the plug-in mine has device greet, but TVMRT_PLUGINS leaves" in capsys.readouterr().err
    assert main(["device", "list"]) == 0


def test_groups_have_separate_commands(added, capsys):
    assert main(["device", "no-such"]) == 2
    assert "No such command 'no-such'" in capsys.readouterr().err
