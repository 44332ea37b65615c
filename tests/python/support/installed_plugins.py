"""Plug-ins that a test installs instead of all others."""

from __future__ import annotations

import pytest

from tvmrt import plugin


def install(monkeypatch: pytest.MonkeyPatch, *plugins: plugin.Plugin) -> None:
    """Let tvmrt find these plug-ins alone, until the end of the test."""
    monkeypatch.setattr(plugin, "_tables", [])
    monkeypatch.setattr(plugin, "_discover", lambda _: ((each.name, each) for each in plugins))
