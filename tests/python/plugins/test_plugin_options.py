"""Compiler options that plug-ins add: Python keywords and command-line options."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from pathlib import Path

import click
import pytest
from installed_plugins import install

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main
from tvmrt.cli.app import group
from tvmrt.compiler import request
from tvmrt.network import cache_key
from tvmrt.units import SECONDS

DIGITS = str(Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx")

COLOUR = plugin.Option(
    "What colour it has.",
    values=("red", "blue"),
    group="Inspection",
    choose=lambda request, hosted: "red" if hosted else "blue",
    refused=lambda request: "red is for one module" if request.colour == "red" == name(request)
    else None,
)  # fmt: skip
COUNTS = plugin.Option(
    "How many.", default=(), type="Sequence[int]", kind="int", repeated=True, commands=("verify",),
    other_networks="counts are for foreign networks",
)  # fmt: skip
SHINY = plugin.Option("Whether it shines.", default=False, type="bool", kind="bool")
ROOM = plugin.Option(
    "How much room it has.", type="int | None", kind="int", unit="bytes", least=1, form="BYTES",
    group="Boards", commands=("verify",),
)  # fmt: skip
LENGTHS = plugin.Option(
    "How long its parts are.", type="Mapping[str, float] | None", repeated=True, form="PART=TIME",
    parse=lambda texts: {k: SECONDS.parse(v) for k, _, v in (t.partition("=") for t in texts)},
    complete=lambda: ["arm=", "leg="], common=True,
)  # fmt: skip


def name(request):
    return request.module_name


def _plugin(called: str, **options: str) -> plugin.Plugin:
    return plugin.Plugin(
        called, "for tests", options={k: f"{__name__}:{v}" for k, v in options.items()}
    )


@pytest.fixture
def added(monkeypatch):
    """Install a plug-in with three options, and no other plug-in."""
    install(monkeypatch, _plugin("mine", colour="COLOUR", counts="COUNTS", shiny="SHINY"))


def _compile(tmp_path, *words):
    return main(["compile", DIGITS, "-o", str(tmp_path / "out"), *words])


def _manifest(tmp_path):
    (file,) = (tmp_path / "out").glob("*manifest.json")
    return json.loads(file.read_text())["options"]


def test_option_values_reach_the_request(added, tmp_path):
    given = tvmrt.compile(DIGITS, colour="blue", shiny=True).manifest["options"]
    assert (given["colour"], given["shiny"]) == ("blue", True)
    assert _compile(tmp_path, "--colour", "blue", "--shiny") == 0
    found = _manifest(tmp_path)
    assert (found["colour"], found["shiny"]) == ("blue", True)


@pytest.mark.parametrize(("target", "colour"), [("host", "red"), ("cortex-m4", "blue")])
def test_unset_options_get_defaults(added, target, colour):
    found = tvmrt.compile(DIGITS, target=target).manifest["options"]
    assert found["colour"] == colour and "shiny" not in found


def test_an_option_of_a_plugin_needs_its_row_only(monkeypatch, tmp_path, capsys):
    install(monkeypatch, _plugin("mine", room="ROOM", lengths="LENGTHS"))
    given = tvmrt.compile(DIGITS, room=2048, lengths={"arm": 0.5}).manifest["options"]
    assert (given["room"], given["lengths"]) == (2048, {"arm": 0.5})
    assert _compile(tmp_path, "--room", "2KiB", "--lengths", "arm=500ms") == 0
    assert {given["room"], str(given["lengths"])} <= {*map(str, _manifest(tmp_path).values()), 2048}
    assert {name: request.all_options()[name].type for name in ("room", "lengths")} == {
        "room": "int | None", "lengths": "Mapping[str, float] | None",
    }  # fmt: skip
    capsys.readouterr()
    for command, words, flags in (
        ("compile", ["--help"], ["--lengths PART=TIME"]),
        ("compile", ["--help-all"], ["--lengths PART=TIME", "--room BYTES"]),
        ("verify", ["--help-all"], ["--room BYTES"]),
    ):
        assert main([command, *words]) == 0
        text = capsys.readouterr().out
        assert [flag for flag in ("--lengths PART=TIME", "--room BYTES") if flag in text] == flags
    for words, said in (
        (["--room", "2 rooms"], "'--room': '2 rooms' is not a size in bytes; write 65536, 64KiB"),
        (["--room", "0"], "'--room': 0 is too small; give at least 1"),
        (["--lengths", "arm=5m"], "'--lengths': '5m' is not a time; write 10s, 500ms"),
    ):
        assert _compile(tmp_path, *words) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(TypeError, match="room: give a whole number of bytes, not '2KiB'"):
        tvmrt.compile(DIGITS, room="2KiB")
    with pytest.raises(ValueError, match="room=0: give a number of at least 1"):
        tvmrt.compile(DIGITS, room=0)
    (option,) = (
        p for p in group.get_command(None, "compile").get_params(click.Context(group))
        if p.name == "lengths"
    )  # fmt: skip
    offered = option.shell_complete(click.Context(group), "le")
    assert [each.value for each in offered] == ["leg="]


def test_records_with_options_are_comparable(added):
    asked = tvmrt.Request(colour="red", executor="aot")
    assert (asked.colour, asked.shiny, asked.counts) == ("red", False, ())
    assert asked == tvmrt.Request(executor="aot", shiny=False, colour="red")
    assert asked != tvmrt.Request(executor="aot")
    later = replace(asked, shiny=True, executor="graph")
    assert (later.colour, later.shiny, later.executor) == ("red", True, "graph")
    assert replace(later, colour=None) == tvmrt.Request(shiny=True, executor="graph")
    assert pickle.loads(pickle.dumps(asked)) == copy.copy(asked) == asked
    assert hash(asked) == hash(copy.deepcopy(asked))


def test_options_are_part_of_the_cache_key(added):
    keys = {
        cache_key.key_of("n", request.make(options))
        for options in ({}, {"shiny": True}, {"shiny": False}, {"colour": "red"})
    }
    assert len(keys) == 3


def test_help_groups_the_options(added, capsys):
    assert main(["compile", "--help-all"]) == 0
    text = capsys.readouterr().out
    assert text.index("Inspection:") < text.index("--colour [red|blue]")
    assert text.index("The network:") < text.index("--shiny / --no-shiny") < text.index("Boards:")
    assert main(["verify", "--help-all"]) == 0
    text = capsys.readouterr().out
    assert "--counts" in text and "--colour" not in text
    assert main(["bench", "--help-all"]) == 0
    assert "--counts" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"colour": "green"}, ValueError, 'colour="green" is not known; choose "red" or "blue"'),
        ({"colour": "red", "module_name": "red"}, ValueError, "red is for one module"),
        ({"shiny": "no"}, TypeError, "shiny: give True or False, not 'no'"),
        ({"counts": "12"}, TypeError, r"counts: give a list, counts=\[.12.\]"),
        ({"counts": [1]}, ValueError, "counts are for foreign networks"),
        ({"color": "red"}, TypeError, "no option color of compile; did you mean colour?"),
    ],
)
def test_invalid_values_are_rejected(added, options, error, words):
    with pytest.raises(error, match=words):
        tvmrt.compile(DIGITS, **options)
    assert not hasattr(tvmrt.Request(), "color")


def test_options_of_an_absent_plugin_are_rejected(added, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(plugin.VARIABLE, "-mine")
    for call in (lambda: tvmrt.compile(DIGITS, shiny=True), lambda: tvmrt.Request(shiny=True)):
        with pytest.raises(TypeError, match="the plug-in mine has shiny, but TVMRT_PLUGINS"):
            call()
    assert _compile(tmp_path, "--shiny") == 2
    assert "the plug-in mine has shiny, but TVMRT_PLUGINS leaves it out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "what", "words"),
    [
        ("shade", "DIGITS", f"{__name__}:DIGITS is not a tvmrt.plugin.Option"),
        ("shade", "NONE", f"{__name__}:NONE does not load: AttributeError"),
        ("target", "COLOUR", "tvmrt.compile has an option of this name"),
        ("two words", "COLOUR", "its name is not a valid Python keyword argument"),
    ],
)
def test_invalid_rows_are_skipped_with_one_warning(monkeypatch, key, what, words):
    install(monkeypatch, _plugin("bad", **{key: what}), _plugin("mine", shiny="SHINY"))
    with pytest.warns(tvmrt.error.TvmrtWarning) as said:
        assert tvmrt.compile(DIGITS, shiny=True).manifest["options"]["shiny"] is True
    (text,) = [str(w.message) for w in said]
    assert text.startswith(f"the option {key} of the plug-in bad is left out: {words}")


def test_of_two_plugins_with_one_option_the_first_is_used(monkeypatch):
    install(monkeypatch, _plugin("one", shiny="SHINY"), _plugin("two", shiny="COLOUR"))
    with pytest.warns(
        tvmrt.error.TvmrtWarning, match="one and two both add shiny to options; that of"
    ):
        assert tvmrt.Request(shiny=True).shiny is True


def test_a_command_that_has_the_name_already_keeps_its_own(monkeypatch, capsys):
    install(monkeypatch, _plugin("mine", output="COLOUR", shiny="SHINY"))
    assert main(["compile", "--help-all"]) == 0
    said = capsys.readouterr()
    assert "--shiny" in said.out
    assert said.err.count("output is left out: ValueError: the command already has the option") == 1
