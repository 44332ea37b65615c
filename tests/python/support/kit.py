"""Run the checks of ``tvmrt.conformance``; skip tests if it is not installed."""

from __future__ import annotations

from typing import Any

import pytest


def check(name: str, *arguments: Any, **options: Any) -> list[Any]:
    """Return the findings of one check."""
    return pytest.importorskip(f"tvmrt.conformance.{name}").check(*arguments, **options)
