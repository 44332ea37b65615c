"""Fixtures of the kernel tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the C files and libraries of the tests."""
    return tmp_path_factory.mktemp("kernels")
