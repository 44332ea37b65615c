"""Targets, boards and passes of the graph that plug-ins add."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from installed_plugins import install

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main
from tvmrt.compiler.sdk.codegen import McuFamily, get_target
from tvmrt.compiler.sdk.pipeline import GraphPass

DIGITS = str(Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx")
CORE = replace(get_target("cortex-m4"), name="mycore", flags=("-mcpu=mycore",))
BOARD = McuFamily("myboard", "MY123", "mycore", 1 << 20, {"sram": 1024})
SEEN: list[int] = []
LATE = GraphPass("fold-bias", lambda graph: SEEN.append(len(graph.nodes)))
NOWHERE = GraphPass("fold-bais", lambda graph: None)


def _use(monkeypatch, **tables: dict[str, str]) -> None:
    """Install one plug-in, with references to objects of this file, and no other."""
    added = {
        table: {key: f"{__name__}:{name}" for key, name in rows.items()}
        for table, rows in tables.items()
    }
    mine = plugin.Plugin("mine", "for tests", **added)
    install(monkeypatch, mine)


def test_networks_are_compiled_for_an_added_target(monkeypatch, tmp_path, capsys):
    _use(monkeypatch, targets={"mycore": "CORE"})
    assert main(["compile", DIGITS, "-o", str(tmp_path / "net.tar"), "--target", "mycore"]) == 0
    library = tvmrt.compile(DIGITS, target="mycore")
    usual = tvmrt.compile(DIGITS, target="cortex-m4")
    assert library.manifest["target"] == "mycore" and library.options.firmware
    functions = [[each.text for each in made.sources.functions] for made in (library, usual)]
    assert functions[0] == functions[1]
    capsys.readouterr()
    assert main(["compile", DIGITS, "-o", str(tmp_path / "a.tar"), "--target", "mycor"]) == 2
    assert "mycore" in capsys.readouterr().err


def test_an_added_board_limits_memory(monkeypatch, capsys, tmp_path):
    _use(monkeypatch, targets={"mycore": "CORE"}, boards={"myboard": "BOARD"})
    assert main(["compile", DIGITS, "-o", str(tmp_path / "net.tar"), "--board", "myboard"]) == 2
    assert "board myboard (MY123): " in capsys.readouterr().err
    monkeypatch.setattr(f"{__name__}.BOARD", replace(BOARD, ram={"sram": 1 << 20}))
    assert tvmrt.compile(DIGITS, board="myboard").target.name == "mycore"


def test_an_added_pass_runs_after_the_pass_that_it_names(monkeypatch, tmp_path):
    _use(monkeypatch, passes={"count": "LATE"})
    SEEN.clear()
    tvmrt.compile(DIGITS, dump_dir=tmp_path)
    assert len(SEEN) == 1 and SEEN[0] > 0
    names = [file.stem.split("-", 1)[1] for file in sorted(tmp_path.glob("*.txt"))]
    assert names[names.index("fold-bias") + 1] == "count"


def test_a_pass_after_an_unknown_one_is_refused(monkeypatch):
    _use(monkeypatch, passes={"lost": "NOWHERE"})
    with pytest.raises(ValueError, match=r"puts its pass lost after fold-bais.*fold-bias"):
        tvmrt.compile(DIGITS)
