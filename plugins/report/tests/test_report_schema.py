"""The report's JSON has the schema that is printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "cli"))

from test_schemas import DIGITS, held  # noqa: F401


def test_report(held, tmp_path):  # noqa: F811
    pytest.importorskip("jinja2")
    path = tmp_path / "report.json"
    printed = held("report", "report", DIGITS, "-o", path)
    written = json.loads(path.read_text())
    assert {**written, "schema": printed["schema"]} == printed
