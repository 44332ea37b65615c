"""Bfloat16 matmuls by BFMMLA on an emulated processor, and the results without that instruction."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import bf16_network
import networks_under_qemu
import numpy as np
import onnx
import pytest
from onnx import helper

import tvmrt
from tvmrt.cli import app
from tvmrt.compiler import processor
from tvmrt.compiler.codegen.target import get_target

PROCESSORS = {"bf16": "max", "neon": "neoverse-n1"}  # level: a processor that selects it


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if shutil.which("aarch64-linux-gnu-gcc") is None:
        pytest.skip("aarch64-linux-gnu-gcc is not installed")
    path = tmp_path_factory.mktemp("arm") / "net.so"
    made = tvmrt.compile(
        bf16_network.products(), executor="aot", target="aarch64-linux", precision="bf16",
        levels=list(PROCESSORS),
    )  # fmt: skip
    made.export_library(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("level", PROCESSORS)
def test_every_processor_uses_bf16_rounded_operands(
    level, library, machines, program, tmp_path, capsys
):
    """BFMMLA rounds to odd in between; ``verify`` prints the error against float32 there."""
    done = machines.run("aarch64-linux", PROCESSORS[level], program, library)
    assert (done.returncode, done.stdout) == (0, level)
    with machines.serve("aarch64-linux", PROCESSORS[level]) as port:
        outputs = networks_under_qemu.run(port, library, bf16_network.FEEDS)
        right = bf16_network.right()
        for name, found in zip(bf16_network.OUTPUTS, outputs):
            np.testing.assert_allclose(found, right[name], rtol=2e-5, atol=2e-5, err_msg=name)
        if level == "bf16":
            off = _verify_error(port, tmp_path / "net.onnx", capsys)
            assert all(1e-4 < each < 2**-6 for each in off.values()), off


def _verify_error(port: int, path: Path, capsys) -> dict[str, float]:
    """Return the error that ``verify`` prints, relative to the largest value."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    initializers = {"w": bf16_network.WEIGHTS}
    onnx.save(bf16_network.model_of(nodes, initializers, {"x": [8, 33]}, ["y"]), path)
    options = ["--precision", "bf16", "--target", "aarch64-linux", "--levels", "bf16"]
    assert app.run(["verify", str(path), *options, "--rpc", f"127.0.0.1:{port}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return {each["part"]: each["verdict"]["relative"] for each in found["tensors"]}


@pytest.mark.parametrize(("word", "kind"), [("bf16", "bf16_mmla"), ("asimd", "")])
def test_native_library_uses_bfmmla_if_available(word, kind, monkeypatch):
    monkeypatch.setattr(processor, "machine", lambda: "aarch64")
    monkeypatch.setattr(processor, "flags", lambda: frozenset({"asimddp", "i8mm", word}))
    assert get_target("native").bf16 == kind


def test_bfmmla_is_only_in_its_level(library):
    command = ["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", str(library)]
    code = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    functions, function = set(), ""
    for line in code.splitlines():
        if line.endswith(">:"):
            function = line.split("<")[1][:-2]
        elif "\tbfmmla" in line:
            functions.add(function)
    assert functions
    assert all("tile_bf16_mmla" in each for each in functions), functions
