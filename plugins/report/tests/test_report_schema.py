"""Test that the JSON of the report follows its published schema."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "cli"))

from test_schemas import DIGITS, folder, held  # noqa: F401


def test_report(held, tmp_path):  # noqa: F811
    pytest.importorskip("jinja2")
    path = tmp_path / "report.json"
    printed = held("report", "report", DIGITS, "-o", path)
    written = json.loads(path.read_text())
    assert {**written, "schema": printed["schema"]} == printed


@pytest.mark.slow
def test_bench(held):  # noqa: F811
    options = ("--seconds", "0.01", "--target", "native", "--precision", "bf16")
    timed_operators = held("bench", "bench", DIGITS, "--profile", *options)
    (network,), peaks = timed_operators["networks"], timed_operators["machine"]["flops"]
    work = [row for row in network["operators"] if row["macs"]]
    assert set(peaks) == {row["precision"] for row in work} and "bfloat16" in peaks
    assert all(row["roofline"] > 0 and row["seconds"] > 0 for row in network["operators"])
    assert all(row["flops"] <= peaks[row["precision"]] for row in work)
    # same unit, even if this machine was busy during one of the runs
    assert sum(row["seconds"] for row in work) < 500 * network["timings"][0]["median"]
