"""What the tests of tuning share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def digits() -> Path:
    """The folder of the digits networks."""
    return Path(__file__).parents[3] / "examples" / "digits"
