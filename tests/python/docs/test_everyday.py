"""Everyday tests: one row per folder, a bounded number, and limits of processor time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import costs
import everyday
import pytest

ROOT = Path(__file__).parents[3]


def test_every_folder_has_one_row_and_rows_name_files_that_exist():
    files = [path for path in everyday.TESTS.rglob("test_*.py") if "bench" not in path.parts]
    folders = {path.parent.relative_to(everyday.TESTS).as_posix() for path in files}
    assert folders == everyday.SHARES.keys()
    named = {
        f"{folder}/test_{name}.py"
        for folder, share in everyday.SHARES.items()
        for name in share.files.split()
        if name != "*"
    }
    assert named <= {path.relative_to(everyday.TESTS).as_posix() for path in files}


def test_modules_of_test_folders_have_different_names():
    """pytest puts these folders into ``sys.path``, where the first module of a name is found."""
    folders = {
        path.parent for top in ("tests", "plugins") for path in ROOT.glob(f"{top}/**/test_*.py")
    }
    folders |= {ROOT / "tests" / "python" / name for name in ("support", "devices")}
    modules = [path for folder in folders for path in folder.glob("*.py")]
    counts = Counter(path.stem for path in modules if not path.stem.startswith(("test_", "__")))
    del counts["conftest"]
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.slow
def test_number_of_everyday_tests_is_bounded():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-m", "not slow"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    count = sum("::" in line for line in done.stdout.splitlines())
    assert 0 < count <= everyday.MAX_TESTS


@pytest.mark.parametrize(("total", "cases"), [(1, 1), (3, 5), (990, 3), (7, 6), (100, 100)])
def test_cases_are_limited_and_spread(total, cases):
    chosen = [index for index in range(total) if everyday.is_sampled(index, total, cases)]
    assert len(chosen) == min(total, cases)
    gaps = {after - before for before, after in zip(chosen, chosen[1:])}
    assert len(gaps) <= 2 and (not gaps or max(gaps) - min(gaps) <= 1)


class Item:
    """Stand-in for a collected pytest item."""

    def __init__(self, file: str, name: str, *markers: pytest.Mark) -> None:
        self.path = everyday.TESTS / file
        self.nodeid = f"tests/{file}::{name}"
        self.markers = {marker.name: marker for marker in markers}

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.markers.get(name)

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers[marker.name] = marker.mark


@pytest.mark.parametrize("lower", [None, "1", "3"])
def test_excluded_tests_are_marked_slow_and_extended(monkeypatch, lower):
    monkeypatch.delenv(everyday.CASES, raising=False)
    if lower:
        monkeypatch.setenv(everyday.CASES, lower)
    monkeypatch.setattr(everyday, "SHARES", {"python/ops": everyday.Share("shape", 2)})
    marks = (pytest.mark.slow.mark, pytest.mark.everyday(1).mark)
    cases = [Item("python/ops/test_shape.py", f"test_a[{i}]") for i in range(4)]
    long = Item("python/ops/test_shape.py", "test_b", marks[0])
    first = [Item("python/ops/test_shape.py", f"test_c[{i}]", marks[1]) for i in range(3)]
    other = Item("python/ops/test_more.py", "test_d")
    everyday.mark([*cases, long, *first, other])

    def kind(item: Item) -> str:
        if "slow" not in item.markers:
            return "everyday"
        return "quick" if "extended" in item.markers else "slow"

    second = "quick" if lower == "1" else "everyday"
    assert list(map(kind, cases)) == ["everyday", "quick", second, "quick"]
    assert kind(long) == "slow" and kind(other) == "quick"
    assert list(map(kind, first)) == ["everyday", "slow", "slow"]


def _report(name: str, seconds: float, *keywords: str) -> SimpleNamespace:
    properties = [(costs.PROPERTY, seconds)]
    return SimpleNamespace(
        nodeid=name, user_properties=properties, keywords=dict.fromkeys(keywords)
    )


def test_time_limits_for_each_test_and_in_total():
    times = costs.Costs()
    times.add(_report("test_x.py::quick", costs.LIMIT_OF_TEST))
    times.add(_report("test_x.py::long", 9 * costs.LIMIT_OF_ALL, "slow"))
    assert not times.above_limits()
    times.add(_report("test_x.py::grown", costs.LIMIT_OF_TEST + 1))
    (sentence,) = times.above_limits()
    assert "test_x.py::grown takes 16.0 s" in sentence and "mark it slow" in sentence
    for number in range(costs.LIMIT_OF_ALL // costs.LIMIT_OF_TEST):
        times.add(_report(f"test_y.py::{number}", costs.LIMIT_OF_TEST))
    assert any("the everyday tests take" in line for line in times.above_limits())


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_run_above_the_time_limits_fails_on_request(tmp_path, processes):
    (tmp_path / "lower.py").write_text("import costs\ncosts.LIMIT_OF_TEST = 0.2\n")
    (tmp_path / "test_busy.py").write_text(
        "import time\ndef test_busy():\n    while time.process_time() < 4: pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "-p", "lower"]
    places = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)]
    shutil.copy(ROOT / "conftest.py", tmp_path)
    conftest = ["--confcutdir", str(tmp_path)]
    support = ROOT / "tests/python/support"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [tmp_path, support]))}
    codes = []
    for asked in ("", "1"):
        done = subprocess.run(
            [*command, *conftest, *places], env={**environment, costs.CHECKED: asked},
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "test_busy.py::test_busy takes" in done.stdout, done.stdout + done.stderr
        codes.append(done.returncode)
    assert codes == [0, 1]
