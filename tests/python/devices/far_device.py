"""Fixture of a device with memory of its own."""

from __future__ import annotations

import pytest
from unary import plugin

import tvmrt

_loaded: list[str] = []  # in this process, whichever test loads it first


@pytest.fixture(scope="session")
def far(tmp_path_factory):
    """Return the name of the device of far_device.c, which a process loads once."""
    if not _loaded:
        tvmrt.load_device_plugin(str(plugin(tmp_path_factory.mktemp("far"), "far_device.c", "far")))
        _loaded.append("far")
    return _loaded[0]
