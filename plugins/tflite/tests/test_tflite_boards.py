"""Test quantised ``.tflite`` networks on boards: equal to the host bit by bit, without floating
point."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from boards import BOARDS, run_network
from tflite_case import FILES, Bytes, Net, feeds_for, litert_runs, ours

import tvmrt
from tvmrt.compiler.export.library import CompiledLibrary


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


def from_bench(name: str):
    """Import a module of the benchmarks of boards."""
    sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "bench" / "firmware"))
    return importlib.import_module(name)


def run_as_litert(data: bytes, board: str, folder: Path) -> tuple[CompiledLibrary, str]:
    """Compare a network on a board with LiteRT, bit by bit; return its library and C."""
    feeds = feeds_for(data)
    options = {"interface_api": "c", "module_name": "net", "tflite_rounding": "reference"}
    library = tvmrt.compile(data, target=board, **options)
    inputs = {each.name: x for each, x in zip(library.summary.inputs, feeds)}
    outputs = run_network(BOARDS[board], library, inputs, folder).outputs
    (golden,) = litert_runs(data, [feeds])
    assert len(outputs) == len(golden)
    for (name, found), expected in zip(outputs.items(), golden):
        np.testing.assert_array_equal(found, expected, name)
    code = "".join(path.read_text() for path in (folder / "net").rglob("*_lib1.c"))
    return library, code


def products() -> bytes:
    """Return a network of batch matmuls of computed int8 operands: sizes around the units of
    kernels, right operands as they are and transposed."""
    net, kinds = Net(), []
    for rows, depth, columns in ((1, 1, 1), (5, 8, 33), (32, 17, 7), (3, 130, 66), (2, 40, 4)):
        kinds += [(rows, depth, columns, swapped) for swapped in (False, True)]
    for i, (rows, depth, columns, swapped) in enumerate(kinds):
        right = (columns, depth) if swapped else (depth, columns)
        a = net.input((2, rows, depth), "int8", name=f"a{i}", scale=0.05, zero=3 * i - 9)
        b = net.input((2, *right), "int8", name=f"b{i}", scale=0.03, zero=7 - 2 * i)
        y = net.output((2, rows, columns), "int8", name=f"y{i}", scale=0.1 * depth, zero=i)
        net.op("BATCH_MATMUL", [a, b], [y], options="BatchMatMulOptions", adjY=swapped)
    return net.data()


@pytest.mark.slow
@pytest.mark.parametrize("board", ["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32"])
def test_batch_matmul_has_the_bits_of_litert(board, tmp_path):
    pytest.importorskip("ai_edge_litert")
    _, code = run_as_litert(products(), board, tmp_path)
    assert "tvmrt_micro_matmul_i8(" in code and "tvmrt_matmul_i8_dynamic(" not in code


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("board", ["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32"])
def test_sums_have_the_bits_of_litert(board, dtype, tmp_path):
    pytest.importorskip("ai_edge_litert")
    net = Bytes(np.random.default_rng(11), dtype)
    for shape, other in (((3, 5, 7), (3, 5, 7)), ((2, 33), (1, 33)), ((1, 9), (1, 1))):
        for activation in (0, 1):  # none, ReLU
            operands = [net.given(*shape), net.given(*other)]
            fields = {"fusedActivationFunction": activation}
            net.op("ADD", operands, [net.made(*shape)], 1, "AddOptions", **fields)
    _, code = run_as_litert(net.data(), board, tmp_path)
    assert "tvmrt_fixed_add(" in code and "tvmrt_fixed_requantize(" not in code


@pytest.mark.slow
@pytest.mark.parametrize("board", ["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32"])
def test_a_transformer_has_the_bits_of_litert(board, tmp_path):
    pytest.importorskip("ai_edge_litert")
    data = from_bench("tiny_networks").transformer()
    library, code = run_as_litert(data, board, tmp_path)
    # without a tensor of 32-bit exponentials, eight times as large as the probabilities
    assert library.summary.arena_bytes < 16 << 10
    assert "tvmrt_softmax_i8_rows(" in code


@pytest.mark.slow
@pytest.mark.parametrize("board", ["cortex-m4", "cortex-m55"])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_every_kind_of_convolution_has_the_bits_of_litert(board, dtype, tmp_path):
    pytest.importorskip("ai_edge_litert")
    machine = BOARDS[board]
    data = from_bench("layer_costs").network(dtype)
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


@pytest.mark.slow
def test_the_stack_of_residual_adds_has_a_bound(tmp_path):
    """A function pointer that the C compiler cannot resolve would leave it unknown."""
    if reason := BOARDS["cortex-m4"].missing_tool():
        pytest.skip(f"no {reason}")
    data = (FILES / "residual_int8.tflite").read_bytes()
    library = tvmrt.compile(data, target="cortex-m4f", interface_api="c", module_name="net")
    assert any("residual_full_range_rows" in text for text in library.sources.files.values())
    library.export(tmp_path / "net.tar")
    command = [sys.executable, "-m", "tvmrt", "inspect", str(tmp_path / "net.tar"), "--json"]
    done = subprocess.run(command, check=True, capture_output=True)
    (stack,) = json.loads(done.stdout)["footprint"]["stack"].values()
    assert 0 < stack["bytes"] < 2000
