"""The checks of ``tvmrt.conformance``, for tests that are skipped where it is left out."""

from __future__ import annotations

from typing import Any

import pytest


def check(name: str, *arguments: Any, **options: Any) -> list[Any]:
    """The findings of one check."""
    return pytest.importorskip(f"tvmrt.conformance.{name}").check(*arguments, **options)
