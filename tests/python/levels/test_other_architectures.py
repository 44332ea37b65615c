"""Libraries for AArch64 Linux, run in an emulator through RPC.

The tests for 32-bit ARM and RISC-V are in test_riscv_vector.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import networks_under_qemu
import pytest

import tvmrt
from tvmrt.cli import app

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits"


@pytest.fixture(scope="module")
def machine(machines):
    """Return a target and a server on such a machine."""
    with machines.serve("aarch64-linux") as port:
        place = ["--rpc", f"127.0.0.1:{port}"]
        yield SimpleNamespace(target="aarch64-linux", name="aarch64", place=place, port=port)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["digits_f32", "digits_int8"])
def test_network_is_correct_on_the_target(machine, network, capsys):
    """Compare with onnxruntime on the host."""
    command = ["verify", str(DIGITS / f"{network}.onnx"), "--target", machine.target, "--json"]
    assert app.run([*command, *machine.place]) == app.DONE
    found = json.loads(capsys.readouterr().out)
    assert "probabilities" in [each["tensor"] for each in found["tensors"]]
    assert found["wrong"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("network", networks_under_qemu.turns("aarch64-linux"))
def test_real_network_is_correct_on_the_target(machine, network, models_dir, tmp_path):
    networks_under_qemu.check(models_dir, network, machine.target, machine.port, tmp_path)


@pytest.mark.slow
def test_loading_on_the_host_names_both_machines(machine, tmp_path):
    path = tmp_path / "net.so"
    tvmrt.compile(DIGITS / "digits_f32.onnx", target=machine.target).export_library(path)
    sentence = f"net.so: it is for {machine.name}, this machine is .*; compile it for the target"
    with pytest.raises(OSError, match=sentence):
        tvmrt.runtime.load_module(path)


def test_missing_compiler_error_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    library = tvmrt.compile(DIGITS / "digits_f32.onnx", target="riscv64-linux")
    with pytest.raises(
        tvmrt.error.CompileError,
        match=r"no C compiler for riscv64-linux-gnu was found .*pip install 'tvmrt\[cross\]'",
    ):
        library.export_library(tmp_path / "net.so")
