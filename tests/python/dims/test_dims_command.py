"""The command line with dynamic dimensions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from dynamic_networks import CASES, FLOAT, INT64, Draft
from dynamic_shape_networks import NETWORKS
from test_runtime_checks import area_attention
from test_size_constraints import encoder_decoder
from unary import plugin


def command(*arguments):
    """Run the command in its own process."""
    words = [sys.executable, "-m", "tvmrt", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


COMMANDS = [
    pytest.param(["--dim", "batch=8"], "'batch=8' does not declare a dimension; write NAME=LOW..HI",
                 id="one number"),
    pytest.param(["--dim", "batch"], "'batch' does not declare a dimension", id="a name"),
    pytest.param(["--shape", "x=0..3"], "does not have the form INPUT=DIM", id="shape"),
    pytest.param(["--shape", "x=rows,16"], "'rows' does not declare a dimension",
                 id="a name in a shape"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, expected", COMMANDS)
def test_command_reports_wrong_dims(arguments, expected, tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(CASES["perceptron"].make(), path)
    done = command("compile", path, "-o", tmp_path / "o.so", *arguments)
    assert done.returncode == 2
    assert expected in " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["picture", "skip", "matching", "fixed_rows", "multiples"])
def test_commands_take_open_dimensions(name, tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(NETWORKS[name].make(), path)
    for arguments in (["compile", path, "-o", tmp_path / "net.so"], ["verify", path],
                      ["bench", path, "--seconds", "0.01"], ["inspect", path],
                      ["inspect", tmp_path / "net.so"]):  # fmt: skip
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
        assert "note" not in done.stderr
        assert "2147483647" not in done.stdout
        if arguments[0] == "compile":
            assert "planned in each run" in done.stdout


@pytest.mark.slow
def test_a_run_that_needs_too_much_memory_names_its_bytes(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(NETWORKS["skip"].make(), path)
    done = command("compile", path, "-o", tmp_path / "net.so", "--max-memory", "100000")
    assert done.returncode == 0, done.stderr
    done = command("run", tmp_path / "net.so", "--random")
    assert done.returncode == 2
    assert re.search(r"needs \d+ bytes for tensors, and the limit is \d+", done.stderr), done.stderr


@pytest.mark.slow
def test_fixed_axis_may_be_declared_dynamic(tmp_path, monkeypatch):
    source = Path(__file__).with_name("any_size_device.c")
    plugin(tmp_path, source, "any_size", 'NAME="any_size"')
    monkeypatch.setenv("TVMRT_DEVICE_PATH", str(tmp_path))
    d = Draft()
    model = d.model({"x": (FLOAT, [4, 3])}, {d.node("Relu", ["x"]): FLOAT})
    model.graph.output[0].type.CopyFrom(model.graph.input[0].type)
    onnx.save(model, tmp_path / "net.onnx")
    sizes = ["--shape", "x=rows<=8,3"]
    device = ["-o", tmp_path / "net.so", "--device", "any_size"]
    done = command("compile", tmp_path / "net.onnx", *device, *sizes)
    assert done.returncode == 0, done.stderr
    assert "2 tensors of 192 B cross region boundaries" in done.stdout
    done = command("verify", tmp_path / "net.onnx", "--shape", "x=8,3")
    assert done.returncode == 0, done.stderr
    assert "agree" in done.stdout


@pytest.mark.slow
def test_the_command_compiles_runs_verifies_and_times(tmp_path):
    path, library = tmp_path / "net.onnx", tmp_path / "net.so"
    onnx.save(CASES["encoder"].make(), path)
    open_ = ["--dim", "batch=1..3", "--dim", "seq<=40"]

    def run(*arguments):
        done = command(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("compile", path, "-o", library, *open_)
    explained = run("compile", path, "-o", library, *open_, "--explain")
    assert "batch x seq x 32" in explained
    summary = json.loads(run("compile", path, "-o", library, *open_, "--explain", "--json"))
    assert summary["output"] == str(library)
    report = run("inspect", library)
    assert re.search(r"batch +1 +3\n", report) and re.search(r"seq +1 +40\n", report)
    assert "batch x seq x 32" in report
    inputs = CASES["encoder"].inputs(np.random.default_rng(0), {"batch": 2, "seq": 7})
    np.savez(tmp_path / "in.npz", **inputs)
    run("run", library, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert {a.shape[:2] for a in np.load(tmp_path / "out.npz").values()} == {(2, 7), (2, 32)}
    message = json.loads(run("verify", path, *open_, "--json"))
    assert message["wrong"] == 0
    parts = {row["part"].partition(" at ")[2] for row in message["tensors"]}
    assert parts == {"batch=3, seq=40", "batch=1, seq=1", "batch=2, seq=20"}
    timed = json.loads(run("bench", path, *open_, "--seconds", "0.01", "--json"))
    assert len(timed["networks"]) == 3


def reshaped(tmp_path):
    """A Reshape to a target made of two inputs, one of them a scalar; its result is declared."""
    d = Draft()
    rows = d.node("Unsqueeze", ["rows", d.constant([0], np.int64)])
    target = d.node("Concat", [rows, d.node("Cast", ["columns"], to=INT64)], axis=0)
    y = d.node("Reshape", [d.node("Relu", ["x"]), target])
    inputs = {"x": (FLOAT, ["n", 4]), "rows": (INT64, []), "columns": (onnx.TensorProto.INT32, [1])}
    model = d.model(inputs, {y: FLOAT})
    result = onnx.helper.make_tensor_value_info(y, FLOAT, ["a", "b"])
    model.graph.output[0].CopyFrom(result)
    onnx.save(model, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def test_verify_asks_for_inputs_when_random_ones_fail(tmp_path):
    path = reshaped(tmp_path)
    done = command("verify", path, "--dim", "n=6..6", "--dim", "a<=8", "--dim", "b<=24")
    assert done.returncode == 2
    assert "were random: give suitable ones with --inputs IN.npz" in " ".join(done.stderr.split())


@pytest.mark.slow
def test_verify_uses_valid_sizes(tmp_path):
    """The largest, the smallest and one other valid size."""
    path = tmp_path / "net.onnx"
    onnx.save(area_attention(False), path)
    done = command("verify", path, "--dim", "n=1..2", "--dim", "h=2..15", "--dim", "w=3..15")
    assert done.returncode == 0, done.stderr
    assert "sizes at which (h * w) is a multiple of 4, as node" in done.stderr
    tried = set(re.findall(r"outputs at h=(\d+), n=(\d+), w=(\d+)", done.stdout))
    assert len(tried) == 3
    assert all(int(h) * int(w) % 4 == 0 for h, _, w in tried)
    onnx.save(encoder_decoder(), path)
    done = command(
        "verify", path, "--dim", "batch=1..1", "--dim", "height=5..22", "--dim", "width=8..8"
    )
    assert done.returncode == 0, done.stderr
    assert {"8", "12", "20"} == set(re.findall(r"outputs at height=(\d+)", done.stdout))
