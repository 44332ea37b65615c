"""Fixtures: libraries that the tests of the Python layer load."""

from __future__ import annotations

from pathlib import Path

import libraries
import pytest

import tvmrt


@pytest.fixture(scope="session")
def toolbox_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the library of data/toolbox.c."""
    folder = tmp_path_factory.mktemp("toolbox")
    return libraries.compile_library(libraries.DATA / "toolbox.c", folder / "toolbox.so")


@pytest.fixture(scope="session")
def toolbox(toolbox_path: Path) -> tvmrt.runtime.Module:
    """Load the packed functions of data/toolbox.c."""
    return tvmrt.runtime.load_module(toolbox_path)


@pytest.fixture(scope="session")
def graph_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build data/network.c as a library for the graph executor."""
    folder = tmp_path_factory.mktemp("graph")
    source = libraries.DATA / "network.c"
    return libraries.compile_library(source, folder / "network.so", libraries.graph_blob())


@pytest.fixture(scope="session")
def aot_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build data/network.c as a library for the AOT executor."""
    folder = tmp_path_factory.mktemp("aot")
    source = libraries.DATA / "network.c"
    return libraries.compile_library(source, folder / "network.so", libraries.aot_blob())
