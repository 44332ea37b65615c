"""Test that the JSON about .tflite files follows its published schema."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "cli"))

from test_schemas import ROOT, held  # noqa: F401


def test_inspect(held):  # noqa: F811
    held("inspect", "inspect", ROOT / "examples" / "keras" / "digits_int8.tflite")
