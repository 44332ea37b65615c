"""Fixtures for the tests of tuning."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def digits() -> Path:
    """Return the folder of the digits networks."""
    return Path(__file__).parents[3] / "examples" / "digits"
