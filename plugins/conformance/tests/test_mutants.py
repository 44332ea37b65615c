"""Test that the conformance kit finds mistakes that a program makes in a correct device.

A judge that shares no code with the kit shows each mutant to be wrong. The score is printed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")

SEED = 4127
SCRIPT = Path(__file__).parent / "mutant_runs.py"


def score(seed: int, count: int) -> tuple[list[str], int, int]:
    """Return the lines of the report, and how many mutants the kit found of how many."""
    command = [sys.executable, str(SCRIPT), str(seed), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    print(done.stdout)
    lines = done.stdout.splitlines()
    _, found, _, total = lines[-1].split()
    return lines, int(found), int(total)


def test_the_kit_finds_two_mutants():
    lines, found, total = score(SEED, 2)
    assert (found, total) == (2, 2), lines


@pytest.mark.slow
def test_the_kit_finds_95_of_100_mutants():
    lines, found, total = score(SEED + 1, 100)
    assert total == 100
    assert found >= 95, [line for line in lines if line.startswith("MISSED")]
