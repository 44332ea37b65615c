"""Fixtures shared with the core's tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "runtime"))
sys.path.insert(0, str(Path(__file__).parents[3] / "tests" / "python" / "devices"))

from far_device import far  # noqa: F401
from library_fixtures import toolbox, toolbox_path  # noqa: F401
