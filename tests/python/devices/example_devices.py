"""The devices of examples/devices, built from their sources without an installation."""

from __future__ import annotations

import functools
import importlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tvmrt import libinfo, runtime

EXAMPLES = Path(__file__).parents[3] / "examples" / "devices"
FLAGS = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
_folder = tempfile.TemporaryDirectory(prefix="tvmrt-example-devices-")


@functools.cache
def load(name: str) -> Path:
    """Build a device's package in a folder of the Python path, and load its plug-in; once in a
    process. Return the plug-in's path."""
    if sys.platform == "win32":
        pytest.skip("the examples of devices need POSIX")
    package = Path(_folder.name) / f"tvmrt_{name}"
    shutil.copytree(EXAMPLES / name / package.name, package)
    plugin = package / f"libtvmrt_device_{name}.so"
    includes = [f"-I{p}" for p in libinfo.find_include_path()]
    sources = sorted((EXAMPLES / name / "src").glob("*.c"))
    subprocess.run(["cc", *FLAGS, *includes, *sources, "-lm", "-o", plugin], check=True)
    if _folder.name not in sys.path:
        sys.path.append(_folder.name)
    importlib.import_module(package.name)
    runtime.load_device_plugin(plugin)
    return plugin
