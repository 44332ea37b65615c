"""A device with memory alone, as a fixture."""

from __future__ import annotations

import pytest
from unary import plugin

import tvmrt


@pytest.fixture(scope="session")
def far(tmp_path_factory):
    """The device of far_device.c, which a process has once, by its name."""
    tvmrt.load_device_plugin(str(plugin(tmp_path_factory.mktemp("far"), "far_device.c", "far")))
    return "far"
