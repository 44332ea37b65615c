"""Build wheels from the source tree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def _configured() -> str:
    """Return the plug-ins of cibuildwheel's settings in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return f"-Csetup-args={re.search(r'setup-args = ..(-Dplugins=[a-z,]+)', text)[1]}"


def built_wheel(folder: Path, device: str | None = None) -> Path:
    """Build the package's or a device's wheel as published, but in no container."""
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "-q"]
    more = ["--no-build-isolation", "-w", str(folder)]
    setting = _configured() if device is None else f"-Cdevice={device}"
    subprocess.run([*command, *more, setting], check=True)
    (found,) = folder.glob("tvmrt-*.whl" if device is None else f"tvmrt_{device}-*-py3-none-*.whl")
    return found
