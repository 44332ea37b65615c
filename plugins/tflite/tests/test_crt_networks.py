"""Test ``.tflite`` networks with the crt runtime, on this machine and on a board in QEMU.

They are the files of tests/data/tflite and, with ``TVMRT_CRT_NETWORKS`` set, every network that a
test of this folder makes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ai_edge_litert")

import builds_here

ASKED = "TVMRT_CRT_NETWORKS"  # all tests of the folder run once to record their networks
BUILDS = ("crt+host+aot+c+-O2+gcc", "crt+cortex-m4+aot+c+-O2+gcc")

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """Return the networks that the tests of this folder make."""
    folder = tmp_path_factory.mktemp("recorded")
    env = {**os.environ, "RECORD_TFLITE": str(folder), "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "record_networks", str(HERE),
               "--deselect", str(Path(__file__)), "-m", "slow or not slow"]  # fmt: skip
    subprocess.run(command, env=env, check=False, capture_output=True)
    assert len(list(folder.glob("*.tflite"))) > 60
    return folder


def check(build: str, *folders: Path) -> None:
    builds_here.skip_without_tools(build)
    command = [sys.executable, str(HERE / "crt_networks.py"), build, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("build", ["crt+host+aot+c+-O0+gcc", BUILDS[1]])
def test_every_file(build):
    check(build)


@pytest.mark.slow
@pytest.mark.skipif(ASKED not in os.environ, reason=f"{ASKED} is not set")
@pytest.mark.parametrize("build", BUILDS)
def test_every_network_of_the_tests(build, recorded):
    check(build, recorded)
