"""Test quantised ``.tflite`` networks on boards: equal to the host bit by bit, without floating
point."""

from __future__ import annotations

import re

import numpy as np
import pytest
from boards import BOARDS, run_network
from tflite_case import FILES, feeds_for, ours

import tvmrt


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "name", "rounding"),
    [
        ("cortex-m0plus", "squeeze_excite_int8", "micro"),
        ("riscv32", "separable_int16", "micro"),
        ("cortex-m55", "residual_int8", "micro"),
        ("cortex-m4", "convolutional_int8", "micro"),
        ("cortex-m4", "convolutional_int8", "reference"),
    ],
)
def test_a_board_without_an_fpu_computes_the_same_integers(board, name, rounding, tmp_path):
    machine = BOARDS[board]
    if machine.missing_tool():
        pytest.skip(f"{machine.missing_tool()} is not installed")
    data = (FILES / f"{name}.tflite").read_bytes()
    feeds = feeds_for(data)
    options = {"tflite_rounding": rounding}
    library = tvmrt.compile(data, target=board, interface_api="c", module_name="net", **options)
    outcome = run_network(machine, library, {"x": feeds[0]}, tmp_path)
    (found,) = outcome.outputs.values()
    expected = ours(data, feeds, tmp_path, **options)[0]
    np.testing.assert_array_equal(found, expected)
    generated = list((tmp_path / "net").rglob("*_lib1.c"))
    assert generated
    code = re.sub(r"/\*.*?\*/", "", "".join(p.read_text() for p in generated), flags=re.DOTALL)
    assert not re.search(r"\b(float|double)\b", code)
