"""The report of skipped tests and their reasons after a test run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TESTS = """
import pytest
pytestmark = pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", range(3))
def test_tool(n): pytest.skip("no_such_tool is not installed")
@pytest.mark.skipif(True, reason="the moon is not full")
def test_moon(): pass
def test_here(): pass
@pytest.mark.slow
def test_long(): raise AssertionError
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_report_counts_skipped_tests_by_reason(tmp_path, processes):
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "test_tools.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, "-m", "not slow"]
    places = ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    shutil.copy(ROOT / "conftest.py", tmp_path)
    conftest = ["--confcutdir", str(tmp_path)]
    done = subprocess.run(
        [*command, *places, *conftest, str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    table = done.stdout.split("left out")[1].splitlines()
    rows = [" ".join(line.split()) for line in table[1:5]]
    assert rows == [
        "tests of why",
        "3 tools no_such_tool is not installed",
        "1 tools the moon is not full",
        "all long ones -m 'slow or not slow' runs them too",
    ]
