"""Test quantised ``.tflite`` networks on boards: equal to the host bit by bit, without floating
point."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from boards import BOARDS, run_network
from tflite_case import FILES, feeds_for, litert_runs, ours

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


@pytest.mark.slow
@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_every_kind_of_convolution_has_the_bits_of_litert(board, dtype, tmp_path):
    pytest.importorskip("ai_edge_litert")
    machine = BOARDS[board]
    sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "bench" / "firmware"))
    import layer_costs

    data = layer_costs.network(dtype)
    feeds = feeds_for(data)
    options = {"interface_api": "c", "module_name": "net", "tflite_rounding": "reference"}
    library = tvmrt.compile(data, target=board, **options)
    # the pad of a causal layer is padding of its convolutions
    assert "y_causal_pad" not in {step.name for step in library.program.steps}
    inputs = {each.name: x for each, x in zip(library.summary.inputs, feeds)}
    outcome = run_network(machine, library, inputs, tmp_path)
    (golden,) = litert_runs(data, [feeds])
    for (name, found), expected in zip(outcome.outputs.items(), golden):
        np.testing.assert_array_equal(found, expected, name)
