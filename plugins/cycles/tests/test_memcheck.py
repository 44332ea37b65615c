"""Test the branches and addresses on inputs that ``tvmrt inspect --board --timing`` finds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import boards
import numpy as np
import pytest

from tvmrt.cli import main
from tvmrt.error import CompileError
from tvmrt.plugins.cycles import memcheck

EXAMPLES = Path(__file__).parents[3] / "examples"
needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None, reason="valgrind is not installed"
)
INT8 = {"QuantizeLinear", "QLinearConv", "DynamicQuantizeLinear"}
MOST_MACS = 100_000_000  # networks with more take minutes


def needs(target):
    tool = boards.BOARDS[target].missing_tool()
    return pytest.mark.skipif(tool is not None, reason=f"{tool} is not installed")


def timing(capsys, path, board):
    capsys.readouterr()
    assert main(["inspect", str(path), "--board", board, "--timing", "--json"]) == 0
    (network,) = json.loads(capsys.readouterr().out)["networks"].values()
    return network["timing"]


def layers(rows):
    return {row["layer"] for row in rows}


def found_in(path, board, folder):
    """Return memcheck's result alone, without the runs in QEMU."""
    from tvmrt.plugins.cycles import board_estimate

    options = board_estimate.BoardOptions(board, None, None, None, 1.0, None)
    machine, _ = board_estimate._board(options)
    archive = board_estimate._compile_network(path, options, folder)
    (network,) = board_estimate._networks(archive, machine, options, folder / "net")
    return memcheck.check(network, machine, board_estimate._inputs(network, options), folder)


def save(path, text):
    onnx = pytest.importorskip("onnx")
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{text}'), path)
    return path


def test_without_valgrind_the_reason_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CompileError, match=r"^valgrind is not installed$"):
        memcheck.check(None, None, [], tmp_path)


@pytest.mark.slow
@needs_valgrind
@needs("cortex-m4")
def test_branch_that_no_compared_input_takes_is_found(capsys, tmp_path):
    """All inputs that QEMU compares execute the same instructions, and no others would tell."""
    path = save(
        tmp_path / "net.onnx",
        """net (int32[64] x) => (int32[64] y) {
            rare_sum = Constant<value_int = 4711>()
            rare_sum32 = Cast<to = 6>(rare_sum)
            sum = ReduceSum<keepdims = 0>(x)
            rare = Equal(sum, rare_sum32)
            y = If(rare)<
                then_branch = a () => (int32[64] t) { t = Mul(x, x) },
                else_branch = b () => (int32[64] t) { t = Add(x, x) }>
        }""",
    )
    found = timing(capsys, path, "cortex-m4")
    assert found["same_instructions"] and not found["layers"]
    assert layers(found["memcheck"]["branches"]) == {"between operators"}
    assert found["worst_cycles"] is None
    loop = r"operator (\w+): function tvmgen_default_\1 has a loop whose count"
    assert re.match(loop, found["reason"])
    assert main(["inspect", str(path), "--board", "cortex-m4", "--timing"]) == 0
    text = capsys.readouterr().out
    assert "branches on inputs   between operators (tvmgen_default___main__); memcheck" in text


@pytest.mark.slow
@needs_valgrind
@needs("cortex-m4")
def test_layers_are_named_after_their_operators(tmp_path):
    """The values of a table, whose addresses depend on the input, count as inputs, too."""
    onnx = pytest.importorskip("onnx")
    path = save(
        tmp_path / "net.onnx",
        """net (float[1, 32] x) => (int64[1] best) {
            q = QuantizeLinear(x, scale, zero)
            d = DequantizeLinear(q, scale, zero)
            s = Sigmoid(d)
            table = QuantizeLinear(s, fine, zero)
            back = DequantizeLinear(table, fine, zero)
            best = ArgMax<axis = 1, keepdims = 0>(back)
        }""",
    )
    model = onnx.load(path)
    for name, value in (("scale", 0.05), ("fine", 1 / 256)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(value), name))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.int8(0), "zero"))
    onnx.save(model, path)
    found = found_in(path, "cortex-m4", tmp_path)
    assert layers(map(vars, found.branches)) == {"ArgMax_best"}
    assert "QuantizeLinear_table" in layers(map(vars, found.addresses))


@pytest.mark.slow
@needs_valgrind
@needs("cortex-m4")
def test_int8_networks_have_no_branches_on_inputs(tmp_path):
    """Integer layers have none; float layers of these networks search for maxima with branches."""
    folder = Path(os.environ.get("TVMRT_MODELS", ""))
    if not (folder / "index.json").is_file():
        pytest.skip("TVMRT_MODELS is not set")
    rows = json.loads((folder / "index.json").read_text())
    paths = [EXAMPLES / "digits" / "digits_int8.onnx", EXAMPLES / "tflite" / "residual_int8.tflite"]
    paths += [EXAMPLES / "keras" / "digits_int8.tflite"]
    paths += [
        folder / f"{name}.onnx"
        for name, row in rows.items()
        if INT8 & {*row["ops"]} and row["macs"] <= MOST_MACS
    ]
    verdicts = {}
    for path in paths:
        (tmp_path / path.name).mkdir()
        verdicts[path.name] = found_in(path, "cortex-m4", tmp_path / path.name)
    free = {name for name, found in verdicts.items() if not found.branches}
    assert {path.name for path in paths[:3]} < free and 2 * len(free) > len(verdicts)
    for name, found in verdicts.items():
        functions = {place.function for place in found.branches}
        assert all(re.search(r"(max|min)(_f32|_\d+)?$", each) for each in functions), (
            name,
            functions,
        )


@pytest.mark.slow
@needs_valgrind
@needs("riscv32")
def test_processor_without_conditional_moves_branches_to_clamp(capsys, tmp_path):
    probe = ["gcc", "-m32", "-static", "-x", "c", "-", "-o", str(tmp_path / "probe")]
    done = subprocess.run(probe, input=b"int main(void) { return 0; }", check=False)
    if done.returncode != 0:
        pytest.skip("gcc has no 32-bit libraries")
    found = timing(capsys, EXAMPLES / "digits" / "digits_int8.onnx", "riscv32")
    assert "-march=i486" in found["memcheck"]["build"]
    # QEMU sees nothing that memcheck does not
    differing = {row["name"] for row in found["layers"]}
    assert differing and differing <= layers(found["memcheck"]["branches"])
    assert {"conv1", "pointwise"} <= layers(found["memcheck"]["branches"])
    # the C library of the compiler: float division on a processor without floats
    m0 = timing(capsys, EXAMPLES / "digits" / "digits_int8.onnx", "cortex-m0plus")
    assert {"layer": "quantize", "function": "__aeabi_fdiv"} in m0["library"]
    assert "between operators" not in layers(m0["library"])
