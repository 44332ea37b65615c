"""Helpers of the core's tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "runtime"))

from library_fixtures import graph_library  # noqa: F401
