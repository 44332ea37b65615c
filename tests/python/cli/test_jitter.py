"""``tvmrt bench --jitter``: percentiles of single runs, and the scheduling that they had."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tvmrt.cli import jitter, main

DIGITS = str(Path(__file__).parents[3] / "examples/digits/digits_int8.onnx")
SCHEDULING = jitter.Scheduling("SCHED_OTHER", 0, 0, 2, 0)


def test_percentiles_are_those_of_numpy():
    for count in (1, 7, 999, 1003, 12345):
        times = np.random.default_rng(count).lognormal(-9, 1, count)
        found = jitter.of_times(times, SCHEDULING)
        expected = np.percentile(times, [50, 99, 99.9, 100], method="inverted_cdf")
        assert (found.runs, found.p50, found.p99, found.max) == (count, *expected[[0, 1, 3]])
        assert found.p99_9 == (expected[2] if count >= 1000 else None)


@pytest.mark.slow
def test_the_command_states_percentiles_and_scheduling(tmp_path, capsys):
    command = ["bench", DIGITS, "--seconds", "0.05", "--jitter"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "p99.9" in text and "1 thread\n" in text
    assert f"scheduling: SCHED_OTHER, nice {os.nice(0)}, " in text
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["schema", "bench"]) == 0
    pytest.importorskip("jsonschema").validate(found, json.loads(capsys.readouterr().out))
    single = found["networks"][0]["jitter"]
    assert 0 < single["p50"] <= single["p99"] <= single["max"]
    assert single["runs"] > 20
