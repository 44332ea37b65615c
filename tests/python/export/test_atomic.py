"""Files are written atomically: a failure keeps the old file."""

from __future__ import annotations

import pytest

from tvmrt.compiler.export.atomic import filling, replacing


def test_replaces_the_file_at_the_end(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    with replacing(path) as aside:
        aside.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "out"
    path.write_text("old")
    with pytest.raises(RuntimeError), replacing(path) as aside:
        aside.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path):
    with (
        pytest.raises(FileNotFoundError, match="is not a folder"),
        replacing(tmp_path / "no" / "x"),
    ):
        pass


def test_filling_keeps_the_other_files_of_a_folder(tmp_path):
    (tmp_path / "mine.c").write_text("mine")
    (tmp_path / "net.c").write_text("old")
    with filling(tmp_path) as aside:
        (aside / "net.c").write_text("new")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"mine.c": "mine", "net.c": "new"}


def test_filling_makes_the_folder(tmp_path):
    with filling(tmp_path / "out") as aside:
        (aside / "a").write_text("1")
    assert (tmp_path / "out" / "a").read_text() == "1"


def test_filling_refuses_a_file(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is a file"), filling(tmp_path / "out"):
        pass
    assert (tmp_path / "out").read_text() == "mine"
