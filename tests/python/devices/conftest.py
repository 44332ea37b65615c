"""Fixtures of the device tests."""

from __future__ import annotations

from far_device import far  # noqa: F401
