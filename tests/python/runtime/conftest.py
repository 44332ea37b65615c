"""The libraries that the tests of the Python layer load."""

from __future__ import annotations

import contextlib
import locale
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import tvmrt

sys.path.insert(0, str(Path(__file__).parent))

import libraries


@pytest.fixture(scope="session")
def toolbox_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of data/toolbox.c."""
    folder = tmp_path_factory.mktemp("toolbox")
    return libraries.compile_library(libraries.DATA / "toolbox.c", folder / "toolbox.so")


@pytest.fixture(scope="session")
def toolbox(toolbox_path: Path) -> tvmrt.runtime.Module:
    """Packed functions of every shape."""
    return tvmrt.runtime.load_module(toolbox_path)


@pytest.fixture(scope="session")
def graph_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/network.c as a library for the graph executor."""
    folder = tmp_path_factory.mktemp("graph")
    source = libraries.DATA / "network.c"
    return libraries.compile_library(source, folder / "network.so", libraries.graph_blob())


@pytest.fixture(scope="session")
def aot_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/network.c as a library for the AOT executor."""
    folder = tmp_path_factory.mktemp("aot")
    source = libraries.DATA / "network.c"
    return libraries.compile_library(source, folder / "network.so", libraries.aot_blob())


@pytest.fixture
def decimal_comma(tmp_path, monkeypatch):
    """Makes the process write 1,5 for 1.5 while it is entered, as programs may choose."""
    if not shutil.which("localedef"):
        pytest.skip("no localedef, which makes locales")
    made = tmp_path / "de_DE.UTF-8"
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", made]
    subprocess.run(command, capture_output=True, check=False)
    if not made.is_dir():
        pytest.skip("no sources of locales")
    monkeypatch.setenv("LOCPATH", str(tmp_path))

    @contextlib.contextmanager
    def entered():
        locale.setlocale(locale.LC_NUMERIC, "de_DE.UTF-8")
        try:
            assert locale.localeconv()["decimal_point"] == ","
            yield
        finally:
            locale.setlocale(locale.LC_NUMERIC, "C")

    return entered
