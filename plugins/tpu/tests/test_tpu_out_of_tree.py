"""Test that the folder of the device also builds outside of the source tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tvmrt import libinfo

SOURCES = sorted(Path(__file__).parents[1].glob("src/*.c"))
USE = "from tvmrt import runtime; runtime.load_device_plugin(%r); print(runtime.list_devices())"


@pytest.mark.skipif(sys.platform == "win32", reason="it needs POSIX")
def test_sources_build_as_a_plugin_against_the_headers(tmp_path):
    plugin = tmp_path / "libtvmrt_device_tpu.so"
    includes = [f"-I{p}" for p in libinfo.find_include_path()]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["cc", *flags, *includes, *SOURCES, "-lm", "-o", plugin], check=True)
    output = subprocess.check_output([sys.executable, "-c", USE % str(plugin)], text=True)
    assert "tpu" in output
