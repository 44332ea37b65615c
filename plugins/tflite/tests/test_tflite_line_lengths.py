"""Test that generated sources of networks with recurrent layers have no overlong lines."""

from __future__ import annotations

from pathlib import Path

import pytest

import tvmrt

FILES = Path(__file__).parents[3] / "tests" / "data" / "tflite"


@pytest.mark.parametrize("target", ["x86-64", "cortex-m4"])
@pytest.mark.parametrize("name", ["gated_int8", "recurrent_int8", "residual_int8", "text_float"])
def test_lines_of_networks_are_short(name, target):
    files = tvmrt.compile(FILES / f"{name}.tflite", target=target).sources.files
    lines = [line for text in files.values() for line in text.split("\n")]
    assert max(map(len, lines)) <= 100
    assert not any("\x1f" in line for line in lines)
