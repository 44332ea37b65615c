"""Builds of the matrix (tests/fuzz/builds.py) on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fuzz"))


def skip_without_tools(text: str) -> None:
    """Skip the test if this machine lacks the compiler or the emulator of a build."""
    import builds

    (build,) = builds.selected([text])
    missing = build.missing()
    if missing:
        pytest.skip(f"{missing} is not installed")
