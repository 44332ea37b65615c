"""Fixtures of the Windows tests."""

from windows import built, wine  # noqa: F401
