"""Test that the device dnnl does not duplicate the weights of a network in memory."""

from __future__ import annotations

import sys

import pytest
from device_here import have
from memory_growth import check_large

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.mark.slow
def test_a_network_of_62_megabytes(tmp_path):
    have("dnnl")
    check_large(tmp_path, "dnnl")
