"""The page about plug-ins in C: its example is built outside of the tree and used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import markdown_pages
import pytest
from markdown_pages import ROOT

PAGE = ROOT / "docs" / "how-to" / "write-a-plugin-in-c.md"
SOURCE = ROOT / "examples" / "plugin_c" / "acme.c"
USE = """
import sys
import numpy as np
import tvmrt

names = tvmrt.get_global_func("tvmrt.plugin.names")
assert "acme " not in names()
twice = tvmrt.get_global_func("acme.twice")
assert twice(21) == 42
assert "acme " in names()
try:
    twice("text")
except TypeError as error:
    assert "takes one int" in str(error)
else:
    raise AssertionError
unload = tvmrt.get_global_func("tvmrt.plugin.unload")
try:
    unload("acme")
except ValueError as error:
    assert "a reference to its function 'acme.twice'" in str(error)
else:
    raise AssertionError
del twice
unload("acme")
assert "acme " not in names()
assert "acme" in tvmrt.runtime.list_devices() or tvmrt.get_global_func("tvmrt.device.find")("acme")
assert "acme " in names()
"""


def _commands():
    return [block.text for block in markdown_pages.blocks(PAGE) if block.language == "sh"]


def _environment(**more):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the example, built by the page's first block."""
    made = tmp_path_factory.mktemp("acme")
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    shutil.copy(SOURCE, made)
    build = _commands()[0].replace("-Wextra", "-Wextra -Werror")
    subprocess.run(["sh", "-eu", "-c", build], cwd=made, env=_environment(), check=True)
    return made


def test_commands_of_the_page_use_the_plugin(folder):
    command = ["sh", "-eu", "-c", _commands()[1]]
    done = subprocess.run(
        command, cwd=folder, env=_environment(), check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[0] == "42"


def test_plugin_is_loaded_on_demand_and_unloaded(folder):
    environment = _environment(TVMRT_PLUGIN_PATH=str(folder / "plugins"))
    subprocess.run([sys.executable, "-c", USE], env=environment, check=True)


def test_plugin_of_another_version_is_refused_with_both(folder, tmp_path):
    source = (folder / "acme.c").read_text().replace("TVMRT_PLUGIN_ABI,", "TVMRT_PLUGIN_ABI + 1,")
    (tmp_path / "acme.c").write_text(source)
    environment = _environment()
    subprocess.run(["sh", "-eu", "-c", _commands()[0]], cwd=tmp_path, env=environment, check=True)
    code = "import tvmrt; tvmrt.get_global_func('acme.twice')"
    environment["TVMRT_PLUGIN_PATH"] = str(tmp_path / "plugins")
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "version 2 of the plug-in interface, this runtime has version 1" in done.stderr
