"""Test ``tvmrt device test`` for firmware-only devices, built and run where this machine can."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from tvmrt import devices
from tvmrt.cli import main
from tvmrt.conformance import firmware

MOCK_CMSIS_NN = Path(__file__).parents[2] / "cmsis_nn/tests/mock_cmsis_nn"
OPERATORS = {"Conv", "MatMul", "Add", "Mul"}


def found(device: str, only: tuple[str, ...] = ()) -> dict[str, firmware.Finding]:
    rows = firmware.check(devices.get(device), "operators", 1e-3, only)
    return {row.subject.removesuffix(" of int8"): row for row in rows}


def test_firmware_only_devices_are_recognised():
    assert firmware.is_for_firmware(devices.get("cmsis-nn"))
    assert not any(firmware.is_for_firmware(devices.get(name)) for name in ("cpu", "ccompiler"))


def test_every_operator_is_compared_with_onnxruntime(monkeypatch):
    monkeypatch.setenv("CMSIS_NN", str(MOCK_CMSIS_NN))
    rows = found("cmsis-nn")
    assert set(rows) >= OPERATORS
    assert all(row.passed and "largest error" in row.detail for row in rows.values())


def test_wrong_results_are_found(monkeypatch, tmp_path):
    shutil.copytree(MOCK_CMSIS_NN, tmp_path / "kernels")
    file = tmp_path / "kernels/Source/Kernels/elementwise.c"
    right = "const int32_t product = (input_1_vect[i]"
    text = file.read_text()
    assert text.count(right) == 1
    file.write_text(text.replace(right, f"{right} / 2"))
    monkeypatch.setenv("CMSIS_NN", str(tmp_path / "kernels"))
    rows = found("cmsis-nn", ("Mul", "Add"))
    assert not rows["Mul"].passed and "is off by" in rows["Mul"].detail
    assert rows["Add"].passed


def test_command_passes_for_firmware_only_devices(monkeypatch, capsys):
    monkeypatch.delenv("CMSIS_NN", raising=False)
    checks = ["--check", "operators", "--check", "threads", "--only", "Mul"]
    assert main(["device", "test", "cmsis-nn", *checks]) == 0
    said = capsys.readouterr().out
    assert "taken for firmware, not built: the network calls CMSIS-NN: set the environment" in said
    assert "left out: the device is for firmware alone" in said
    assert "2 of 2 passed" in said


@pytest.mark.skipif(importlib.util.find_spec("ethosu") is None, reason="needs vela")
def test_board_only_devices_are_named():
    (row,) = found("ethos-u", ("MaxPool",)).values()
    assert row.passed and "not run: it calls ethosu_" in row.detail
