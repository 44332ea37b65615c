"""Test the tuning database: its file, its writers, and errors for damaged files."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tvmrt
from tvmrt.cli import main
from tvmrt.compiler.ir.tuned import Choice
from tvmrt.compiler.ir.tuned_layer import parse_layer
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tuning import database
from tvmrt.plugins.tuning.database import DatabaseModel, Measurement, TuningEntry

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
LAYER = "matmul float32 6x5 by 5x7"
ENTRY = TuningEntry(
    LAYER, "16x32", "some processor", Measurement(Choice((16, 1, 6), 1), 2e-6),
    Measurement(Choice((8, 1, 6), 2, threads=1), 1e-6), 4,
    (Measurement(Choice(square=2), 3e-6),), "t",
)  # fmt: skip


def test_written_file_is_read_back(tmp_path):
    path = tmp_path / "new" / "tuning.json"
    database.add(path, [ENTRY])
    assert database.read(path) == [ENTRY]


def test_new_entries_replace_equal_keys(tmp_path):
    path = tmp_path / "tuning.json"
    others = [replace(ENTRY, processor="another"), replace(ENTRY, level="8x16")]
    database.add(path, [ENTRY, *others])
    newer = replace(ENTRY, best=Measurement(Choice((16, 2, 3)), 5e-7))
    database.add(path, [newer])
    assert sorted(database.read(path), key=repr) == sorted([newer, *others], key=repr)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".tuning.json.lock", "tuning.json"]


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from tvmrt.plugins.tuning import database
path, own = Path(sys.argv[1]), sys.argv[2]
(entry,) = database.read(Path(sys.argv[3]))
for number in range(8):
    database.add(path, [replace(entry, processor=f"{own} {number}")])
"""


def test_several_processes_write_at_a_time(tmp_path):
    first, path = tmp_path / "first.json", tmp_path / "tuning.json"
    database.add(first, [ENTRY])
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"writer{i}", str(first)])
        for i in range(3)
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(database.read(path)) == 24


def with_member(**members) -> str:
    """Return a database of one entry with other members."""
    entry = {**database.as_json(ENTRY), **members}
    return json.dumps({"schema": database.SCHEMA, "entries": [entry]})


CHOICE = {"tile": [16, 1, 6], "seconds": 1e-6}
DAMAGED = {
    "is not a tuning database": "[1, 2",
    "is not a tuning database: it has no entries": "[]",
    "is not a tuning database (": "[" * 200_000,
    "has format 'tvmrt/tuning/2'": '{"schema": "tvmrt/tuning/2", "entries": []}',
    "entry 0 is damaged: it is not an object": '{"schema": "tvmrt/tuning/1", "entries": [3]}',
    "entry 0 is damaged: its level is not a string of at most 1000 characters": with_member(
        level=5
    ),
    "'conv' is not a layer signature": with_member(layer="conv"),
    "its square is not one of 0, 1, 2, 4": with_member(square=3),
    "a tile is not three whole numbers above 0": with_member(best={**CHOICE, "tile": [16, -1, 6]}),
    "a value of a choice is out of range": with_member(best={**CHOICE, "at_once": 1 << 40}),
    "a choice has the member lanes, which is unknown": with_member(best={**CHOICE, "lanes": 4}),
    "seconds of a choice are not a number above 0": with_member(usual={"seconds": float("nan")}),
    "are not a number above 0; remove": with_member(usual={"seconds": 10**400}),
    "tried or shared is not a list": with_member(shared=7),
    "its threads is not a whole number": with_member(threads=-1),
}


@pytest.mark.parametrize("sentence", DAMAGED, ids=lambda text: text.replace(" ", "-")[-30:])
def test_damaged_file_has_a_one_line_error(sentence, tmp_path):
    path = tmp_path / "tuning.json"
    path.write_text(DAMAGED[sentence])
    with pytest.raises(ValueError) as found:
        database.read(path)
    assert sentence in str(found.value)
    assert str(path) in str(found.value)


def test_files_that_are_not_utf8_are_errors(tmp_path):
    path = tmp_path / "tuning.json"
    path.write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(ValueError, match="is not a tuning database"):
        database.read(path)


def test_default_database_is_per_user(monkeypatch, tmp_path):
    monkeypatch.setenv("TVMRT_TUNING", str(tmp_path / "mine.json"))
    assert database.database_path("own") == tmp_path / "mine.json"
    monkeypatch.delenv("TVMRT_TUNING")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert database.database_path("own") == tmp_path / "tvmrt" / "tuning.json"
    assert str(database.database_path("other.json")) == "other.json"


def test_target_processor_selects_the_model():
    slower = replace(ENTRY, processor="b", best=Measurement(Choice((16, 3, 2)), 1.5e-6))
    layer = parse_layer(LAYER)

    def choice(processor):
        return DatabaseModel([ENTRY, slower], processor).choice(layer, "16x32", lambda: [])

    assert choice("b") == (slower.best.choice, "measured")
    assert choice("some processor") == (ENTRY.best.choice, "measured")
    assert choice("a third") is None
    # a library for a processor family: the choice with the largest gain
    assert choice(None) == (ENTRY.best.choice, "measured")
    assert DatabaseModel([ENTRY], None).choice(layer, "8x16", lambda: []) is None


def test_missing_database_is_an_error(digits, tmp_path, capsys):
    model, absent = str(digits / "digits_f32.onnx"), str(tmp_path / "none.json")
    out = tmp_path / "net.so"
    assert main(["compile", model, "-o", str(out), "--tuned", absent]) == 2
    assert f"there is no tuning database at {absent}; create one" in capsys.readouterr().err
    assert not out.exists()


def test_tuning_is_for_hosts(tmp_path, capsys):
    words = ["compile", str(DIGITS), "-o", str(tmp_path / "out"), "--target", "cortex-m4"]
    assert main([*words, "--tuned", "own"]) == 2
    assert "--tuned applies to --runtime host only" in capsys.readouterr().err
    with pytest.raises(UnsupportedError, match='tuned applies to runtime="host" only'):
        tvmrt.compile(DIGITS, target="cortex-m4", tuned="own")


def test_custom_cost_model_is_used():
    class Guide:
        asked = 0

        def choice(self, layer, level, options):
            self.asked += 1

        def square(self, layer, level):
            return None

    guide = Guide()
    tvmrt.compile(DIGITS, tuned=guide)
    assert guide.asked
