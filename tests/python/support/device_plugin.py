"""Device plug-ins built from one C source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TVMRT = [sys.executable, "-m", "tvmrt"]


def built(source: Path, *flags: str) -> Path:
    """Compile the plug-in of a C device."""
    plugin = source.with_name(f"libtvmrt_device_{source.stem}.so")
    cflags = subprocess.check_output([*TVMRT, "config", "--cflags"], text=True).split()
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *cflags, *flags]
    subprocess.run([*command, source, "-o", plugin], check=True)
    return plugin
