"""The command on networks with open dimensions."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from dynamic_networks import CASES


def command(*arguments):
    """As a stranger runs it, in a process of its own."""
    words = [sys.executable, "-m", "tvmrt", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


COMMANDS = [
    pytest.param(["--dim", "batch=8"], "'batch=8' declares no dimension; write NAME=LOW..HIGH",
                 id="one number"),
    pytest.param(["--dim", "batch"], "'batch' declares no dimension", id="a name"),
    pytest.param(["--shape", "x=0..3"], "does not have the form INPUT=DIM", id="shape"),
    pytest.param(["--shape", "x=rows,16"], "'rows' declares no dimension", id="a name in a shape"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, expected", COMMANDS)
def test_the_command_says_what_is_wrong(arguments, expected, tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(CASES["perceptron"].make(), path)
    done = command("compile", path, "-o", tmp_path / "o.so", *arguments)
    assert done.returncode == 2
    assert expected in " ".join(done.stderr.split())


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
    told = run("inspect", library)
    assert re.search(r"batch +1 +3\n", told) and re.search(r"seq +1 +40\n", told)
    assert "batch x seq x 32" in told
    inputs = CASES["encoder"].inputs(np.random.default_rng(0), {"batch": 2, "seq": 7})
    np.savez(tmp_path / "in.npz", **inputs)
    run("run", library, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    assert {a.shape[:2] for a in np.load(tmp_path / "out.npz").values()} == {(2, 7), (2, 32)}
    said = json.loads(run("verify", path, *open_, "--json"))
    assert said["wrong"] == 0
    parts = {row["part"].partition(" at ")[2] for row in said["tensors"]}
    assert parts == {"batch=3, seq=40", "batch=1, seq=1", "batch=2, seq=20"}
    timed = json.loads(run("bench", path, *open_, "--seconds", "0.01", "--json"))
    assert len(timed["networks"]) == 3
