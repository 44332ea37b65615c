"""The commands on ``.tflite`` files."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from tflite_case import FILES, Net

NETWORK = FILES / "residual_int8.tflite"


def _tvmrt(*words) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tvmrt", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_compile_and_run(tmp_path):
    library, inputs = tmp_path / "net.so", tmp_path / "in.npz"
    done = _tvmrt("compile", NETWORK, "-o", library)
    assert done.returncode == 0, done.stderr
    np.savez(inputs, x=np.zeros((1, 10, 10, 4), np.int8))
    done = _tvmrt("run", library, "--inputs", inputs, "--json")
    assert json.loads(done.stdout)["outputs"]["Identity"]["shape"] == [1, 4, 4, 12]


def test_inspect_tells_operators_with_versions_and_scales():
    found = json.loads(_tvmrt("inspect", NETWORK, "--json").stdout)
    assert found["format"] == "TensorFlow Lite" and found["can_be_imported"] == "yes"
    assert {"operator": "CONV_2D", "version": 3, "count": 4} in found["operators"]
    assert found["inputs"][0]["zero point"] == -7


def test_verify_holds_every_tensor():
    pytest.importorskip("ai_edge_litert")
    done = _tvmrt("verify", NETWORK, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["judge"] == "LiteRT's reference kernels"
    assert len(found["tensors"]) == 13 and found["wrong"] == 0


def test_verify_tells_one_step_of_an_integer_apart():
    pytest.importorskip("ai_edge_litert")
    from tvmrt.cli import tolerance

    right = np.zeros((3,), np.int8)
    assert tolerance.same(right, right).right
    assert not tolerance.same(right + np.int8(1), right).right


def test_what_cannot_be_compiled_is_one_sentence(tmp_path):
    pytest.importorskip("ai_edge_litert")
    net = Net()
    x, y = net.input((4,), "float32"), net.tensor((4,), "float32")
    net.op("UNIQUE", [x], [y])
    net.graph.outputs.append(y)
    path = tmp_path / "net.tflite"
    path.write_bytes(net.data())
    done = _tvmrt("compile", path, "-o", tmp_path / "net.so")
    assert done.returncode == 2 and "UNIQUE version 1" in done.stderr
    assert _tvmrt("compile", NETWORK, "-o", tmp_path / "n.so", "--dim", "b<=4").returncode == 2
    (tmp_path / "bad.tflite").write_bytes(b"nothing")
    assert "is no .tflite file" in _tvmrt("inspect", tmp_path / "bad.tflite").stderr
    assert "takes ONNX networks" in _tvmrt("bench", NETWORK).stderr
