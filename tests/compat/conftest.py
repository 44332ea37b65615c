"""Fixtures of the tests with artefacts of TVM 0.8 to 0.18."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from artefacts import toolchain

import tvmrt


@pytest.fixture
def build(tmp_path: Path) -> Callable[..., tvmrt.runtime.Module]:
    """Compile files of the artefacts' folder to a library and load it."""

    def load(*names: str | Path, **options: Any) -> tvmrt.runtime.Module:
        files = [toolchain.source(n) if isinstance(n, str) else n for n in names]
        number = len(list(tmp_path.glob("library*.so")))
        path = toolchain.shared_library(tmp_path / f"library{number}.so", *files, **options)
        return tvmrt.runtime.load_module(path)

    return load


@pytest.fixture
def register() -> Iterator[Callable[[str, Callable[..., Any]], None]]:
    """Register global functions for the duration of one test."""
    names: list[str] = []

    def add(name: str, function: Callable[..., Any]) -> None:
        tvmrt.register_func(name, function, override=True)
        names.append(name)

    yield add
    for name in names:
        tvmrt.runtime.remove_global_func(name)


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tvmrt.runtime.Module:
    """Return a network's operators without a module tree."""
    path = tmp_path_factory.mktemp("plain") / "plain.so"
    source = toolchain.source("llvm_graph.c")
    return tvmrt.runtime.load_module(toolchain.shared_library(path, source, defines=["MINOR=18"]))
