"""Fixtures of the command-line tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture(scope="session")
def digits() -> Path:
    """Return the folder of the digits networks."""
    return DIGITS


@pytest.fixture
def tvmrt():
    """Run the command in its own process; the result has the printed text."""

    def run(*arguments, check: bool = True, **options) -> subprocess.CompletedProcess:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        command = [sys.executable, "-m", "tvmrt", *map(str, arguments)]
        done = subprocess.run(command, text=True, timeout=600, check=False, **options)
        if check:
            assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture
def complaint(tvmrt):
    """Run a command that must fail with one sentence; return the sentence."""

    def run(*arguments, **options) -> str:
        done = tvmrt(*arguments, check=False, **options)
        lines = done.stderr.strip().splitlines()
        assert done.returncode == 2, (done.returncode, done.stderr)
        assert len(lines) == 1, done.stderr
        assert lines[0].startswith("tvmrt: error: "), done.stderr
        assert "Traceback" not in done.stderr
        assert "defect in tvmrt" not in done.stderr
        return lines[0]

    return run
