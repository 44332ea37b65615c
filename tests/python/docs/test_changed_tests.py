"""``./run test --changed``: the tests that reach changed lines, in a small repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
AREA = """def area(a, b):
    if a < 0:
        return 0
    return a * b


def perimeter(a, b):
    return 2 * a + 2 * b


def volume(a, b, c):
    return a * b * c
"""
TEST = """import runpy
area = runpy.run_path("python/tvmrt/compiler/planner/area.py")
def test_{name}():
    assert area["{name}"](2, 3) == {result}
"""


@pytest.fixture
def copy(tmp_path):
    """Return a folder under version control, and functions that change it and select its tests."""
    shutil.copytree(ROOT / "tests/selection", tmp_path / "tests/selection")
    source = tmp_path / "python/tvmrt/compiler/planner/area.py"
    tests = tmp_path / "tests/python/planner"
    for folder in (source.parent, tests):
        folder.mkdir(parents=True)
    source.write_text(AREA)
    for name, result in (("area", 6), ("perimeter", 10)):
        (tests / f"test_{name}.py").write_text(TEST.format(name=name, result=result))
    (tmp_path / ".gitignore").write_text("__pycache__\nout\n.pytest_cache\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow\n")
    user = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], [*user, "commit", "-q", "-m", "area"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)

    def run(program: str, *arguments: str) -> str:
        command = [sys.executable, f"tests/selection/{program}.py", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def change(old: str, new: str) -> str:
        source.write_text(AREA.replace(old, new))
        return run("changed", "HEAD", "-q")

    return run, change


def test_a_changed_line_selects_the_tests_that_reach_it(copy):
    pytest.importorskip("coverage")
    run, change = copy
    assert "2 files of tests" in run("record")
    text = change("2 * a + 2 * b", "2 * a + 3 * b")
    assert "files of tests for the changes since HEAD: 1," in text
    assert "FAILED tests/python/planner/test_perimeter.py" in text and "test_area" not in text
    place = "python/tvmrt/compiler/planner/area.py"
    assert f"{place}:3: no everyday test runs this line: return 1" in change("return 0", "return 1")
    text = change("a * b * c", "a * b + c")
    assert f"{place}:12: no everyday test runs volume: return a * b + c" in text


def test_without_a_map_the_nearest_tests_are_run(copy):
    _, change = copy
    text = change("2 * a + 2 * b", "2 * a + 3 * b")
    assert "there is no out/tests.json.gz" in text and "./run test --record" in text
    assert "since HEAD: 2," in text and "1 failed, 1 passed" in text


def test_an_unknown_revision_is_named(copy):
    run, _ = copy
    assert "git diff -U0" in run("changed", "nowhere") and "nowhere" in run("changed", "nowhere")
