"""The extension module compiled for interpreters without a GIL; no such interpreter is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from tvmrt import libinfo

SOURCES = Path(__file__).parents[3] / "python" / "src"
# Macros that the headers of such an interpreter define.
WITHOUT = ["-DPy_GIL_DISABLED=1", "-DPy_mod_gil=4", "-DPy_MOD_GIL_NOT_USED=((void*)1)"]
# Variables that are written, and why there is no race.
GUARDED = {
    "hooks": "set while tvmrt.runtime is imported",
    "dtype_name": "set while the module is made",
    "num_waiting": "written with a GIL only",
    "waiting": "used with a GIL only",
    "num_recorded_errors": "atomic",
    "known": "atomic",
    "texts": "atomic",
    "released_state": "of a thread",
    "recorded_exception": "of a thread",
    "recorded_text": "of a thread",
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return the compiler command and the folder of its object files."""
    compiler, headers = shutil.which("cc"), Path(sysconfig.get_paths()["include"])
    if compiler is None or shutil.which("nm") is None or not (headers / "Python.h").exists():
        pytest.skip("needs a C compiler, nm and Python's headers")
    includes = [headers, *libinfo.find_include_path()]
    command = [
        compiler,
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-fPIC",
        *(f"-I{path}" for path in includes),
        *WITHOUT,
    ]
    folder = tmp_path_factory.mktemp("without_gil")
    done = subprocess.run(
        [*command, "-Wall", "-Werror", "-c", *sorted(SOURCES.glob("*.c"))],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return command, folder


def test_module_declares_free_threading_support(compiled):
    command = [*compiled[0], "-E", "-P", SOURCES / "module.c"]
    done = subprocess.run(command, check=True, capture_output=True)
    assert re.search(rb"\{\s*4\s*,\s*\(\(void\s*\*\)\s*1\)\s*\}", done.stdout)


def test_module_variables_are_guarded(compiled):
    objects = sorted(compiled[1].glob("*.o"))
    assert len(objects) > 8
    out = subprocess.run(["nm", *objects], check=True, capture_output=True, text=True).stdout
    written = set(re.findall(r" [bBcC] (\w+)", out))  # zero-initialised data
    assert written - set(GUARDED) == set()
