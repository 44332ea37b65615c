"""Skip tests of this folder whose reference runtimes are too old."""

from __future__ import annotations

from pathlib import Path

import judge_versions
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests of this folder that the installed reference runtimes cannot check."""
    judge_versions.skip_misjudged(items, Path(__file__).parent)
