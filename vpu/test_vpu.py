"""The device passes the conformance tests as a plug-in."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TVMRT = [sys.executable, "-m", "tvmrt"]


def test_conformance(tmp_path):
    plugin = tmp_path / "libtvmrt_device_vpu.so"
    flags = subprocess.check_output([*TVMRT, "config", "--cflags"], text=True).split()
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags]
    subprocess.run([*command, HERE / "vpu.c", "-o", plugin], check=True)
    subprocess.run([*TVMRT, "device", "test", plugin], check=True)
