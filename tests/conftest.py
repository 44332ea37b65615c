"""Fixtures that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """The folder of real networks with golden outputs that the variable TVMRT_MODELS names."""
    folder = os.environ.get("TVMRT_MODELS")
    if not folder:
        pytest.skip("set TVMRT_MODELS to a folder of networks to run this test")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"TVMRT_MODELS names {folder}, which is no folder")
    return path
