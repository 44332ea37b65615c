"""Test the commands' optional dependencies."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "cli"))

from test_extras import DIGITS, run_without


def test_report_without_onnx_names_the_extra():
    done = run_without(["onnx"], "report", DIGITS)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "needs the package onnx: pip install 'tvmrt[compile]'" in done.stderr
