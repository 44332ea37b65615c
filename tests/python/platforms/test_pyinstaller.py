"""A program that PyInstaller makes of a script: the wheel brings the hook that it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from wheels import built_wheel

import tvmrt

pytest.importorskip("mesonpy", reason="meson-python, which builds wheels, is not installed")

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
SCRIPT = """
import sys
import numpy as np
import tvmrt
print(tvmrt.load(sys.argv[1])(np.zeros((1, 1, 8, 8), np.float32)).argmax())
"""


@pytest.mark.slow
def test_program_runs_a_library(tmp_path):
    tvmrt.compile(DIGITS).export_library(tmp_path / "digits.so")
    (tmp_path / "digit.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    if subprocess.run([*pip, "pyinstaller"], capture_output=True, check=False).returncode:
        pytest.skip("there is no package index with PyInstaller")
    subprocess.run([*pip, built_wheel(tmp_path)], check=True)
    make = [python, "-m", "PyInstaller", "digit.py"]
    done = subprocess.run(make, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    program = [tmp_path / "dist" / "digit" / "digit", tmp_path / "digits.so"]
    # without the environment's packages and without a compiler
    said = subprocess.run(program, env={}, capture_output=True, text=True, check=False)
    expected = tvmrt.load(DIGITS)(np.zeros((1, 1, 8, 8), np.float32)).argmax()
    assert (said.stdout, said.stderr) == (f"{expected}\n", "")
