"""JSON schemas that plug-ins add for their commands."""

from __future__ import annotations

import json

import pytest
from installed_plugins import install

from tvmrt import plugin
from tvmrt.cli import main
from tvmrt.cli.schema_types import integer, record

GREET = record("tvmrt greet --json.", times=integer("How often."))


@pytest.fixture
def added(monkeypatch):
    """Install a plug-in with a valid and an invalid schema, and no other plug-in."""
    forms = {"greet": f"{__name__}:GREET", "wrong": f"{__name__}:added"}
    mine = plugin.Plugin("mine", "for tests", schemas=forms)
    install(monkeypatch, mine)


def test_schema_is_printed_with_its_tag(added, capsys):
    assert main(["schema", "greet"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["properties"]["times"] == {"type": "integer", "description": "How often."}
    assert found["properties"]["schema"]["const"] == found["title"] == "tvmrt/greet/1"
    assert found["required"] == ["schema", "times"]


def test_plugin_names_are_last(added, capsys, monkeypatch):
    monkeypatch.setattr(plugin, "keys", lambda table: ["greet"] if table == "schemas" else [])
    assert main(["schema"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names[0] == "compile" and names[-2:] == ["greet", "regions"]


@pytest.mark.parametrize(
    ("name", "variable", "words"),
    [
        ("wrong", "", "the schema wrong of the plug-in mine is not a record with a description"),
        ("greet", "-mine", "the plug-in mine has greet, but TVMRT_PLUGINS leaves it out"),
        ("grete", "", "unknown JSON output 'grete'; there are compile, "),
    ],
)
def test_unprintable_schema_is_rejected(added, capsys, monkeypatch, name, variable, words):
    monkeypatch.setenv(plugin.VARIABLE, variable)
    assert main(["schema", name]) == 2
    assert words in capsys.readouterr().err
