"""Every ``.tflite`` network of the tests through crt, on this machine and on a board in QEMU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert")

import builds_here

ASKED = "TVMRT_CRT_NETWORKS"  # all tests of the folder run once to record their networks
pytestmark = pytest.mark.skipif(ASKED not in os.environ, reason=f"{ASKED} is not set")

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """The networks that the tests of this folder make."""
    folder = tmp_path_factory.mktemp("recorded")
    env = {**os.environ, "RECORD_TFLITE": str(folder), "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "record_networks", str(HERE),
               "--deselect", str(Path(__file__)), "-m", "slow or not slow"]  # fmt: skip
    subprocess.run(command, env=env, check=False, capture_output=True)
    assert len(list(folder.glob("*.tflite"))) > 60
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("build", ["crt+host+aot+c+-O2+gcc", "crt+cortex-m4+aot+c+-O2+gcc"])
def test_every_network_of_the_tests(build, recorded):
    builds_here.skip_without_tools(build)
    command = [sys.executable, str(HERE / "crt_networks.py"), build, str(recorded)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
