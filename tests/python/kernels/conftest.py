"""Fixtures of the kernel tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tests' C files and libraries go."""
    return tmp_path_factory.mktemp("kernels")
