"""``tvmrt cache``: list and clear the cache."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tvmrt.cli import main
from tvmrt.network.cache import MARK, Cache

DAY = 24 * 3600


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a cache with entries of three ages and a file left by a killed process."""
    cache = Cache(tmp_path / "cache")
    for name, days in (("young", 0), ("older", 3), ("oldest", 40)):
        cache.add(name, lambda entry: (entry / "network.so").write_bytes(bytes(1500)))
        if name == "older":
            (cache.folder / name / "facts.json").write_text('{"source": "net.onnx"}')
        when = time.time() - days * DAY - 5
        os.utime(cache.folder / name / MARK, (when, when))
    left = cache.folder / ".new-elsewhere-1-abcd"
    left.mkdir()
    (left / MARK).touch()
    os.utime(left / MARK, (0, 0))
    return cache.folder


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _sizes(folder: Path) -> dict[str, int]:
    return {
        each.name: sum(file.stat().st_size for file in each.iterdir())
        for each in folder.iterdir()
        if not each.name.startswith(".")
    }


def test_cache_contents_are_listed(folder, capsys, monkeypatch):
    monkeypatch.setenv("TVMRT_CACHE", str(folder))
    monkeypatch.setenv("TVMRT_CACHE_BYTES", "9kB")
    assert main(["cache"]) == 0
    sizes = _sizes(folder)
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [[cell.strip() for cell in line if cell] for line in lines if any(line)] == [
        ["folder", str(folder)],
        ["entries", "3"],
        ["size", f"{sum(sizes.values()):,} B of 9,000 B"],
        ["unfinished", "1, 0 B; --clear removes them"],
        ["network", "size", "last use", "entry"],
        ["-", f"{sizes['young']:,} B", "5 seconds ago", "young"],
        ["net.onnx", f"{sizes['older']:,} B", "3 days ago", "older"],
        ["-", f"{sizes['oldest']:,} B", "40 days ago", "oldest"],
    ]
    assert len(_names(folder)) == 4


@pytest.mark.parametrize(
    "options, left",
    [
        (["--clear"], []),
        (["--clear-older-than", "3"], ["young"]),
        (["--clear-older-than", "948h"], ["older", "young"]),  # 39.5 days
        (["--clear-older-than", "400"], ["older", "oldest", "young"]),
    ],
)
def test_cache_is_cleared(options, left, folder, capsys):
    assert main(["cache", "--folder", str(folder), *options, "--json"]) == 0
    about = json.loads(capsys.readouterr().out)
    assert _names(folder) == left
    assert len(about["removed"]) == 4 - len(left)
    assert sorted(entry["name"] for entry in about["entries"]) == left
    assert about["nbytes"] == sum(_sizes(folder).values()) and about["unfinished"] == []


def test_missing_cache_is_reported(tmp_path, capsys):
    assert main(["cache", "--folder", str(tmp_path / "none"), "--clear"]) == 0
    assert capsys.readouterr().out.startswith("removed 0 entries, 0 B\n")
    assert _names(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_wrong_sizes_and_times_are_refused(folder, capsys, monkeypatch):
    assert main(["cache", "--clear-older-than", "5 weeks"]) == 2
    assert "'5 weeks' is not a time; write 10s, 500ms" in capsys.readouterr().err
    monkeypatch.setenv("TVMRT_CACHE_BYTES", "9 kilo")
    assert main(["cache", "--folder", str(folder)]) == 2
    assert "TVMRT_CACHE_BYTES: '9 kilo' is not a size in bytes" in capsys.readouterr().err


@pytest.mark.everyday(1)
@pytest.mark.parametrize("options", [(), ("--clear",), ("--json",)])
def test_a_file_is_no_cache(options, tmp_path, capsys):
    file = tmp_path / "text.so"
    file.write_text("text")
    assert main(["cache", "--folder", str(file), *options]) == 2
    assert capsys.readouterr().err.endswith("text.so is a file; name the folder of a cache\n")
    assert file.read_text() == "text"


def test_cache_folder_of_another_user_is_refused(folder, capsys, monkeypatch):
    folder.chmod(0o777)
    other = folder.stat().st_uid + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert main(["cache", "--folder", str(folder), "--clear"]) == 2
    assert "may be written to by other users" in capsys.readouterr().err
    assert len(_names(folder)) == 4
