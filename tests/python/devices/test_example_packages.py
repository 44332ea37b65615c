"""Test that pip installs the packages of examples/devices, and that compilers find the devices."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from example_devices import EXAMPLES

USE = """
import numpy as np, tvmrt
from onnx import parser
text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Add(x, x) }'
model = parser.parse_model(text)
for device in ("tpu", "examplejson"):
    network = tvmrt.load(model, devices=[device], require_device=[f"{device}:Add"], cache=False)
    print(device, *network(np.float32([1, 2])))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the examples of devices need POSIX")
def test_packages_are_installed_and_found_by_their_entry_points(tmp_path):
    pytest.importorskip("mesonpy")
    target = tmp_path / "installed"
    packages = [shutil.copytree(EXAMPLES / n, tmp_path / n) for n in ("tpu", "examplejson")]
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps"]
    subprocess.run([*command, "--no-index", "--target", target, *packages], check=True)
    done = subprocess.run(
        [sys.executable, "-c", USE], env={**os.environ, "PYTHONPATH": str(target)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["tpu 2.0 4.0", "examplejson 2.0 4.0"], done.stderr
