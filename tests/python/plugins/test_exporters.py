"""Output formats that plug-ins add: files by suffix, folders by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed_plugins import install

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main

DIGITS = str(Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx")
BOARD = ["--target", "cortex-m4"]


class Steps(plugin.Exporter):
    """Exporter of the operator names; rejects networks for boards."""

    def export(self, library, path):
        path.write_text("begun")
        if library.options.firmware:
            raise ValueError("steps are of networks for hosts")
        path.write_text(" ".join(each.op for each in library.summary.operators))


class Box(plugin.Exporter):
    """Exporter of a folder that contains a file in a subfolder."""

    def export(self, library, path):
        (path / "inner").mkdir()
        (path / "inner" / "name").write_text(library.module_name)


class Pair(plugin.Exporter):
    """Exporter of two files, a text and bytes, about the target and the name of a network."""

    def defaults(self, name):
        return {"target": "cortex-m0plus", "module_name": name.removesuffix(".pair")}

    def files(self, library, name):
        return {name: library.target.name, f"{name}.name": library.module_name.encode()}


BOX = Box()


@pytest.fixture
def added(monkeypatch):
    """Install a plug-in with a file exporter, a class, and a valid and an invalid folder one."""
    references = {".steps": "Steps", ".pair": "Pair", "box": "BOX", "wrong": "DIGITS"}
    exporters = {key: f"{__name__}:{name}" for key, name in references.items()}
    install(monkeypatch, plugin.Plugin("mine", "for tests", exporters=exporters))


def _compile(*words):
    return main(["compile", DIGITS, *map(str, words)])


def test_several_files_are_written_with_the_defaults_of_the_format(added, tmp_path):
    assert _compile("-o", tmp_path / "a.pair") == 0
    assert (tmp_path / "a.pair").read_text() == "cortex-m0plus"
    assert (tmp_path / "a.pair.name").read_text() == "a"
    assert _compile("-o", tmp_path / "a.pair", "--target", "riscv32", "--module-name", "b") == 0
    assert (tmp_path / "a.pair").read_text() == "riscv32"
    assert (tmp_path / "a.pair.name").read_text() == "b"
    assert len([*tmp_path.iterdir()]) == 2


def test_file_is_written_by_its_suffix(added, tmp_path):
    library = tvmrt.compile(DIGITS)
    library.export(tmp_path / "a.steps")
    assert (tmp_path / "a.steps").read_text() == " ".join(o.op for o in library.summary.operators)
    assert _compile("-o", tmp_path / "b.steps") == 0
    assert (tmp_path / "b.steps").read_bytes() == (tmp_path / "a.steps").read_bytes()


def test_failure_leaves_the_older_file(added, tmp_path, capsys):
    (tmp_path / "net.steps").write_text("older")
    assert _compile("-o", tmp_path / "net.steps", *BOARD) == 2
    assert "steps are of networks for hosts" in capsys.readouterr().err
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("net.steps", "older")]


def test_folder_is_filled_by_its_name_and_keeps_its_files(added, tmp_path, capsys):
    assert _compile("-o", tmp_path / "out", "--format", "box", "--module-name", "net") == 0
    assert (tmp_path / "out" / "inner" / "name").read_text() == "net"
    (tmp_path / "out" / "own").write_text("own")
    tvmrt.compile(DIGITS).export_package(tmp_path / "out", "box")
    assert (tmp_path / "out" / "inner" / "name").read_text() == "default"
    assert (tmp_path / "out" / "own").read_text() == "own"
    assert main(["compile", "--help-all"]) == 0
    assert "--format [box|wrong]" in capsys.readouterr().out


def test_formats_are_of_one_network(added, tmp_path, capsys):
    assert _compile("-o", tmp_path / "net.steps", "--format", "box") == 2
    assert "format box is a folder with one network" in capsys.readouterr().err
    assert _compile(DIGITS, "-o", tmp_path / "out", "--format", "box", *BOARD) == 2
    assert "format box is a folder with one network" in capsys.readouterr().err
    image = tvmrt.compile_together({"a": DIGITS, "b": DIGITS}, target="cortex-m4")
    with pytest.raises(ValueError, match=r"x\.steps: a \.steps file has one network; export to a"):
        image.export(tmp_path / "x.steps")


def test_invalid_exporter_error_names_the_plugin(added, tmp_path, capsys):
    assert _compile("-o", tmp_path / "out", "--format", "wrong") == 2
    said = capsys.readouterr().err
    assert "is not of the type Exporter" in said
    assert not (tmp_path / "out").exists()


def test_formats_of_an_absent_plugin_are_rejected(added, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv(plugin.VARIABLE, "-mine")
    for words in (["-o", tmp_path / "net.steps"], ["-o", tmp_path / "out", "--format", "box"]):
        assert _compile(*words) == 2
        what = "box" if "box" in words else ".steps"
        assert f"the plug-in mine has {what}, but TVMRT_PLUGINS" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_formats_that_no_plugin_has_are_refused(monkeypatch, tmp_path, capsys):
    install(monkeypatch)
    assert _compile("-o", tmp_path / "out", "--format", "box") == 2
    assert "no plug-in adds the format box" in capsys.readouterr().err
    with pytest.raises(ValueError, match="format box is not known; no plug-in adds formats"):
        tvmrt.compile(DIGITS).export_package(tmp_path / "out", "box")


def test_of_two_plugins_with_one_suffix_the_first_is_used(monkeypatch, tmp_path):
    pair = [
        plugin.Plugin(name, "", exporters={".steps": f"{__name__}:{what}"})
        for name, what in (("one", "Steps"), ("two", "Box"))
    ]
    install(monkeypatch, *pair)
    with pytest.warns(
        tvmrt.error.TvmrtWarning, match=r"one and two both add \.steps to exporters; that"
    ):
        tvmrt.compile(DIGITS).export(tmp_path / "net.steps")
    assert (tmp_path / "net.steps").is_file()
