"""What tests of devices share."""

from __future__ import annotations

import pytest
from unary import plugin

import tvmrt


@pytest.fixture(scope="session")
def far(tmp_path_factory):
    """The device of far_device.c, which a process has once, by its name."""
    tvmrt.load_device_plugin(str(plugin(tmp_path_factory.mktemp("far"), "far_device.c", "far")))
    return "far"


@pytest.fixture(scope="module")
def dnnl():
    """The test is skipped where the device dnnl is not built."""
    if not tvmrt.get_global_func("tvmrt.device.find")("dnnl"):
        pytest.skip("the device dnnl is not built: oneDNN is missing")
