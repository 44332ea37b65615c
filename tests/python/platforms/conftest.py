"""The fixtures of Windows."""

from windows import built, wine  # noqa: F401
