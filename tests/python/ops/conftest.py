"""These tests need judges that are new enough."""

from __future__ import annotations

from pathlib import Path

import judges
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of this folder that the judges installed cannot judge."""
    judges.skip_misjudged(items, Path(__file__).parent)
