"""Fixtures for the tests of this device."""

from __future__ import annotations

import pytest

import tvmrt


@pytest.fixture(scope="module")
def dnnl():
    """Skip the test if the device dnnl is not built."""
    if not tvmrt.get_global_func("tvmrt.device.find")("dnnl"):
        pytest.skip("the device dnnl is not built: oneDNN is missing")
