"""Test that the JSON output of the command follows its published schema."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "cli"))

from test_schemas import held  # noqa: F401


def test_device_test(held):  # noqa: F811
    held("device-test", "device", "test", "ccompiler", "--check", "operators", "--only", "Add")
