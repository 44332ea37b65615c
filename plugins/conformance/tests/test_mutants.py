"""Test that the conformance kit finds mistakes that a program makes in a correct device.

A judge that shares no code with the kit shows each mutant to be wrong. The score is printed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

SCRIPT = Path(__file__).parent / "mutant_runs.py"


@pytest.mark.slow
def test_the_kit_finds_three_mutants():
    """A nightly job draws 100 from a new seed."""
    command = [sys.executable, str(SCRIPT), "4127", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].split() == ["all", "3", "of", "3"], done.stdout
